// Owns adding any number of jobs: pulled from their source only as fast as they are stored.
// May never hold more of them than one chunk.

import type { NewJob } from '../core/job.ts'
import type { JobInput } from '../core/types.ts'
import { Breath } from '../kit/breath.ts'
import type { Runtime } from '../kit/runtime.ts'
import { LIMITS } from '../store/limits.ts'
import type { Client } from './client.ts'
import type { Intake } from './intake.ts'

export type JobSource = Iterable<JobInput> | AsyncIterable<JobInput>

/**
 * Stores what the source yields, a thousand jobs at a time, in order. `open` is awaited before
 * each chunk, and throws once this process adds nothing any more. Resolves with how many were new;
 * at the first error nothing more is pulled, and what was stored stays.
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
  let batch: JobInput[] = []
  const store = async () => {
    await open()
    const jobs = await intake.prepareAll(batch, from)
    for (const piece of piecesOf(jobs)) {
      added += await client.insertSome(piece, from)
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

/** What one call takes: as many dependencies as one insertion can link. */
function piecesOf(jobs: readonly NewJob[]): readonly (readonly NewJob[])[] {
  const pieces: NewJob[][] = []
  let edges = Number.POSITIVE_INFINITY
  for (const job of jobs) {
    edges += job.deps.length
    if (edges > LIMITS.edges) {
      edges = job.deps.length
      pieces.push([])
    }
    pieces.at(-1)?.push(job)
  }
  return pieces
}
