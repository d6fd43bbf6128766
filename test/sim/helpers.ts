// Owns running the simulator's command in tests: a build of its own, since other tests and
// people build at the same time. May never judge what it prints.

import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { root } from '../sources.ts'

export interface Answer {
  readonly code: number
  readonly output: string
}

/** Compiles the sources into a folder outside the package; `clean` removes it. */
export async function buildSimulator(): Promise<{ readonly cli: string; clean(): void }> {
  const folder = mkdtempSync(join(tmpdir(), 'ax-simulate-'))
  const clean = () => rmSync(folder, { recursive: true, force: true })
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }\n')
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'), 'junction')
  const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc')
  const config = join(root, 'tsconfig.build.json')
  const dist = join(folder, 'dist')
  const { code, output } = await node([tsc, '-p', config, '--outDir', dist, '--noCheck'])
  if (code === 0) return { cli: join(dist, 'testing', 'cli.js'), clean }
  clean()
  throw new Error(`the sources do not compile:\n${output}`)
}

/** Runs a script with Node and gives its exit code and all it printed. */
export function node(args: readonly string[]): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    const add = (chunk: Buffer) => {
      output += chunk.toString()
    }
    child.stdout.on('data', add)
    child.stderr.on('data', add)
    child.on('error', reject)
    child.on('close', (code) => resolve({ code: code ?? 1, output }))
  })
}
