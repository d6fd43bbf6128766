// Owns the promise that a lock which somebody else holds stops nobody's event loop.

import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { laterNode, REMEDY } from '../../scripts/later-node.mjs'
import { loadLibrary } from '../../src/stores/sqlite/driver.ts'
import { children } from './processes.ts'

/** How often somebody holds the lock, and for how long each time. */
const TIMES = 3
const HELD_MS = 1_500

/** A third of that: whoever waited for the lock would have stood still for all of it. */
const BOUND_MS = 500

const processes = children('locks', { child: 'test/stores/locks/child.ts' })

const LIBRARIES: readonly (readonly [name: string, node: string | undefined])[] = [
  [`on Node ${process.versions.node.split('.')[0]}`, process.execPath],
  ['on Node 24', laterNode()],
]

const sleep = (ms: number) => new Promise((done) => setTimeout(done, ms))

interface Report {
  readonly library: string
  readonly jobs: number
  /** Of a timer of 5 ms. */
  readonly ticks: number
  /** How long SQLite waited each time until it gave up. */
  readonly waits: readonly number[]
  /** The longest time for which the event loop stood still. */
  readonly gapMs: number
  /** All that SQLite was ever told of how long it may wait. */
  readonly timeouts: readonly number[]
}

describe('a process whose file is locked by another', () => {
  it.for(LIBRARIES)(
    'goes on with everything else, %s',
    { timeout: 60_000 },
    async ([name, node], { skip }) => {
      if (node === undefined) return skip(`It needs Node 24: ${REMEDY}.`)
      const file = join(processes.data, `${name.replaceAll(' ', '-')}.db`)
      const child = processes.start(processes.path('child'), { args: [file], node })
      await child.said('up')
      const other = (await loadLibrary()).open(file)
      other.exec('PRAGMA busy_timeout = 5000')
      for (let time = 0; time < TIMES; time += 1) {
        other.exec('BEGIN IMMEDIATE')
        await sleep(HELD_MS)
        other.exec('COMMIT')
        await sleep(50)
      }
      child.tell('enough')
      const report: Report = JSON.parse((await child.said('report')).slice('report '.length))
      const { library, jobs, ticks, waits, gapMs, timeouts } = report
      const sorted = [...waits].sort((a, b) => a - b)
      const medianMs = sorted[Math.floor(sorted.length / 2)] ?? 0
      const longestMs = sorted.at(-1) ?? 0
      console.log(
        `${library}: the event loop stood still for ${gapMs.toFixed(1)} ms at most. Of ` +
          `${waits.length} tries for the lock the median took ${medianMs.toFixed(1)} ms, the ` +
          `longest ${longestMs.toFixed(1)} ms. ${ticks} ticks, ${jobs} jobs.`,
      )
      expect(await child.ended).toBe(0)
      other.close()
      expect(waits.length).toBeGreaterThan(TIMES)
      expect(timeouts.length).toBeGreaterThan(0)
      expect(Math.max(...timeouts)).toBeLessThanOrEqual(10)
      expect(medianMs).toBeLessThan(25)
      expect(longestMs).toBeLessThan(BOUND_MS)
      expect(gapMs).toBeLessThan(BOUND_MS)
      expect(ticks).toBeGreaterThan((TIMES * HELD_MS) / 50)
    },
  )
})
