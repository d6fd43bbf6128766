// Owns the promises about the graph of waits: which one could never end, and which is refused.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type Block,
  components,
  type Edge,
  type Holder,
  victim,
} from '../../src/kit/nested/graph.ts'

const holder = (name: string): Holder => ({ name, busy: true, turn: 0, mark() {} })

/** A wait of these bodies; by default it can be refused, and is on. */
function edge(
  by: readonly Holder[],
  blocks: readonly Block[],
  more: { refuse?: undefined; holds?: boolean } = {},
): Edge {
  const refuse = 'refuse' in more ? undefined : () => {}
  const waiter = { resolve() {}, reject() {} }
  const wait = { waiter, blocks, refuse, holds: () => more.holds ?? true }
  return { wait, by: new Map(by.map((each) => [each, each.turn])) }
}

const all = (...holders: Holder[]): Block => ({ holders, enough: holders.length })

describe('a wait is refused', () => {
  it('if enough of the holders wait for it, and not with one less', () => {
    const [a, b, c] = ['a', 'b', 'c'].map(holder) as [Holder, Holder, Holder]
    const slots = { holders: [a, b, c], enough: 2 }
    const waits = [edge([a], [slots]), edge([b], [slots])]
    expect(waits.map(({ wait }) => wait)).toContain(victim(waits))
    expect(victim(waits.slice(1))).toBeUndefined()
  })

  it('if one of several blocks will never move, whatever the others do', () => {
    const [a, b] = ['a', 'b'].map(holder) as [Holder, Holder]
    const own = edge([a], [all(b), all(a)])
    expect(victim([own])).toBe(own.wait)
    expect(victim([edge([a], [all(b)])])).toBeUndefined()
  })

  it('if its body waits for several things of which one is hopeless', () => {
    const [a, b] = ['a', 'b'].map(holder) as [Holder, Holder]
    const own = edge([a], [all(a)])
    expect(victim([edge([a], [all(b)]), own, edge([a], [])])).toBe(own.wait)
  })

  it('only while it is on, and of the bodies that were there when it was asked', () => {
    const a = holder('a')
    expect(victim([edge([a], [all(a)], { holds: false })])).toBeUndefined()
    const next = { ...a, turn: 1 }
    expect(victim([{ ...edge([a], [all(next)]), by: new Map([[next, 0]]) }])).toBeUndefined()
    const idle = { ...a, busy: false }
    expect(victim([edge([idle], [all(idle)])])).toBeUndefined()
  })

  it('never if its body runs: of a ring the one that can be refused', () => {
    const [a, b] = ['a', 'b'].map(holder) as [Holder, Holder]
    const runs = edge([a], [all(b)], { refuse: undefined })
    const waits = edge([b], [all(a)])
    expect(victim([runs, waits])).toBe(waits.wait)
    const bystander = edge([holder('c')], [all(a)])
    const stuck = edge([b], [all(a)], { refuse: undefined })
    expect(victim([bystander, runs, stuck])).toBeUndefined()
  })

  it('in the ring that others wait for, not in one of theirs, or on the way', () => {
    const [a, b, c] = ['a', 'b', 'c'].map(holder) as [Holder, Holder, Holder]
    const inner = edge([c], [all(c)])
    const outer = edge([a], [{ holders: [a, b], enough: 2 }])
    const between = edge([b], [all(c)])
    for (const waits of [
      [inner, outer, between],
      [between, outer, inner],
      [outer, inner, between],
    ]) {
      expect(victim(waits)).toBe(inner.wait)
    }
  })
})

/** Waits of a few bodies for a few blocks, as numbers. */
const worlds = fc.record({
  blocks: fc.array(
    fc.record({
      of: fc.uniqueArray(fc.nat(5), { minLength: 1 }),
      enough: fc.integer({ min: 1, max: 3 }),
    }),
    { minLength: 1, maxLength: 5 },
  ),
  waits: fc.array(fc.record({ by: fc.uniqueArray(fc.nat(5)), on: fc.uniqueArray(fc.nat(4)) }), {
    maxLength: 8,
  }),
})

describe('of random waits', () => {
  it('one is refused if some set of bodies holds itself up, and it is in that set', () => {
    let [hopeful, hopeless] = [0, 0]
    fc.assert(
      fc.property(worlds, ({ blocks, waits }) => {
        const holders = [0, 1, 2, 3, 4, 5].map((each) => holder(`${each}`))
        const made = blocks.map(({ of, enough }) => ({
          holders: of.map((each) => holders[each] as Holder),
          enough,
        }))
        const edges = waits.map(({ by, on }) =>
          edge(
            by.map((each) => holders[each] as Holder),
            on.flatMap((each) => made[each] ?? []),
          ),
        )
        const isStuck = (edge: Edge, set: ReadonlySet<Holder>) =>
          edge.wait.blocks.some(({ holders, enough }) => {
            return [...holders].filter((each) => set.has(each)).length >= enough
          })
        // The plain way: every set of bodies, and whether each of them waits for the set.
        const sets = Array.from({ length: 64 }, (_, bits) =>
          holders.filter((_, each) => (bits >> each) & 1),
        )
        const union = new Set(
          sets
            .filter((set) =>
              set.every((body) =>
                edges.some((each) => each.by.has(body) && isStuck(each, new Set(set))),
              ),
            )
            .flat(),
        )
        const found = victim(edges)
        expect(found === undefined).toBe(union.size === 0)
        if (found === undefined) hopeful += 1
        else {
          hopeless += 1
          const own = edges.find(({ wait }) => wait === found) as Edge
          expect([...own.by.keys()].every((body) => union.has(body))).toBe(true)
          expect(isStuck(own, union)).toBe(true)
        }
      }),
      { numRuns: 2000 },
    )
    expect(Math.min(hopeful, hopeless)).toBeGreaterThan(100)
  })

  it('rings are those whose members lead to each other, the ones led to first', () => {
    const graph = fc.array(fc.uniqueArray(fc.nat(7)), { minLength: 8, maxLength: 8 })
    fc.assert(
      fc.property(graph, (next) => {
        const rings = components(next)
        const reach = next.map((_, from) => {
          const seen = new Set<number>()
          const open = [from]
          for (let at = open.pop(); at !== undefined; at = open.pop()) {
            for (const to of next[at] ?? []) {
              if (!seen.has(to)) open.push(to)
              seen.add(to)
            }
          }
          return seen
        })
        for (const a of next.keys()) {
          for (const b of next.keys()) {
            if (a === b) continue
            const [ahead, back] = [reach[a]?.has(b), reach[b]?.has(a)]
            const [from, to] = [rings[a] as number, rings[b] as number]
            expect(from >= 0 && from === to).toBe(ahead === true && back === true)
            if (ahead && !back && from >= 0 && to >= 0) expect(to).toBeLessThan(from)
          }
        }
      }),
      { numRuns: 1000 },
    )
  })

  it('a chain of 100,000 is no deeper than any other', () => {
    const bodies = Array.from({ length: 100_000 }, (_, each) => holder(`${each}`))
    const edges = bodies.map((body, each) => edge([body], [all(bodies[each + 1] ?? body)]))
    expect(victim(edges)).toBe(edges.at(-1)?.wait)
  })
})
