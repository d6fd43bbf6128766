// Owns adding any number of jobs: pulled from their source only as fast as they are stored.
// May never hold more of them than one chunk.

import { AxError, isAxError } from '../core/errors.ts'
import type { NewJob } from '../core/job.ts'
import type { JobInput } from '../core/types.ts'
import { Breath } from '../kit/breath.ts'
import type { Runtime } from '../kit/runtime.ts'
import { LIMITS } from '../store/limits.ts'
import type { Client } from './client.ts'
import type { Intake } from './intake.ts'
import { piecesOf, shareOf, sizeOfJob } from './sizes.ts'

export type JobSource = Iterable<JobInput> | AsyncIterable<JobInput>

/**
 * Stores what the source yields, a thousand jobs at a time, in order. `open` is awaited before
 * each chunk, and throws once this process adds nothing any more. Resolves with how many were new;
 * at the first error nothing more is pulled, and what was stored stays: the error says how many
 * that are. One that the source itself throws is passed on as it is.
 */
export async function addAll(
  source: JobSource,
  parts: { readonly intake: Intake; readonly client: Client; readonly runtime: Runtime },
  open: () => Promise<void>,
): Promise<number> {
  const { intake, client, runtime } = parts
  const breath = new Breath(runtime)
  let added = 0
  let from = 0
  let stored = 0
  let batch: JobInput[] = []
  const note = (count: number) => {
    stored = count
  }
  const store = async () => {
    try {
      await storeBatch()
    } catch (error) {
      throw withStored(error, stored)
    }
  }
  const storeBatch = async () => {
    await open()
    const jobs = await intake.prepareAll(batch, from)
    for (const piece of piecesOf(jobs, weigh, LIMITS.edges)) {
      added += await client.insertSome(piece, from, note)
      from += piece.length
    }
    batch = []
    await breath.take()
  }
  for await (const job of source) {
    batch.push(job)
    if (batch.length === LIMITS.chunk) await store()
  }
  await store()
  return added
}

/** The same error, with how far the stream had come: so many of its first jobs are stored. */
function withStored(error: unknown, stored: number): unknown {
  if (!isAxError(error)) return error
  const cause = error.cause === undefined ? {} : { cause: error.cause }
  const first = stored === 1 ? 'first job is' : `first ${stored} jobs are`
  const text = stored === 0 ? '' : ` What stood before that stays: the ${first} stored.`
  return new AxError(error.code, error.message + text, { ...error, ...cause, stored })
}

/** What a job takes of a call: dependencies, of which there may be so many, or bytes. */
function weigh(job: NewJob): number {
  return shareOf(job.deps.length, sizeOfJob(job), LIMITS.edges)
}
