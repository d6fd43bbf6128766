// Owns the work of the crash suite: what is submitted, and what its bodies do. Everything about a
// job follows from its id, so that whoever finds it in a file knows what it should be.

import { AxScheduler, type JobContext, type JobInput } from '../../../src/index.ts'
import type { Store } from '../../../src/store/store.ts'
import type { Faults } from './faults.ts'
import type { Ledger } from './ledger.ts'

/** Far longer than any test: whoever waits for it to run out is found out. */
export const LEASE_MS = 60_000

export const CAPS = { default: 6, narrow: 2 }

interface Payload {
  readonly id: string
  readonly lasts: number
}

/** A job may die with its process often, and always fails its first attempt if it is flaky. */
const POLICY = { timeout: '50s', retries: 3, maxLost: 100 }

const BACKOFF = { type: 'fixed', delay: 5, jitter: false } as const

export interface WorkOptions {
  readonly faults?: Faults
  readonly leaseMs?: number
  readonly retries?: number
}

/** A scheduler that serves every type of this suite, and writes down what its bodies do. */
export function workerOn(
  store: Store,
  name: string,
  ledger: Ledger,
  { faults, leaseMs = LEASE_MS, retries = POLICY.retries }: WorkOptions = {},
): AxScheduler {
  const pools = { default: { concurrency: CAPS.default }, narrow: { concurrency: CAPS.narrow } }
  const scheduler = new AxScheduler({ store, name, pools, leaseMs })
  const act = async (context: JobContext<Payload>) => {
    const { payload, attempt, idempotencyKey } = context
    ledger.note('start', payload.id, String(attempt), idempotencyKey)
    if (payload.lasts > 0) await new Promise((done) => setTimeout(done, payload.lasts))
    if (payload.id.endsWith('flaky') && attempt === 1) throw new Error('not yet')
    if (payload.id.endsWith('split')) await split(context, ledger)
    faults?.hit('before the effect')
    ledger.note('effect', payload.id, String(attempt), idempotencyKey)
    faults?.hit('after the effect')
    return payload.id
  }
  const body = async (context: JobContext<Payload>) => {
    try {
      return await act(context)
    } finally {
      ledger.note('end', context.payload.id, String(context.attempt))
    }
  }
  for (const type of ['plain', 'narrow']) {
    scheduler.define(type, { ...POLICY, retries, backoff: BACKOFF, pool: poolOf(type) }, body)
  }
  return scheduler
}

const poolOf = (type: string) => (type === 'narrow' ? 'narrow' : 'default')

/** Jobs that a body adds, in one call; an attempt that comes after another finds them there. */
async function split({ payload, submit }: JobContext<Payload>, ledger: Ledger): Promise<void> {
  const ids = [`${payload.id}-left`, `${payload.id}-right`]
  ledger.note('ask', ...ids)
  for (const { id } of await submit(ids.map((id) => jobOf(id)))) ledger.note('ack', id)
}

export function jobOf(id: string, more: JobInput = {}): JobInput {
  const lasts = [...id].reduce((sum, letter) => sum + letter.charCodeAt(0), 0) % 5
  return { id, type: 'plain', payload: { id, lasts }, ...more }
}

/** What a process submits in one round: each inner list in one call. */
export function roundOf(name: string, round: number): readonly (readonly JobInput[])[] {
  const at = (kind: string) => `${name}-${round}-${kind}`
  const lane = `lane ${round % 3}`
  return [
    [jobOf(at('plain'), { priority: 30 + (round % 40) })],
    [jobOf(at(round % 4 === 0 ? 'flaky' : 'narrow'), { type: 'narrow' })],
    [jobOf(at(round % 3 === 0 ? 'split' : 'lane'), { exclusive: lane })],
    [
      jobOf(at('first')),
      jobOf(at('second'), { deps: [at('first')] }),
      jobOf(at('third'), { deps: [at('first'), at('second')], key: at('key') }),
    ],
  ]
}
