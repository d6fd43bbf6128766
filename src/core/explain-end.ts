// Owns what is said of a job that has ended: how, why, and what to do before it is tried again.
// May never promise that another try would succeed.

import { showMs } from './duration.ts'
import type { Answer } from './explain.ts'
import { named, UNTIL_GONE, whyOf } from './explain-words.ts'
import type { StoredJob } from './job.ts'
import { show } from './options.ts'

export function explainEnd(job: StoredJob, now: number): Answer {
  const ago = `${showMs(now - job.finishedAt)} ago`
  if (job.status === 'success') {
    const starts = job.starts === 1 ? '1 attempt' : `${job.starts} attempts`
    return { reason: 'success', text: `${named(job)} succeeded ${ago}, after ${starts}.` }
  }
  if (job.status === 'failed') {
    return { reason: 'failed', text: `${named(job)} failed ${ago}${whyOf(job)}. ${remedyOf(job)}` }
  }
  if (job.lease?.hold === true) {
    const text =
      `${named(job)} was cancelled ${ago}, but its body has not stopped yet: it keeps its slot ` +
      `on worker ${show(job.lease.holder)} ${UNTIL_GONE}.`
    return { reason: 'stopping', text }
  }
  if (job.cause !== undefined) {
    const text =
      `${named(job)} was cancelled ${ago}, as job ${show(job.cause)} did not succeed. ` +
      `Mend the cause, then retry job ${show(job.cause)} with its downstream.`
    return { reason: 'cancelled', text }
  }
  return { reason: 'cancelled', text: `${named(job)} was cancelled ${ago}${whyOf(job)}.` }
}

/** What to do about a failure: by the codes that ax itself gives, else what always holds. */
function remedyOf(job: StoredJob): string {
  if (isInDoubt(job)) {
    return `${endingOf(job)}Look whether it took effect; retry it only if it did not.`
  }
  switch (job.code) {
    case 'HEARTBEAT_LOST':
      return 'Let its handler call progress() more often, or give it a longer heartbeat; retry it.'
    case 'EXECUTION_TIMEOUT':
      return 'Find out what it waits for, or give it a longer timeout, then retry it.'
    case 'ENQUEUE_TIMEOUT':
      return 'Its pool had no slot in time: raise the cap, or its enqueueTimeout, then retry it.'
    case 'LOST':
      return 'Look at the memory and the log of its workers, then retry it.'
    case 'UNSTORABLE':
    case 'TOO_LARGE':
      return 'Let its handler return less, or plain JSON, then retry it.'
    default:
      return 'Mend the cause, then retry it.'
  }
}

/**
 * Whether running it again could do twice what must be done once: also after its last attempt has
 * run out of time, since there was none left for which the question could have been asked.
 */
function isInDoubt({ code, unknown, terms }: StoredJob): boolean {
  if (code === 'OUTCOME_UNKNOWN') return true
  return unknown && !terms.idempotent && !terms.confirm
}

/** What interrupted the attempt whose outcome nobody knows; later ones may only have asked. */
function endingOf(job: StoredJob): string {
  const attempt = job.log.findLast(({ outcome }) => outcome !== undefined && outcome in ENDINGS)
  return attempt === undefined ? '' : `${ENDINGS[attempt.outcome as keyof typeof ENDINGS]} `
}

const ENDINGS = {
  timeout: 'It ran out of time, or went silent.',
  preempted: 'It had given way to an urgent job.',
  returned: 'Its worker was stopping.',
  lost: 'Its worker was lost.',
} as const
