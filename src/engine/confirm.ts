// Owns the question whether an attempt that nobody knows the outcome of has taken effect.
// May never run the body: what follows from the answer is the worker's business.

import { AxError } from '../core/errors.ts'
import { show } from '../core/options.ts'
import type { TypeSaid } from '../core/terms.ts'
import { viewOf } from '../core/view.ts'
import { answerOf } from '../kit/runner/parts.ts'
import type { Outcome } from './outcomes.ts'
import type { Run } from './run.ts'

/** Whether an attempt has to ask before its body may be called. */
export function mustAsk(run: Run, type: TypeSaid | undefined): boolean {
  const { unknown, terms } = run.job
  if (!unknown) return false
  return type?.confirm !== undefined || (terms.confirm && !terms.idempotent)
}

/**
 * Asks the type of a job. Resolves with what the attempt has come to by that: a success with the
 * result of the one before, or a failure (confirm threw, answered nonsense, or is missing here);
 * undefined: nothing has taken effect, and the body may run. Never rejects.
 */
export async function askFirst(run: Run, type: TypeSaid | undefined): Promise<Outcome | undefined> {
  const confirm = type?.confirm
  if (confirm === undefined) return nobodyToAsk(run)
  try {
    const answer = await confirm({ job: viewOf(run.job), signal: run.signal })
    const { done, value } = answerOf(answer)
    if (done === false) return undefined
    return done === true ? { ok: true, value } : { ok: false, error: value, asked: true }
  } catch (error) {
    return { ok: false, error, asked: true }
  }
}

function nobodyToAsk({ job }: Run): Outcome {
  const error = new AxError(
    'OUTCOME_UNKNOWN',
    `Whether an earlier attempt of job ${job.id} has taken effect is unknown, it is not ` +
      `idempotent, and the type ${show(job.type)} has no confirm in this process that could be ` +
      'asked. Give confirm wherever the type is defined.',
    { jobId: job.id },
  )
  return { ok: false, error, asked: true, final: true }
}
