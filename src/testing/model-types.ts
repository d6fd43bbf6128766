// Owns how what is said of a type comes to be what is stored, for the model and the simulator.
// May never share code with the sources.

import type { TypeChange, TypeSetting } from '../core/settings.ts'

/** A type of which nobody has said anything. */
const UNSAID: TypeSetting = {
  pool: 'default',
  priority: 50,
  concurrency: null,
  maxLost: null,
  terms: {
    timeoutMs: 0,
    retries: 0,
    backoff: { type: 'exponential', delayMs: 1_000, maxMs: 30_000, factor: 2, jitter: true },
    maxLost: 3,
    idempotent: true,
    confirm: false,
    heartbeatMs: 0,
    preemptible: false,
  },
}

/** What was said goes over what was there, thing by thing; losses follow from the retries. */
export function typeAfter(before: TypeSetting | undefined, said: TypeChange): TypeSetting {
  const was = before ?? UNSAID
  const terms: Record<string, unknown> = { ...was.terms }
  for (const [name, value] of Object.entries(said.terms ?? {})) terms[name] = value
  const maxLost = said.maxLost === undefined ? was.maxLost : said.maxLost
  if (maxLost !== null) terms.maxLost = maxLost
  else if (said.terms?.maxLost === undefined) terms.maxLost = Math.max(3, terms.retries as number)
  return {
    pool: said.pool ?? was.pool,
    priority: said.priority ?? was.priority,
    concurrency: said.concurrency === undefined ? was.concurrency : said.concurrency,
    maxLost,
    terms: terms as unknown as TypeSetting['terms'],
  }
}
