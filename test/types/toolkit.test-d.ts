// Owns the promises of the toolkit's types. It is compiled and never run: `toolkit.test.ts` does
// that, with every flag of strictness, and the project's own type check does so, too.

import type { ZombieRecord } from '../../src/core/zombie.ts'
import { AxScheduler } from '../../src/index.ts'
import { createInflight } from '../../src/kit/inflight.ts'
import { createLimiter, type Limiter } from '../../src/kit/limiter.ts'
import { type RetryOptions, withRetry } from '../../src/kit/retry.ts'
import { createRunner, type RunnerContext, type RunnerResult } from '../../src/kit/runner.ts'
import { withTimeout } from '../../src/kit/timeout.ts'

/** Exactly the same type; `any` is the same as nothing else. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
type IsAny<T> = 0 extends 1 & T ? true : false

declare function same<A, B>(check: Same<A, B>): void
declare function noAny<T>(check: IsAny<T> extends true ? never : true, value?: T): void

declare const signal: AbortSignal
declare function load(): Promise<{ id: number }>
declare function either(): Promise<string | number>
declare const thenable: PromiseLike<'late'>

// ---------------------------------------------------------------------------------- limiter
const limit = createLimiter(2, { maxQueue: 10, overflow: 'wait', enqueueTimeout: '5s' })
same<typeof limit, Limiter>(true)

const number = limit(() => 1)
same<typeof number, Promise<number>>(true)
noAny<Awaited<typeof number>>(true)
const text = limit(async () => 'a')
same<typeof text, Promise<string>>(true)
const nothing = limit(() => {})
same<typeof nothing, Promise<void>>(true)
const object = limit(load, { priority: 100, signal, enqueueTimeout: 5 })
same<typeof object, Promise<{ id: number }>>(true)
const mixed = limit(either)
same<Awaited<typeof mixed>, string | number>(true)
const late = limit(() => thenable)
same<typeof late, Promise<'late'>>(true)
const never = limit(() => {
  throw new Error('no')
})
same<typeof never, Promise<never>>(true)
const unknown = limit((): unknown => 1)
same<typeof unknown, Promise<unknown>>(true)
const literal = limit(() => 'x' as const)
same<typeof literal, Promise<'x'>>(true)

async function tuples() {
  const pair = await Promise.all([limit(() => 1), limit(async () => 'a')])
  same<typeof pair, [number, string]>(true)
  const fallback = await limit(() => 1).catch(() => 'x' as const)
  same<typeof fallback, number | 'x'>(true)
  const list = await Promise.all([1, 2].map((item) => limit(() => item > 1)))
  same<typeof list, boolean[]>(true)
}

const stats = limit.stats()
same<typeof stats.active, number>(true)
same<ReturnType<typeof limit.idle>, Promise<void>>(true)
same<ReturnType<typeof limit.room>, Promise<void>>(true)
same<ReturnType<typeof limit.clear>, number>(true)
limit.concurrency = 3

// @ts-expect-error a task is a function
limit(1)
// @ts-expect-error a task gets no argument
limit((value: number) => value)
// @ts-expect-error an option that does not exist
limit(() => 1, { prio: 1 })
// @ts-expect-error a priority is a number
limit(() => 1, { priority: 'high' })
// @ts-expect-error a signal is an AbortSignal
limit(() => 1, { signal: new AbortController() })
// @ts-expect-error the concurrency is a number
createLimiter('2')
// @ts-expect-error an option that does not exist
createLimiter(2, { max: 1 })
// @ts-expect-error overflow is 'reject' or 'wait'
createLimiter(2, { overflow: 'drop' })
// @ts-expect-error nested is 'reject' or 'queue'
createLimiter(2, { nested: 'ignore' })
// @ts-expect-error a result is not what it is not
const wrong: Promise<string> = limit(() => 1)
// @ts-expect-error stats are read only
limit.stats().active = 1
// @ts-expect-error the concurrency is a number
limit.concurrency = '3'

// -------------------------------------------------------------------------------------- map
async function maps() {
  const results = limit.map([1, 2], async (item, index, context) => {
    same<typeof item, number>(true)
    same<typeof index, number>(true)
    same<typeof context.signal, AbortSignal>(true)
    return `${item}`
  })
  for await (const result of results) {
    same<typeof result, string>(true)
    noAny<typeof result>(true)
  }
  async function* source(): AsyncGenerator<{ id: string }> {}
  const plain = limit.map(source(), ({ id }) => id.length, { ordered: false, buffer: 2, signal })
  for await (const result of plain) same<typeof result, number>(true)
  const letters = limit.map('abc', (letter) => letter)
  for await (const letter of letters) same<typeof letter, string>(true)
  const sets = limit.map(new Set([true]), (item) => ({ item }))
  for await (const result of sets) same<typeof result, { item: boolean }>(true)
  const iterable: AsyncIterable<number> = limit.map([1], (item) => item)
  return iterable
}

// @ts-expect-error a source is iterable
limit.map(1, () => 1)
// @ts-expect-error an item has the type of the source's items
limit.map([1], (item: string) => item)
// @ts-expect-error an option that does not exist
limit.map([1], (item) => item, { concurrency: 1 })
// @ts-expect-error ordered is true or false
limit.map([1], (item) => item, { ordered: 'no' })

// ------------------------------------------------------------------------------ withTimeout
const timed = withTimeout((given) => {
  same<typeof given, AbortSignal>(true)
  return 1
}, '5s')
same<typeof timed, Promise<number>>(true)
same<Promise<{ id: number }>, ReturnType<typeof timedLoad>>(true)
function timedLoad() {
  return withTimeout(() => load(), 100, { signal })
}
const timedOr = withTimeout(() => 1, 100).catch(() => 'x' as const)
same<typeof timedOr, Promise<number | 'x'>>(true)

// @ts-expect-error a time limit is needed
withTimeout(() => 1)
// @ts-expect-error a time limit is a number or a text
withTimeout(() => 1, true)
// @ts-expect-error an option that does not exist
withTimeout(() => 1, 100, { ms: 1 })

// --------------------------------------------------------------------------- createInflight
const inflight = createInflight()
const shared = inflight('key', async (given) => {
  same<typeof given, AbortSignal>(true)
  return { rows: [1] }
})
same<typeof shared, Promise<{ rows: number[] }>>(true)
same<typeof inflight.size, number>(true)

// @ts-expect-error a key is a string
inflight(1, () => 1)
// @ts-expect-error an option that does not exist
inflight('key', () => 1, { ttl: 1 })
// @ts-expect-error how many are in flight cannot be set
inflight.size = 1

// -------------------------------------------------------------------------------- withRetry
const retried = withRetry((attempt) => {
  same<typeof attempt, number>(true)
  return 'a'
})
same<typeof retried, Promise<string>>(true)
const retriedLoad = withRetry(load, {
  retries: 3,
  baseDelay: '200ms',
  maxDelay: 5000,
  factor: 2,
  jitter: (delay, random) => delay * random,
  isRetryable: (error) => {
    same<typeof error, unknown>(true)
    return error instanceof TypeError
  },
  signal,
  onRetry: ({ attempt, delay, error }) => {
    same<typeof attempt, number>(true)
    same<typeof delay, number>(true)
    same<typeof error, unknown>(true)
  },
})
same<typeof retriedLoad, Promise<{ id: number }>>(true)

// @ts-expect-error an option that does not exist
withRetry(load, { attempts: 3 })
// @ts-expect-error jitter is a boolean or a function
withRetry(load, { jitter: 0.5 })
// @ts-expect-error a predicate answers true or false
withRetry(load, { isRetryable: () => 'yes' })

// ----------------------------------------------------------------------------- createRunner
const runner = createRunner({
  concurrency: { min: 1, max: 10 },
  retry: { retries: 2, inSlot: true },
  remember: { ms: '1m' },
  confirm: async ({ key }) => (key === '' ? { done: false } : { done: true, result: 1 }),
  onAttempt: ({ key, outcome, code }) => {
    same<typeof key, string>(true)
    same<typeof outcome, 'success' | 'failure' | 'timeout' | 'cancelled' | 'deduplicated'>(true)
    same<typeof code, string | undefined>(true)
  },
})

async function runs() {
  const outcome = await runner('key', async (context) => {
    same<typeof context, RunnerContext>(true)
    return 7
  })
  same<typeof outcome, RunnerResult<number>>(true)
  const { result } = outcome
  same<typeof result, number>(true)
  noAny<typeof result>(true)
  const batch = await runner.batch(['a', 'b'], async (item, { key, attempt }) => {
    same<typeof item, string>(true)
    same<typeof key, string>(true)
    same<typeof attempt, number>(true)
    return item.length
  })
  const [first] = batch.fulfilled
  same<
    typeof first,
    { readonly key: string; readonly item: string; readonly value: number } | undefined
  >(true)
  const [failed] = batch.rejected
  same<NonNullable<typeof failed>['error'], unknown>(true)
  same<(typeof batch.skipped)[number], string>(true)
}

// One set of retry options serves all of them, its signal included.
const again: RetryOptions = { retries: 2, signal: new AbortController().signal }
withRetry(load, again)
createRunner({ concurrency: 1, retry: again })
runner('key', load, { retry: again })
runner('key', load, { retry: { ...again, inSlot: true } })
// @ts-expect-error how many do so is a matter of the runner
runner('key', load, { retry: { inSlotConcurrency: 2 } })

const [left] = runner.zombies()
same<NonNullable<typeof left>['key'], string>(true)
same<NonNullable<typeof left>['worker'], string>(true)
const record: ZombieRecord | undefined = left
same<NonNullable<typeof record>['key'], string | undefined>(true)
const [stuck] = new AxScheduler().zombies()
same<NonNullable<typeof stuck>['id'], string>(true)
same<NonNullable<typeof stuck>['type'], string>(true)
const records: ZombieRecord[] = [...runner.zombies(), ...new AxScheduler().zombies()]
for (const { id, key, since } of records) {
  same<typeof id, string | undefined>(true)
  same<typeof key, string | undefined>(true)
  same<typeof since, number>(true)
}

// @ts-expect-error the concurrency is needed
createRunner({})
// @ts-expect-error an option that does not exist
createRunner({ concurrency: 1, retries: 3 })
// @ts-expect-error a confirmation says whether it is done
createRunner({ concurrency: 1, confirm: async () => true })
// @ts-expect-error a key comes first
runner(() => 1)
// @ts-expect-error the result is not what it is not
const wrongResult: Promise<RunnerResult<string>> = runner('key', () => 1)

export { maps, runs, tuples, wrong, wrongResult }
