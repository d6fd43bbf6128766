// Owns the suite that every store has to pass: named cases, seeded histories beside the model,
// and a crowd of clients. May never import a test runner: whoever calls it hands one in.

import { CASES } from './cases.ts'
import { type Runner, runCase } from './cases-bench.ts'
import { crowdFaults } from './conformance-crowd.ts'
import { START } from './history-commands.ts'
import { describeDifference, type OpenStore, replay } from './history-replay.ts'
import { manualClock } from './history-side.ts'

export type { Runner } from './cases-bench.ts'
export type { OpenStore } from './history-replay.ts'

export interface ConformanceOptions {
  /** Histories with all settings left to the seed. Default 150; a third as many mixed ones. */
  readonly seeds?: number
  /** Commands in one history. Default 300. */
  readonly commands?: number
  /** Crowds of clients. Default 5. */
  readonly crowds?: number
}

/** Histories in one test: short enough to see where it stands, long enough to be quiet. */
const CHUNK = 10

/** For a store on a server; in memory a history takes some 30 ms. */
const TIMEOUT_MS = 300_000

/**
 * Declares the tests that every store has to pass. `open` answers an empty store each time that
 * it is called, on the clock that it is given: the store may read no other. The runner is vitest,
 * or whatever has the same `describe`, `it` and `expect`.
 *
 *     conformance('memory', async (clock) => memoryStore({ now: clock.now }), vitest)
 */
export function conformance(
  name: string,
  open: OpenStore,
  { describe, it, expect }: Runner,
  { seeds = 150, commands = 300, crowds = 5 }: ConformanceOptions = {},
): void {
  describe(`the ${name} store`, () => {
    for (const each of CASES) it(each.name, () => runCase(each, open, expect), TIMEOUT_MS)
  })
  describe(`the ${name} store beside the model`, () => {
    for (const [first, last] of chunks(seeds)) {
      const title = `answers alike through histories ${first} to ${last}`
      it(title, () => replayAll(open, { first, last, commands, mixed: false }), TIMEOUT_MS)
    }
    for (const [first, last] of chunks(Math.ceil(seeds / 3))) {
      const title = `answers alike through mixed histories ${first} to ${last}`
      it(title, () => replayAll(open, { first, last, commands, mixed: true }), TIMEOUT_MS)
    }
  })
  describe(`the ${name} store in a crowd`, () => {
    for (let seed = 1; seed <= crowds; seed += 1) {
      const body = async () => expect(await faultsOf(open, seed)).toEqual([])
      it(`keeps its promises to all clients at once, crowd ${seed}`, body, TIMEOUT_MS)
    }
  })
}

function chunks(count: number): [first: number, last: number][] {
  return Array.from({ length: Math.ceil(count / CHUNK) }, (_, index) => [
    index * CHUNK + 1,
    Math.min(count, (index + 1) * CHUNK),
  ])
}

async function replayAll(
  open: OpenStore,
  {
    first,
    last,
    commands,
    mixed,
  }: Record<'first' | 'last' | 'commands', number> & {
    readonly mixed: boolean
  },
): Promise<void> {
  for (let seed = first; seed <= last; seed += 1) {
    const difference = await replay(open, { seed, commands, mixed })
    if (difference !== null) throw new Error(describeDifference(difference))
  }
}

async function faultsOf(open: OpenStore, seed: number): Promise<readonly string[]> {
  const clock = manualClock(START)
  const store = await open(clock)
  await store.open()
  try {
    return await crowdFaults(store, clock, seed)
  } finally {
    await store.close()
  }
}
