// Owns the verdict on decisions: which of them the store had to make true, which had to change
// nothing, and what each may have done. May never decide for the engine: it knows only what the
// record was when the decision arrived.

import type { Move, StoredJob } from '../../core/job.ts'
import type { Moved } from '../../store/store.ts'
import { isEnd } from './copy.ts'
import { type Commit, expect, type Watch } from './oracle.ts'
import type { Seen, View } from './view.ts'

/** Before the entries of the call are folded: each move against the record that it met. */
export function judgeApply(watch: Watch, commit: Commit): void {
  const moves = commit.call.args[0] as readonly Move[]
  const { answer } = commit.answer as { readonly answer: readonly Moved[] }
  const released = new Set<string>()
  const keys = new Map<string, string>()
  for (const [index, move] of moves.entries()) {
    const seen = watch.view.jobs.get(move.id)
    watch.coverage.move(move.step, seen?.status ?? 'gone')
    if (seen !== undefined && 'rev' in move.expect && move.expect.overdue) {
      watch.coverage.checked(10)
    }
    const given = answer[index] as Moved
    if (given.status === 'moved') judgeVerdict(watch, move, seen)
    judgeMove(watch, commit, { move, seen, released, keys }, given)
    const lets = move.step === 'forget' || move.step === 'succeed'
    if (lets && given.status === 'moved') released.add(move.id)
    const key = move.step === 'revive' && given.status === 'moved' ? seen?.job.key : undefined
    if (key !== undefined) keys.set(key, move.id)
  }
}

/** What an attempt has shown of the downstream: an end of its own making shows nothing. */
function judgeVerdict(watch: Watch, { step, verdict, id }: Move, seen: Seen | undefined): void {
  const words = watch.wordsOf(seen?.job.lease?.number ?? 0)
  const failed = step === 'fail' || step === 'retry'
  const isIll = step === 'timeout' || (failed && words?.transient === true)
  const due = step === 'succeed' ? 'success' : isIll ? 'failure' : 'neutral'
  expect(watch, 26, verdict === due, () => `${id}: ${step} shows ${verdict}, not ${due}`, [id])
}

/**
 * A move, the record that it meets, who has stopped naming others earlier in the call, and who has
 * been revived in it, by key.
 */
interface Met {
  readonly move: Move
  readonly seen: Seen | undefined
  readonly released: ReadonlySet<string>
  readonly keys: ReadonlyMap<string, string>
}

function judgeMove(watch: Watch, commit: Commit, met: Met, given: Moved): void {
  const { move, seen } = met
  const { view } = watch
  // Kept only because it was named, it becomes overdue as its last namer lets it go.
  const freed =
    met.released.size > 0 && seen?.job.deadline === 0 && isEnd(seen.status)
      ? view.namerOf(move.id, met.released) === undefined
      : false
  const job = freed && seen !== undefined ? { ...seen.job, deadline: commit.now } : seen?.job
  const meant = isMeant(move, job, commit.now)
  const refused = given.status === 'refused'
  const text = () =>
    `${move.id}: ${move.step} was answered ${given.status}; expected by ` +
    `${JSON.stringify(move.expect)}, met ${seen === undefined ? 'nothing' : brief(seen.job)}`
  const invariant = 'lease' in move.expect ? 8 : 9
  expect(watch, invariant, meant === (given.status !== 'stale'), text, [move.id])
  if (!meant) {
    const after = commit.after.get(move.id)
    const same = seen === undefined ? after === null : after?.rev === seen.job.rev
    const others = commit.events.some((event) => event.job === move.id)
    const still = same || others
    expect(watch, 8, still, () => `${move.id}: a stale ${move.step} changed it`, [move.id])
  }
  if (refused && seen !== undefined) judgeRefusal(watch, commit, met, seen, given)
  if (given.status === 'moved' && seen !== undefined) judgeForce(watch, commit, met, seen)
}

/** Whether what a move compares is true of the record. */
function isMeant(move: Move, job: StoredJob | undefined, now: number): boolean {
  if (job === undefined) return false
  if ('lease' in move.expect) return job.lease?.number === move.expect.lease
  const { seq, rev } = move.expect
  if (job.seq !== seq || job.rev !== rev) return false
  return !move.expect.overdue || (job.deadline > 0 && job.deadline <= now)
}

function brief(job: StoredJob): string {
  const lease = job.lease === undefined ? 'no lease' : `lease ${job.lease.number}`
  return `${job.status}, rev ${job.rev}, ${lease}, deadline ${job.deadline}`
}

/** What is taken from a job by force is taken when its time is over, and for good reason. */
function judgeForce(watch: Watch, { now, call }: Commit, met: Met, seen: Seen): void {
  const { move, released } = met
  const { job } = seen
  const { view } = watch
  const own = [job.id]
  if (move.step === 'lose') {
    // A worker may say itself that it has lost its grip; nobody else may before the time.
    const own = 'lease' in move.expect && job.lease?.holder === call.node.holder
    const over = own || job.deadline <= now
    expect(watch, 9, over, () => `${job.id}: reaped ${job.deadline - now} ms early`, [job.id])
    const number = job.lease?.number ?? 0
    const text = () => `${job.id}: lease ${number} is lost, and its body was not told to stop`
    expect(watch, 11, own || !watch.goesOn(number), text, [job.id])
  }
  if (move.step === 'cascade') {
    expect(watch, 30, view.isDoomed(seen), () => `${job.id}: cancelled without doom`, own)
    judgeCause(watch, view, seen)
  }
  if (move.step === 'forget') {
    const namer = view.namerOf(job.id, released)?.job.id
    const text = () => `${job.id}: forgotten while ${namer} names it`
    expect(watch, 1, namer === undefined, text, own)
    expect(watch, 1, job.lease === undefined, () => `${job.id}: forgotten with a hold`, own)
    const least = isEnd(job.status) && job.deadline <= now // 0: it was kept for a namer only
    expect(watch, 1, least, () => `${job.id}: forgotten before its time, by ${call.name}`, own)
  }
  if (move.step === 'return') {
    const mine = job.lease?.holder === call.node.holder
    expect(watch, 9, mine, () => `${job.id}: handed back by ${call.node.label}`, own)
  }
}

/** 31: the cause is an end that is no success, reached through dependencies that died. */
function judgeCause(watch: Watch, view: View, seen: Seen): void {
  const { cause, id } = seen.job
  const todo = [id]
  const done = new Set<string>()
  let found = false
  for (let next = todo.pop(); next !== undefined && !found; next = todo.pop()) {
    if (done.has(next)) continue
    done.add(next)
    found = next === cause && next !== id
    for (const dep of view.jobs.get(next)?.job.deps ?? []) todo.push(dep.id)
  }
  expect(watch, 31, found, () => `${id}: its cause ${cause} is nothing that it waited for`, [id])
}

function judgeRefusal(watch: Watch, commit: Commit, met: Met, seen: Seen, given: Moved): void {
  const { move, released, keys } = met
  if (given.status !== 'refused') return
  const { view } = watch
  const { key, id } = seen.job
  const own = [id]
  const { why } = given
  if (why.reason === 'named') {
    const right = move.step === 'forget' && view.namerOf(id, released) !== undefined
    expect(watch, 1, right, () => `${id}: kept, and nobody names it`, own)
  } else if (why.reason === 'key') {
    const owner = key === undefined ? undefined : (keys.get(key) ?? view.ownerOf(key, commit.now))
    expect(watch, 34, owner === why.owner && owner !== id, () => `${id}: key of ${owner}`, own)
  } else {
    expect(watch, 30, move.step === 'revive', () => `${id}: ${move.step} refused as doomed`, own)
  }
}
