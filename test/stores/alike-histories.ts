// Owns histories of many jobs that are alike, with rare ones in between, for a store beside the model.
// May never know which store: how one is opened comes from whoever asks.

import { isDeepStrictEqual } from 'node:util'
import { rateTerms } from '../../src/core/gcra.ts'
import type { Fact, NewJob } from '../../src/core/job.ts'
import type { PoolTermsChange } from '../../src/core/settings.ts'
import type { Store } from '../../src/store/store.ts'
import {
  type Command,
  newJob,
  numbersFrom,
  START,
  TERMS,
} from '../../src/testing/history-commands.ts'
import {
  dumpOf,
  follow,
  type ManualClock,
  manualClock,
  type Side,
  sideOf,
  tryTo,
} from '../../src/testing/history-side.ts'
import { modelStore, type Peeked } from '../../src/testing/model.ts'

/** How many are run, unless somebody asks for more. */
export const SEEDS = Number(process.env.AX_ALIKE_SEEDS ?? 16)

const KEEP = { successMs: 400, failedMs: 900, cancelledMs: 900, outcomesMs: 300, logMs: 2_000 }
const COMMANDS = 150

type Draw = () => number

/** Draws what is asked in one turn: mostly one command, now and then several. */
function turnsFrom(random: Draw): (jobs: readonly Peeked[]) => readonly Command[] {
  const below = (most: number) => Math.floor(random() * most)
  const one = <T>(list: readonly T[]): T => list[below(list.length)] as T
  const may = (share: number) => random() < share
  let made = 0
  const nameOf = () => {
    made += 1
    if (may(0.02))
      return one([`${made}`, `"${made}`, `\\${made}'`, `é${made}`, `😀${made}`, `__${made}`])
    return `j${String(made).padStart(6, '0')}`
  }
  const oddOf = (jobs: readonly Peeked[]): Partial<NewJob> =>
    one<() => Partial<NewJob>>([
      () => ({ priority: one([40, 60]) }),
      () => ({ key: `k${below(5)}`, minted: may(0.5) }),
      () => ({ exclusive: `lane${below(2)}` }),
      () => ({ flow: 'f' }),
      () => ({ delayMs: one([5, 40]) }),
      () => ({ enqueueTimeoutMs: 60 }),
      () => ({ terms: one(TERMS) }),
      () => ({ payload: undefined }),
      () => ({ payload: '""' }),
      () => ({ payload: `"${'x'.repeat(12_000)}"` }),
      () => ({ payload: '"a\x1fb"' }),
      () => ({ type: 'beta' }),
      () => ({ pool: 'other' }),
      () =>
        jobs.length === 0 ? {} : { deps: [{ id: one(jobs).id, on: one(['success', 'end']) }] },
      () => ({ deps: [{ id: `j${String(made + 3).padStart(6, '0')}`, on: 'success' }] }),
    ])()
  const insert = (jobs: readonly Peeked[]): Command => {
    const share = one([0, 0, 0.05, 0.3])
    const kind = one<Partial<NewJob>>([{}, {}, { type: 'beta' }, { payload: undefined }])
    const job = () => {
      const id = jobs.length > 0 && may(0.01) ? one(jobs).id : nameOf()
      return newJob(id, { payload: `{"at":${made}}`, ...kind, ...(may(share) ? oddOf(jobs) : {}) })
    }
    const many = 1 + below(25)
    const list = Array.from({ length: many }, job)
    if (may(0.05)) list.push(one(list))
    const unknownDeps = may(0.9) ? 'wait' : 'reject'
    const groups = may(0.5) ? [list] : list.map((each) => [each])
    return { do: 'insert', groups: groups.map((each) => ({ jobs: each, unknownDeps })) }
  }
  const apply = (jobs: readonly Peeked[]): Command => {
    const running = jobs.filter(({ status }) => status === 'running')
    const some = may(0.7) ? running.slice(0, 1 + below(40)) : running.filter(() => may(0.5))
    const order = may(0.3) ? some.toReversed() : some
    const result = one([undefined, undefined, '1', 'own'])
    const share = one([0, 0, 0.1])
    const moves = order.map(({ id }) => {
      const said = result === 'own' ? `"${id}"` : result
      const fact: Fact = may(share)
        ? one<Fact>([
            { type: 'failed', error: { name: 'E', message: 'm', code: 'C' }, retryable: may(0.5) },
            { type: 'cancel' },
            { type: 'succeeded', result: '"odd"' },
          ])
        : { type: 'succeeded', result: said }
      return { id, fact, view: one(['fresh', 'last lease', 'last lease', 'older lease'] as const) }
    })
    return { do: 'apply', moves, keep: KEEP }
  }
  const anyOf = (jobs: readonly Peeked[]) => (jobs.length === 0 ? 'j000001' : one(jobs).id)
  const lease = (): Command => {
    const types = one([['alpha', 'beta'], ['alpha', 'beta'], ['beta']])
    const holder = one(['a', 'a', 'b'])
    return { do: 'lease', holder, leaseMs: one([50, 500]), max: 1 + below(40), types }
  }
  const overdue = (): Command => {
    return { do: 'overdue', limit: 1 + below(50), keepLogMs: one([0, 40, KEEP.logMs]) }
  }
  /** Of calls that need no look at the store before. */
  const several = (jobs: readonly Peeked[]): Command[] => {
    const commands = Array.from({ length: 2 + below(3) }, () =>
      one([() => insert(jobs), () => apply(jobs), lease, overdue])(),
    )
    return commands.map((each) => {
      if (each.do !== 'apply') return each
      return { ...each, moves: each.moves.map((move) => ({ ...move, view: 'last lease' })) }
    })
  }
  const next = (jobs: readonly Peeked[]): Command => {
    const holder = one(['a', 'a', 'b'])
    const draw = random()
    if (draw < 0.2) return insert(jobs)
    if (draw < 0.45) return lease()
    if (draw < 0.7) return apply(jobs)
    if (draw < 0.78) return { do: 'clock', ms: one([1, 7, 60, 300]) }
    if (draw < 0.81) return overdue()
    if (draw < 0.84) return { do: 'keep', keep: KEEP }
    if (draw < 0.87) {
      const some = (share: number) => jobs.map(({ id }) => id).filter(() => may(share))
      const [omit, stuck, noted] = [some(0.02), some(0.02), some(0.05)]
      const upTo = one(['nothing', 'mark'] as const)
      return { do: 'extend', holder, omit, stuck, noted, leaseMs: 300, upTo, isStale: false }
    }
    if (draw < 0.89) {
      const move = {
        id: anyOf(jobs),
        fact: { type: one(['retry', 'cancel'] as const) },
        view: 'fresh',
      }
      return { do: 'apply', moves: [move as never], keep: KEEP }
    }
    if (draw < 0.93) {
      const terms = one<PoolTermsChange>([
        { concurrency: 1 + below(60) },
        { concurrency: 1 + below(60) },
        { perWorker: one([9, null]) },
        { rate: one([rateTerms(5, 100), null, null, null]) },
        { elastic: one([{ ratio: 0.5, minPriority: 60 }, null]) },
        { preempt: one([{ minPriority: 60, minGap: 5, minRunMs: 0 }, null, null]) },
        { breaker: one([{ failures: 2, failureRate: 1, window: 9, resetMs: 50 }, null, null]) },
        { paused: may(0.1) },
        { maxQueue: one([60, Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY]) },
      ])
      return { do: 'configure', change: { pool: 'default', by: 'operator', terms } }
    }
    if (draw < 0.94) {
      const setting = { concurrency: one([5, 20, null]) }
      return { do: 'configure', change: { type: 'beta', setting } as never }
    }
    if (draw < 0.96) return { do: 'get', ids: [anyOf(jobs), anyOf(jobs)] }
    if (draw < 0.97) return { do: 'standing', id: anyOf(jobs) }
    if (draw < 0.98) return { do: 'count' }
    return { do: 'events', limit: 200 }
  }
  return (jobs) =>
    may(0.15) ? several(jobs).sort((a, b) => placeOf(a) - placeOf(b)) : [next(jobs)]
}

/** In what order calls of one turn are dealt with. */
function placeOf({ do: kind }: Command): number {
  return kind === 'lease' ? 1 : kind === 'overdue' ? 2 : 0
}

/** Several commands in one turn: none calls its store before all are about to. */
async function together(
  side: Side,
  store: Store,
  commands: readonly Command[],
  clock: ManualClock,
): Promise<unknown> {
  const calls: (() => void)[] = []
  const answers = commands.map((command, at) => {
    const late = new Proxy(store, {
      get:
        (target, name) =>
        (...values: unknown[]) =>
          new Promise((resolve, reject) => {
            calls[at] = () => Reflect.get(target, name).apply(target, values).then(resolve, reject)
          }),
    })
    const get = (target: Side, name: keyof Side) => (name === 'store' ? late : target[name])
    return tryTo(new Proxy(side, { get } as ProxyHandler<Side>), command, clock)
  })
  await new Promise((done) => setImmediate(done))
  for (const call of calls) call()
  return Promise.all(answers)
}

/** Several processes on one file: each call goes to one of them. */
function crowdOf(stores: readonly Store[], random: Draw): Store {
  return new Proxy(stores[0] as Store, {
    get: (_, name) => {
      const store = stores[Math.floor(random() * stores.length)] as Store
      const found = Reflect.get(store, name, store)
      return typeof found === 'function' ? found.bind(store) : found
    },
  })
}

/**
 * Follows one history on a store that several processes share, and on the model. Answers the first
 * difference; undefined where there is none.
 */
export async function differenceIn(
  seed: number,
  open: (clock: ManualClock) => readonly Store[],
  atEnd: (store: Store) => Promise<unknown>,
): Promise<unknown> {
  const clock = manualClock(START)
  const model = modelStore({ now: clock.now })
  const stores = open(clock)
  const next = turnsFrom(numbersFrom(seed))
  const [right, left] = [sideOf(model), sideOf(crowdOf(stores, numbersFrom(seed + 1)))]
  try {
    for (let number = 0; number < COMMANDS; number += 1) {
      const turn = next(model.peek())
      const [command] = turn as [Command]
      if (command.do === 'clock') clock.advance(command.ms)
      const expected: unknown[] = []
      for (const each of turn) expected.push(await follow(right, each, clock))
      const store = stores[number % stores.length] as Store
      const actual =
        turn.length === 1
          ? [await tryTo(left, command, clock)]
          : await together(left, store, turn, clock)
      if (!isDeepStrictEqual(expected, actual)) return { seed, number, turn, expected, actual }
      if (number % 10 !== 9) continue
      const [all, found] = [await dumpOf(right), await dumpOf(left)]
      if (!isDeepStrictEqual(all, found)) return { seed, number, all, found }
    }
    return await atEnd(stores[0] as Store)
  } finally {
    for (const store of stores) await store.close()
  }
}
