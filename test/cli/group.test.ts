// Owns the proof that a process group is ended only if it is the one that was written down.

import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { endGroup, MARK, noteOf } from '../../src/cli/group.ts'
import { folderOf, gone, written } from './helpers.ts'

const cleanUps: (() => void)[] = []
afterEach(() => {
  for (const cleanUp of cleanUps.splice(0)) cleanUp()
})

/** A command in a group of its own, as `ax run` starts it. */
function start(command: string, mark: string) {
  const { folder, remove } = folderOf({})
  const child = spawn('/bin/sh', ['-c', command], {
    cwd: folder,
    env: { ...process.env, [MARK]: mark },
    detached: true,
    stdio: 'ignore',
  })
  cleanUps.push(remove, () => end(child))
  return { folder, child, pid: child.pid as number }
}

function end({ pid }: ChildProcess): void {
  try {
    process.kill(-(pid as number), 'SIGKILL')
  } catch {
    // It has ended already.
  }
}

function isAlive(pid: number): boolean {
  const stat = `/proc/${pid}/stat`
  if (existsSync('/proc/self'))
    return existsSync(stat) && !/\) [ZX] /.test(readFileSync(stat, 'utf8'))
  return true
}

describe.skipIf(process.platform === 'win32')('a group that was written down', () => {
  it('is ended with everything in it, also what does not listen', async () => {
    const mark = randomUUID()
    const { folder, pid } = start('trap "" TERM; echo $$ > me; while :; do sleep 0.1; done', mark)
    await written(join(folder, 'me'))
    expect(await endGroup(await noteOf({ pid, mark }))).toBe(true)
    await gone(String(pid))
    expect(await endGroup(await noteOf({ pid, mark }))).toBe(false)
  })

  it.runIf(process.platform === 'linux')(
    'is known by what is left in it when its leader has ended',
    async () => {
      const mark = randomUUID()
      const { folder, child, pid } = start('sleep 1000 & echo $! > left', mark)
      const note = await noteOf({ pid, mark })
      await new Promise((resolve) => child.on('close', resolve))
      expect(await endGroup(note)).toBe(true)
      await gone(readFileSync(join(folder, 'left'), 'utf8'))
    },
  )

  it.runIf(process.platform === 'linux')(
    'is known by its leader, also one that has thrown its environment away',
    async () => {
      const mark = randomUUID()
      const { folder, pid } = start('echo $$ > me; exec env -i sleep 1000', mark)
      await written(join(folder, 'me'))
      const note = await noteOf({ pid, mark })
      while (readFileSync(`/proc/${pid}/environ`, 'utf8').includes(mark)) {
        await new Promise((resolve) => setTimeout(resolve, 5))
      }
      expect(await endGroup(note)).toBe(true)
      await gone(String(pid))
    },
  )

  it('is let be if its number is that of another one by now, or on another machine', async () => {
    const mark = randomUUID()
    const { folder, pid } = start('echo $$ > me; exec sleep 1000', mark)
    await written(join(folder, 'me'))
    const note = await noteOf({ pid, mark })
    const reused = note.replace(/begun .*, marked .*/, `begun 1, marked ${randomUUID()}`)
    expect(await endGroup(reused)).toBe(false)
    expect(await endGroup(note.replace(/ on \S+/, ' on elsewhere'))).toBe(false)
    expect(await endGroup('something else')).toBe(false)
    expect(await endGroup(undefined)).toBe(false)
    expect(isAlive(pid)).toBe(true)
  })
})
