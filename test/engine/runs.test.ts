// Owns the promises of the list of what a worker holds.

import { describe, expect, it } from 'vitest'
import type { StoredJob } from '../../src/core/job.ts'
import { Run } from '../../src/engine/run.ts'
import { Runs } from '../../src/engine/runs.ts'

function runOf(number: number): Run {
  return new Run({ starts: 1 } as StoredJob, { holder: 'a', number, hold: false }, 0, 0)
}

describe('the list of runs', () => {
  it('has what was added and not removed, in whatever order that happened', () => {
    const runs = new Runs()
    const all = Array.from({ length: 50 }, (_, at) => runOf(at))
    for (const run of all) runs.add(run)
    const left = new Set(all)
    for (let at = 0; left.size > 0; at = (at + 7) % 50) {
      const run = all[at] as Run
      runs.remove(run)
      left.delete(run)
      expect([runs.size, new Set(runs.values())]).toEqual([left.size, left])
    }
  })

  it('takes nobody out for one that is out already, or never was in', () => {
    const runs = new Runs()
    const [first, second, other] = [runOf(1), runOf(2), runOf(3)]
    runs.add(first)
    runs.add(second)
    runs.remove(first)
    runs.remove(first)
    runs.remove(other)
    expect(runs.values()).toEqual([second])
  })

  it('shows who walks through it all that were there, though they leave meanwhile', () => {
    const runs = new Runs()
    const all = [runOf(1), runOf(2), runOf(3)]
    for (const run of all) runs.add(run)
    const seen: Run[] = []
    for (const run of runs.values()) {
      seen.push(run)
      runs.remove(run)
    }
    expect([seen, runs.size]).toEqual([all, 0])
  })
})
