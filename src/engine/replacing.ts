// Owns giving jobs another definition: they are read, and replaced if they are still like that.
// May never replace what runs, or has succeeded.

import { AxError } from '../core/errors.ts'
import { byteLength, checkName } from '../core/id.ts'
import type { NewJob, StoredJob } from '../core/job.ts'
import { checkOptions, refuseValue, show } from '../core/options.ts'
import type { SubmitOptions } from '../core/types.ts'
import { LIMITS } from '../store/limits.ts'
import type { InsertAnswer, InsertGroup } from '../store/store.ts'
import type { Hub } from './hub.ts'

/** The ids that a submission takes the place of; undefined for an ordinary one. */
export function checkReplaced(options: SubmitOptions = {}): readonly string[] | undefined {
  checkOptions('submit', options, ['replaces'])
  const { replaces } = options
  if (replaces === undefined) return undefined
  if (!Array.isArray(replaces)) refuseValue('replaces', replaces, 'a list of ids')
  if (replaces.length > LIMITS.batch) {
    refuseValue('replaces', replaces.length, `at most ${LIMITS.batch} ids`)
  }
  return [...new Set(replaces.map((id) => checkName('replaces', id, 'INVALID_OPTION')))]
}

export function checkNote(text: unknown): string {
  const isText = typeof text === 'string' && text !== '' && !text.includes('\0')
  if (isText && byteLength(text) <= LIMITS.note) return text
  return refuseValue('The note', text, `a text of at most ${LIMITS.note} bytes, without NUL`)
}

/** Stale: the job on whose behalf this is has lost its lease. */
export async function replaceJobs(
  hub: Hub,
  jobs: readonly NewJob[],
  fence: NonNullable<InsertGroup['fence']>,
  replaced: readonly string[],
): Promise<InsertAnswer> {
  for (;;) {
    const old = await readAll(hub, replaced)
    const gone = old.map(({ id, seq, rev }) => ({ id, seq, rev }))
    const { unknownDeps } = hub.settings
    const group = { jobs, fence, unknownDeps, gone }
    const answer = hub.heard(await hub.store.replace(group, hub.tell))
    if (answer.status !== 'stale') return answer
    // Either its lease has gone, or one of the old jobs has moved on: then it is looked at again.
    const [parent] = await hub.store.get([fence.id])
    if (parent?.lease?.number !== fence.lease || parent.lease.hold) return answer
  }
}

/** Those that are there; refuses what may not go. */
async function readAll({ store }: Hub, ids: readonly string[]): Promise<readonly StoredJob[]> {
  const jobs: StoredJob[] = []
  for (let at = 0; at < ids.length; at += LIMITS.page) {
    for (const job of await store.get(ids.slice(at, at + LIMITS.page))) {
      if (job === null) continue
      if (job.lease !== undefined || job.status === 'success') throw cannotReplace(job)
      jobs.push(job)
    }
  }
  return jobs
}

function cannotReplace({ id, status }: StoredJob): AxError {
  const what = status === 'success' ? 'it has succeeded' : 'its body runs'
  return new AxError(
    'DUPLICATE_ID',
    `Job ${show(id)} cannot be replaced: ${what}. Give the new job an id of its own, ` +
      'or leave the old one out.',
    { jobId: id },
  )
}
