// Owns what one call may carry: a server ends the connection that brings more.
// May never part a call: whoever asks knows what has to happen in one step.

import { AxError } from '../../core/errors.ts'

/** What a server takes as one argument (proto-max-bulk-len, by default), but for the rest of it. */
const MOST_BYTES = 512 * 1024 * 1024 - 16 * 1024 * 1024

/** What a job brings, or leaves. */
export interface Load {
  readonly id: string
  readonly text: unknown
}

/** Refuses with TOO_LARGE what never fits, and names the job that brings the most. */
export function checkFits(what: 'payload' | 'result', loads: readonly Load[]): void {
  let most = 0
  for (const { text } of loads) if (typeof text === 'string') most += 3 * text.length
  if (most <= MOST_BYTES) return
  let size = 0
  let largest: { readonly id: string; readonly bytes: number } | undefined
  for (const { id, text } of loads) {
    const bytes = typeof text === 'string' ? Buffer.byteLength(text) : 0
    size += bytes
    if (bytes > (largest?.bytes ?? -1)) largest = { id, bytes }
  }
  if (size <= MOST_BYTES || largest === undefined) return
  const { id, bytes } = largest
  const all =
    loads.length === 1 ? '' : ` With ${loads.length - 1} others in one step it is ${size}.`
  throw new AxError(
    'TOO_LARGE',
    `The ${what} of job '${id}' has ${bytes} bytes.${all} A call to Redis takes up to ` +
      `${MOST_BYTES}: keep the data elsewhere and pass a reference, or add fewer jobs at a time.`,
    { jobId: id, size, limit: MOST_BYTES },
  )
}
