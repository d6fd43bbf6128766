// Owns the properties of the queue's order and of the arithmetic of dependencies.
// May never reuse the formula it checks: the oracles here recount and compare the slow way.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { findCycle } from '../../src/core/cycle.ts'
import type { Dep, DepMode, JobStatus } from '../../src/core/job.ts'
import { afterEnd, isDoomed, quorumOf, satisfies } from '../../src/core/quorum.ts'
import { type Ageing, isBefore, rankOf, STRICT_WEIGHT, weightOf } from '../../src/core/rank.ts'

interface Waiter {
  readonly priority: number
  readonly readyAt: number
  readonly seq: number
}

const NOW = 1_900_000_000_000

const waiters = fc
  .array(fc.record({ priority: fc.integer({ min: 1, max: 100 }), age: fc.nat(1_000_000) }))
  .map((list) => list.map(({ priority, age }, seq) => ({ priority, readyAt: NOW - age, seq })))

const ageings = fc.option(
  fc.record({ everyMs: fc.integer({ min: 1, max: 100_000 }), ceiling: fc.nat(100) }),
)

/** The order by the priority that a job has reached by waiting, compared pair by pair. */
function slowly(a: Waiter, b: Waiter, ageing: Ageing | null): number {
  const aStrict = ageing === null || a.priority > ageing.ceiling
  const bStrict = ageing === null || b.priority > ageing.ceiling
  if (aStrict !== bStrict) return aStrict ? -1 : 1
  if (aStrict || ageing === null) {
    return b.priority - a.priority || a.readyAt - b.readyAt || a.seq - b.seq
  }
  const reached = (job: Waiter) => job.priority * ageing.everyMs + (NOW - job.readyAt)
  return reached(b) - reached(a) || a.seq - b.seq
}

function byRank(a: Waiter, b: Waiter, ageing: Ageing | null): number {
  const [left, right] = [a, b].map((job) => rankOf(job.readyAt, weightOf(job.priority, ageing)))
  return isBefore(left as number, a.seq, right as number, b.seq) ? -1 : 1
}

describe('rank', () => {
  it('is the order of the priorities reached by waiting, with ageing and without', () => {
    fc.assert(
      fc.property(waiters, ageings, (jobs, ageing) => {
        const expected = [...jobs].sort((a, b) => slowly(a, b, ageing))
        expect([...jobs].sort((a, b) => byRank(a, b, ageing))).toEqual(expected)
      }),
      { numRuns: 300 },
    )
  })

  it('is a safe integer for every priority', () => {
    for (let priority = 1; priority <= 100; priority += 1) {
      const rank = rankOf(NOW, weightOf(priority, null))
      expect(Number.isSafeInteger(rank)).toBe(true)
      expect(NOW - rank).toBe(priority * STRICT_WEIGHT)
    }
  })

  it('C04: lets a job overtake for fifty points of waiting, and not a millisecond longer', () => {
    const ageing = { everyMs: 1_000, ceiling: 90 }
    const low = { priority: 10, readyAt: 0, seq: 0 }
    const urgent = (readyAt: number) => ({ priority: 60, readyAt, seq: readyAt + 1 })
    expect(byRank(urgent(49_999), low, ageing)).toBe(-1)
    expect(byRank(urgent(50_000), low, ageing)).toBe(1)
    expect(byRank(urgent(300_000), low, null)).toBe(-1)
    expect(byRank({ ...urgent(9_000_000), priority: 91 }, low, ageing)).toBe(-1)
  })

  it('keeps first come, first served among equals', () => {
    expect(isBefore(5, 1, 5, 2)).toBe(true)
    expect(isBefore(5, 2, 5, 1)).toBe(false)
    expect(isBefore(5, 1, 5, 1)).toBe(false)
  })
})

const ends = fc.constantFrom<JobStatus>('success', 'failed', 'cancelled')

const families = fc
  .array(fc.record({ on: fc.constantFrom<Dep['on']>('success', 'end'), end: ends }), {
    maxLength: 12,
  })
  .chain((deps) => {
    const counts = fc.integer({ min: 1, max: Math.max(1, deps.length) })
    const modes: fc.Arbitrary<DepMode> = fc.oneof(
      fc.constantFrom<DepMode>('all', 'any'),
      deps.length === 0 ? fc.constant<DepMode>('all') : counts,
    )
    return fc.record({ deps: fc.constant(deps), mode: modes })
  })

describe('quorum', () => {
  it('counts as a recount of all the ends would', () => {
    fc.assert(
      fc.property(families, ({ deps, mode }) => {
        const wanted =
          mode === 'all' ? deps.length : Math.min(deps.length, mode === 'any' ? 1 : mode)
        let counts = { needs: quorumOf(mode, deps.length), open: deps.length }
        for (let ended = 0; ended <= deps.length; ended += 1) {
          const good = deps
            .slice(0, ended)
            .filter(({ on, end }) => on === 'end' || end === 'success')
          const still = deps.length - ended
          expect(counts.needs === 0).toBe(good.length >= wanted)
          expect(isDoomed(counts)).toBe(good.length + still < wanted)
          const next = deps[ended]
          if (next !== undefined) {
            counts = afterEnd(counts, satisfies({ id: 'x', on: next.on }, next.end))
          }
        }
      }),
      { numRuns: 500 },
    )
  })

  it('C37: is met at once where there is nothing to wait for', () => {
    for (const mode of ['all', 'any'] as const) {
      const counts = { needs: quorumOf(mode, 0), open: 0 }
      expect(counts.needs).toBe(0)
      expect(isDoomed(counts)).toBe(false)
    }
  })

  it('C29: a failure dooms `any` only when it takes the last chance', () => {
    const one = afterEnd({ needs: 1, open: 2 }, false)
    expect(isDoomed(one)).toBe(false)
    expect(isDoomed(afterEnd(one, false))).toBe(true)
    expect(afterEnd(one, true).needs).toBe(0)
  })
})

type Graph = readonly (readonly number[])[]

const graphs = fc
  .integer({ min: 1, max: 7 })
  .chain((size) =>
    fc.array(fc.array(fc.nat(size - 1), { maxLength: 3 }), { minLength: size, maxLength: size }),
  )

/** Whether a loop can be reached from any of the starts, by following every path. */
function loops(graph: Graph, starts: readonly number[]): boolean {
  const follow = (node: number, path: readonly number[]): boolean =>
    path.includes(node) || (graph[node] ?? []).some((next) => follow(next, [...path, node]))
  return starts.some((start) => follow(start, []))
}

describe('the search for loops', () => {
  it('finds one exactly where following every path does, and what it shows is a loop', () => {
    fc.assert(
      fc.property(graphs, fc.array(fc.nat(6), { maxLength: 7 }), (graph, given) => {
        const starts = given.filter((start) => start < graph.length)
        const depsOf = (id: string) => (graph[Number(id)] ?? []).map(String)
        const loop = findCycle(starts.map(String), depsOf)
        expect(loop !== null).toBe(loops(graph, starts))
        if (loop === null) return
        expect(loop[0]).toBe(loop.at(-1))
        expect(new Set(loop).size).toBe(loop.length - 1)
        const steps = loop.slice(1).map((id, index) => [loop[index] as string, id] as const)
        expect(steps.every(([earlier, later]) => depsOf(later).includes(earlier))).toBe(true)
      }),
      { numRuns: 500 },
    )
  })

  it('C43: shows the loop in the order of running, without those who only hang on it', () => {
    const deps: Readonly<Record<string, readonly string[]>> = {
      A: [],
      B: ['A', 'D'],
      C: ['B'],
      D: ['C'],
      E: ['D'],
    }
    const loop = findCycle(['E', 'A', 'B', 'C', 'D'], (id) => deps[id] ?? [])
    expect(loop?.slice(1).sort()).toEqual(['B', 'C', 'D'])
    expect(`${loop?.join(' ')} ${loop?.slice(1).join(' ')}`).toContain('B C D B')
  })

  it('follows a chain of a hundred thousand without a stack', () => {
    const last = 100_000
    const chain = (id: string) => (Number(id) === last ? [] : [String(Number(id) + 1)])
    expect(findCycle(['0'], chain)).toBeNull()
    const ring = (id: string) => [String((Number(id) + 1) % last)]
    expect(findCycle(['0'], ring)).toHaveLength(last + 1)
  })

  it('looks at each job once, however many paths lead to it', () => {
    let asked = 0
    const ladder = (id: string) => {
      asked += 1
      const step = Number(id)
      return step === 60 ? [] : [String(step + 1), String(step + 1)]
    }
    expect(findCycle(['0', '1', '2'], ladder)).toBeNull()
    expect(asked).toBe(61)
  })
})
