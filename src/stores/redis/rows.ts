// Owns how a job is packed: what is said of it once, and what the scripts keep of how it is now.
// May never look inside a payload: it is the rest of what was said, as it came.

import type { Dep, DepMode, NewJob, StoredJob, Terms } from '../../core/job.ts'
import type { Head, Heads, More } from './heads.ts'
import { type Packable, pack, type Reader } from './pack.ts'

/** Bits of a job's flags, as rows.lua has them: what was said of it that a rule may ask for. */
const FLAGS = { special: 1, silent: 2, preemptible: 4, keyed: 8, laned: 16, linked: 32 } as const

/** Instead of the number of its terms: the job has terms of its own. */
const ITS_OWN = 0

const NO_DEPS: readonly Dep[] = Object.freeze([])

/** What was said of a job, as far as it stands outside of what changes. */
type SaidName = 'key' | 'keyForMs' | 'exclusive' | 'flow' | 'enqueueTimeoutMs' | 'depMode' | 'deps'
type Said = Pick<StoredJob, SaidName>

const PLAIN: Said = {
  key: undefined,
  keyForMs: 0,
  exclusive: undefined,
  flow: undefined,
  enqueueTimeoutMs: 0,
  depMode: 'all',
  deps: NO_DEPS,
}

function isPlain(job: NewJob): boolean {
  return (
    job.key === undefined &&
    job.exclusive === undefined &&
    job.flow === undefined &&
    job.deps.length === 0 &&
    job.keyForMs === 0 &&
    job.enqueueTimeoutMs === 0 &&
    job.depMode === 'all'
  )
}

export function flagsOf(job: NewJob): number {
  const isSpecial = !isPlain(job)
  return (
    (isSpecial ? FLAGS.special : 0) |
    (typeof job.payload === 'string' ? 0 : FLAGS.silent) |
    (job.terms.preemptible ? FLAGS.preemptible : 0) |
    (job.key === undefined ? 0 : FLAGS.keyed) |
    (job.exclusive === undefined ? 0 : FLAGS.laned) |
    (job.deps.length === 0 ? 0 : FLAGS.linked)
  )
}

/** A header if the job is special, then its payload. */
export function packSaid(job: NewJob): string | Buffer {
  const payload = typeof job.payload === 'string' ? job.payload : ''
  if (isPlain(job)) return payload
  const deps = job.deps.flatMap(({ id, on }): Packable[] => [id, on === 'end' ? 1 : 0])
  const header = pack([
    job.key ?? false,
    job.keyForMs,
    job.exclusive ?? false,
    job.flow ?? false,
    job.enqueueTimeoutMs,
    job.depMode,
    deps,
  ])
  return Buffer.concat([header, Buffer.from(payload)])
}

/** The header of a job that is special. */
function readHeader(reader: Reader): Said {
  reader.list()
  const key = reader.textOr(undefined)
  const keyForMs = reader.number()
  const exclusive = reader.textOr(undefined)
  const flow = reader.textOr(undefined)
  const enqueueTimeoutMs = reader.number()
  const depMode = reader.value() as DepMode
  const deps: Dep[] = []
  for (let left = reader.list(); left > 0; left -= 2) {
    const id = reader.text()
    deps.push({ id, on: reader.number() === 1 ? 'end' : 'success' })
  }
  return { key, keyForMs, exclusive, flow, enqueueTimeoutMs, depMode, deps }
}

/** Terms that are not known yet, by their numbers: they are learnt, and then it is read again. */
export class Unknown {
  readonly terms = new Set<number>()
}

/** Where jobs look up what they share. */
export interface Sharing {
  lineOf(line: number): { readonly pool: string; readonly type: string }
  termsOf(number: number): Terms | undefined
  readonly unknown: Unknown
  readonly heads: Heads
}

/** What never changes of a job: of one that was handed in, or one that was read. */
export type Known = Said & Pick<StoredJob, 'id' | 'terms' | 'payload'> & { readonly seq?: number }

/** Jobs that this process knows anyway: the server does not say again what was said of them. */
export interface Knowing {
  /** Who should stand at that place of the answer. */
  at(place: number): Known | undefined
  by(id: string): Known | undefined
  /** What it has come to, where it stands among others that are as it is but for that. */
  resultAt(place: number): string | undefined
}

const NOTHING_KNOWN: Knowing = {
  at: () => undefined,
  by: () => undefined,
  resultAt: () => undefined,
}

/**
 * Jobs as a script answers them: number, what was said (false: it is known), how it is now. Or
 * several who are alike: how many, the number of the first, how that is now.
 */
export function readJobs(reader: Reader, sharing: Sharing, knowing = NOTHING_KNOWN): StoredJob[] {
  const jobs: StoredJob[] = []
  for (let left = reader.list(); left > 0; left -= 3) {
    if (!reader.isAtKey()) {
      readRun(reader, sharing, knowing, jobs)
      continue
    }
    const seq = reader.key()
    if (reader.skipFalse()) jobs.push(readKnown(reader, sharing, seq, knowing, jobs.length))
    else jobs.push(readTold(reader, sharing, seq))
  }
  return jobs
}

/** Jobs that were added have numbers one after the other; others bring theirs. */
function readRun(reader: Reader, sharing: Sharing, knowing: Knowing, jobs: StoredJob[]): void {
  const many = reader.number()
  const first = reader.key()
  const end = reader.length() + reader.at
  const head = sharing.heads.read(reader)
  const lease = reader.six()
  const id = reader.textTo(reader.one() + reader.at)
  const more = head.more(reader, end)
  reader.at = end
  for (let count = 0; count < many; count += 1) {
    const place = jobs.length
    const known = knowing.at(place)
    if (known === undefined || (count === 0 && known.id !== id)) throw untold(first + count)
    const seq = known.seq ?? first + count
    const result = knowing.resultAt(place)
    jobs.push(jobOf(known.id, seq, lease, head, more, known, known.payload, known.terms, result))
  }
}

function untold(seq: number): Error {
  return new Error(`the server has not said what was said of job ${seq}`)
}

function readTold(reader: Reader, sharing: Sharing, seq: number): StoredJob {
  const saidEnd = reader.length() + reader.at
  const saidAt = reader.at
  reader.at = saidEnd
  const end = reader.length() + reader.at
  const head = sharing.heads.read(reader)
  const lease = reader.six()
  const id = reader.textTo(reader.one() + reader.at)
  const more = head.more(reader, end)
  reader.at = saidAt
  const said = (head.flags & FLAGS.special) === 0 ? PLAIN : readHeader(reader)
  const payload = (head.flags & FLAGS.silent) === 0 ? reader.textTo(saidEnd) : undefined
  reader.at = end
  const terms = head.termsAt === ITS_OWN ? more.terms : sharing.termsOf(head.termsAt)
  if (terms === undefined) sharing.unknown.terms.add(head.termsAt)
  return jobOf(id, seq, lease, head, more, said, payload, terms as Terms, more.result)
}

function readKnown(
  reader: Reader,
  sharing: Sharing,
  seq: number,
  knowing: Knowing,
  place: number,
): StoredJob {
  const end = reader.length() + reader.at
  const head = sharing.heads.read(reader)
  const lease = reader.six()
  const idEnd = reader.one() + reader.at
  let known = knowing.at(place)
  if (known === undefined || !reader.isText(known.id, idEnd)) {
    const id = reader.textTo(idEnd)
    if (known?.id !== id) known = knowing.by(id)
  }
  if (known === undefined) throw untold(seq)
  reader.at = idEnd
  const more = head.more(reader, end)
  const { id, terms, payload } = known
  return jobOf(id, seq, lease, head, more, known, payload, terms, more.result)
}

function jobOf(
  id: string,
  seq: number,
  lease: number,
  head: Head,
  more: More,
  said: Said,
  payload: StoredJob['payload'],
  terms: Terms,
  result: StoredJob['result'],
): StoredJob {
  return {
    id,
    seq,
    rev: head.rev,
    type: head.type,
    pool: head.pool,
    flow: said.flow,
    payload: typeof payload === 'string' ? payload : undefined,
    body: undefined,
    terms,
    priority: head.priority,
    weight: head.weight,
    rank: head.rank,
    status: head.status,
    deps: said.deps,
    depMode: said.depMode,
    needs: head.needs,
    open: head.open,
    key: said.key,
    keyForMs: said.keyForMs,
    exclusive: said.exclusive,
    enqueueTimeoutMs: said.enqueueTimeoutMs,
    starts: head.starts,
    attempts: head.attempts,
    lost: head.lost,
    preempted: more.preempted,
    attemptsBefore: more.attemptsBefore,
    lostBefore: head.lostBefore,
    lease: lease === 0 ? undefined : { holder: head.holder, number: lease, hold: more.hold },
    unknown: more.unknown,
    evictor: more.evictor,
    deadline: head.deadline,
    createdAt: head.createdAt,
    availableAt: head.availableAt,
    startedAt: head.startedAt,
    finishedAt: head.finishedAt,
    result,
    error: more.error,
    code: more.code,
    cause: more.cause,
    log: more.log,
    note: more.note,
  }
}
