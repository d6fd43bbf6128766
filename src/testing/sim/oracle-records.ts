// Owns the checks on records: that the folded log is the stored job, that nothing changes in
// silence, that attempts are numbered, closed and charged, that back-off keeps to its band.
// May never look at why a job moved; only at whether it may have.

import type { JobEvent, JobStatus, StoredJob } from '../../core/job.ts'
import { differences, isEnd } from './copy.ts'
import type { Invariant } from './invariants.ts'
import { type Commit, expect, type Watch } from './oracle.ts'
import type { Seen } from './view.ts'

const LIVE: readonly JobStatus[] = ['pending', 'waiting', 'ready', 'running']

/** Which way each entry of the log may lead, from and to. */
const PATHS: Readonly<Record<string, readonly [readonly string[], readonly string[]]>> = {
  'job:added': [['null'], ['waiting', 'pending', 'ready']],
  'job:ready': [['waiting', 'pending'], ['ready']],
  'job:pending': [['waiting'], ['pending']],
  'job:waiting': [['ready', 'pending'], ['waiting']],
  'job:running': [['ready'], ['running']],
  'job:returned': [['running'], ['ready', 'failed']],
  'job:preempted': [['running'], ['ready', 'failed']],
  'job:success': [['running'], ['success']],
  'job:failed': [['running', 'ready'], ['failed']],
  'job:retry': [['running'], ['pending', 'ready']],
  'job:timeout': [['running'], ['pending', 'ready', 'failed']],
  'job:lost': [['running'], ['pending', 'ready', 'failed']],
  'job:cancelled': [LIVE, ['cancelled']],
  'job:revived': [
    ['failed', 'cancelled', 'waiting'],
    ['waiting', 'pending', 'ready'],
  ],
}

/** 5: an entry continues the path of its job. Before it is folded. */
export function checkEvent(watch: Watch, seen: Seen | undefined, event: JobEvent): void {
  const path = PATHS[event.event]
  const from = seen === undefined ? null : seen.status
  const legal = path?.[0].includes(String(event.from)) === true && path[1].includes(event.to)
  const text = () =>
    `${event.job}: the log says ${event.event} from ${event.from} to ${event.to}, ` +
    `but the job was ${from ?? 'not there'}`
  expect(watch, 5, legal && event.from === from, text, [event.job])
  const last = seen?.log.at(-1)
  if (last === undefined) return
  const grows = event.seq > last.seq && event.at >= last.at
  expect(watch, 5, grows, () => `${event.job}: the log goes back at ${event.seq}`, [event.job])
}

/** Everything that must be true of one record after a commit that may have touched it. */
export function checkRecord(watch: Watch, seen: Seen, commit: Commit, own: readonly JobEvent[]) {
  const { job } = seen
  const before = commit.before.get(job.id)
  const say = (invariant: Invariant, holds: boolean, text: () => string) =>
    expect(watch, invariant, holds, () => `${job.id}: ${text()}`, [job.id])
  checkFold(seen, say)
  checkPlace(watch, seen, say)
  checkRank(watch, seen, say)
  checkAttempts(seen, say)
  if (before !== undefined) checkChange(before, job, own, say)
}

type Say = (invariant: Invariant, holds: boolean, text: () => string) => void

function checkFold(seen: Seen, say: Say): void {
  const { job } = seen
  say(2, job.status === seen.status, () => `is ${job.status}; its log says ${seen.status}`)
  for (const name of FOLDED) {
    say(6, job[name] === seen[name], () => `${name} is ${job[name]}; the log says ${seen[name]}`)
  }
  const { evictor } = job
  say(23, evictor === seen.evictor, () => `gives way to ${evictor}, not ${seen.evictor}`)
  say(14, job.preempted <= 3, () => `has given way ${job.preempted} times`)
  const held = job.lease !== undefined
  const running = job.status === 'running'
  const fits = running ? held && job.lease?.hold === false : !held || job.status === 'cancelled'
  say(2, fits, () => `is ${job.status} with ${held ? 'a lease' : 'no lease'}`)
  say(2, !held || running || job.lease?.hold === true, () => 'has ended and kept its lease')
  const done = isEnd(job.status)
  say(2, done === job.finishedAt > 0, () => `is ${job.status}, finished at ${job.finishedAt}`)
}

const FOLDED = [
  ...(['starts', 'attempts', 'lost', 'attemptsBefore', 'lostBefore', 'preempted'] as const),
  ...(['unknown', 'weight'] as const),
]

/** 27: its place in line is that of the moment when it asked, by what its priority is worth. */
function checkRank({ view }: Watch, seen: Seen, say: Say): void {
  const { job } = seen
  const isInLine = job.status === 'ready' || (job.status === 'waiting' && job.needs === 0)
  if (!isInLine && !seen.again) return
  const rank = view.rankOf(seen)
  say(27, job.rank === rank, () => `has rank ${job.rank}; it asked at ${seen.asked}, so ${rank}`)
}

/** Dependencies recounted, doom, and the deadlines of those who wait. */
function checkPlace(watch: Watch, seen: Seen, say: Say): void {
  const { job } = seen
  if (job.deps.length > 0 && !isEnd(job.status)) {
    const { needs, open } = watch.view.countsOf(seen)
    const counted = job.needs === needs && (needs === 0 || job.open === open)
    const text = () =>
      `needs ${job.needs} of ${job.open} open; a recount says ${needs} of ${open} open`
    say(28, counted, text)
    if (job.status === 'waiting') {
      const doomed = needs > 0 && open < needs
      const marked = job.deadline > 0 && job.cause !== undefined
      say(30, doomed === marked, () => (doomed ? 'is doomed, unmarked' : 'is marked as doomed'))
    } else say(28, needs === 0, () => `is ${job.status} before its quorum`)
  }
  if (job.status === 'waiting') {
    const forLane = seen.job.exclusive !== undefined
    say(29, job.needs > 0 || forLane, () => 'waits for nothing')
  }
  if (job.status === 'ready') {
    const due = job.enqueueTimeoutMs === 0 ? 0 : seen.readyAt + job.enqueueTimeoutMs
    say(6, job.deadline === due, () => `its deadline is ${job.deadline}, not ${due}`)
  }
  if (job.status === 'pending') say(6, job.deadline === 0, () => 'is pending with a deadline')
}

/** 13: numbered 1, 2, 3 ..., each closed once, the last one open exactly while it runs. */
function checkAttempts(seen: Seen, say: Say): void {
  const { log, starts, status, id } = seen.job
  if (starts === 0 && log.length === 0) return
  say(13, log.length === Math.min(starts, 100), () => `${starts} starts, ${log.length} records`)
  const first = starts - log.length + 1
  const numbered = log.every((each, index) => each.attempt === first + index)
  say(13, numbered, () => `its attempts are not numbered 1, 2, 3: ${id}`)
  const open = log.filter((each) => each.outcome === undefined).map((each) => each.attempt)
  const right = status === 'running' ? open.length === 1 && open[0] === starts : open.length === 0
  say(13, right, () => `is ${status} with open attempts ${open.join(', ')}`)
}

/** Fields that may change without an entry in the log. */
const SILENT: ReadonlySet<string> = new Set([
  ...['needs', 'open', 'deadline', 'cause', 'evictor', 'weight'],
])
const SETTLED: ReadonlySet<string> = new Set([
  ...['lease', 'rev', 'deadline', 'needs', 'open', 'evictor'],
])

function checkChange(before: StoredJob, job: StoredJob, own: readonly JobEvent[], say: Say): void {
  const changed = differences(before, job)
  const settled = before.lease?.hold === true && job.lease === undefined
  const wasEnd = isEnd(before.status)
  if (wasEnd && own.length === 0) {
    const bad = changed.filter((name) => !SETTLED.has(name))
    say(4, bad.length === 0, () => `has ended and changed in ${bad.join(', ')}`)
  }
  if (own.length === 0 && !settled) {
    // Once its dependencies are met it may go on waiting for its lane: it asks for it now.
    const asks = job.status === 'waiting' && before.needs > 0 && job.needs === 0
    const mayRank = asks || before.weight !== job.weight
    const bad = changed.filter((name) => !SILENT.has(name) && !(mayRank && name === 'rank'))
    say(6, bad.length === 0, () => `changed in silence: ${bad.join(', ')}`)
  }
  if (own.length > 0 || settled) {
    say(6, job.rev > before.rev, () => `moved, and its revision stayed ${job.rev}`)
  }
}

/** 14, 15, 16: what a move may do to a job that runs, judged by its terms. */
export function checkTerms(watch: Watch, seen: Seen, event: JobEvent, lease: number): void {
  const { job } = seen
  const begun = watch.hasBegun(lease)
  const words = watch.wordsOf(lease)
  const { terms } = job
  const text = (what: string) => () => `${job.id}: ${what} at ${event.event}`
  if (event.event === 'job:running') {
    const charged = seen.attempts - seen.attemptsBefore
    expect(watch, 14, charged <= terms.retries + 1, text(`${charged} attempts`), [job.id])
    const losses = seen.lost - seen.lostBefore
    expect(watch, 14, losses <= terms.maxLost, text(`${losses} losses`), [job.id])
  }
  if (!terms.idempotent && !terms.confirm && UNKNOWN.includes(event.event)) {
    const isBack = event.event === 'job:returned' || event.event === 'job:preempted'
    const over = event.to === 'failed' || (isBack && !begun)
    expect(watch, 16, over, text('may not run again after an unknown outcome'), [job.id])
  }
  if (event.event === 'job:preempted') {
    watch.coverage.deed(words?.late === true ? 'gives way late' : 'gives way')
  }
  if (event.event === 'job:success') {
    if (words?.evicted === true) watch.coverage.deed('succeeds in its grace')
    const known = begun || words?.confirmed === 'done'
    expect(watch, 16, known, text('succeeded, and nobody ran it'), [job.id])
  }
  if (event.code === 'HEARTBEAT_LOST') {
    const silent = words?.silentMs ?? 0
    const late = silent >= job.terms.heartbeatMs
    expect(watch, 17, late, text(`silent for ${silent} ms`), [job.id])
    watch.coverage.deed('silent')
  }
  if (event.event !== 'job:retry') return
  expect(watch, 16, words?.retryable !== false, text('may not be retried'), [job.id])
}

const UNKNOWN: readonly string[] = ['job:timeout', 'job:lost', 'job:returned', 'job:preempted']

/** 15: the wait before the next attempt, by the terms, in words of its own. */
export function checkBackoff(watch: Watch, seen: Seen, event: JobEvent, lease: number): void {
  const { job } = seen
  const { backoff } = job.terms
  if (event.to !== 'pending' && event.to !== 'ready') return
  const wait = job.availableAt - event.at
  const say = (least: number, most: number) => {
    const fits = wait >= Math.floor(least) && wait <= Math.ceil(most)
    const text = () => `${job.id}: waits ${wait} ms after ${event.event}, not ${least} to ${most}`
    expect(watch, 15, fits, text, [job.id])
  }
  if (event.event === 'job:lost') {
    const losses = seen.lost - seen.lostBefore
    const most = losses <= 1 ? 0 : Math.min(600_000, 1_000 * 4 ** (losses - 2))
    say(most / 2, most)
    return
  }
  const failure = seen.attempts - seen.attemptsBefore
  const grown =
    backoff.type === 'fixed' ? backoff.delayMs : backoff.delayMs * backoff.factor ** (failure - 1)
  const most = Math.min(grown, backoff.maxMs)
  const least = backoff.jitter ? most / 2 : most
  const asked = event.event === 'job:retry' ? (watch.wordsOf(lease)?.retryAfter ?? 0) : 0
  say(Math.max(least, asked), Math.max(most, asked))
}
