// Owns how a job is packed: what is said of it once, and what the scripts keep of how it is now.
// May never look inside a payload: it is the rest of what was said, as it came.

import {
  type Attempt,
  type Dep,
  type DepMode,
  type ErrorData,
  type NewJob,
  type Outcome,
  STATUSES,
  type StoredJob,
  type Terms,
} from '../../core/job.ts'
import { type Packable, pack, Reader, unpack } from './pack.ts'

/** Bits of a job's flags, as rows.lua has them: what was said of it that a rule may ask for. */
const FLAGS = { special: 1, silent: 2, preemptible: 4, keyed: 8, laned: 16, linked: 32 } as const

/** Instead of the number of its terms: the job has terms of its own. */
const ITS_OWN = 0

const NO_BYTES = Buffer.alloc(0)
const NO_DEPS: readonly Dep[] = Object.freeze([])

/** What was said of a job, as far as it stands outside of what changes. */
type SaidName = 'key' | 'keyForMs' | 'exclusive' | 'flow' | 'enqueueTimeoutMs' | 'depMode' | 'deps'
export type Said = Pick<StoredJob, SaidName | 'payload'>

const PLAIN = {
  key: undefined,
  keyForMs: 0,
  exclusive: undefined,
  flow: undefined,
  enqueueTimeoutMs: 0,
  depMode: 'all',
  deps: NO_DEPS,
} as const satisfies Omit<Said, 'payload'>

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
export function packSaid(job: NewJob): Packable {
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

function readSaid(bytes: Buffer, flags: number): Said {
  const payloadIn = (rest: Buffer) =>
    (flags & FLAGS.silent) === 0 ? rest.toString('utf8') : undefined
  if ((flags & FLAGS.special) === 0) return { ...PLAIN, payload: payloadIn(bytes) }
  const reader = new Reader(bytes)
  reader.list()
  const key = reader.textOr(undefined)
  const keyForMs = reader.number()
  const exclusive = reader.textOr(undefined)
  const flow = reader.textOr(undefined)
  const enqueueTimeoutMs = reader.number()
  const depMode = reader.value() as DepMode
  const deps = Array.from({ length: reader.list() / 2 }, (): Dep => {
    const id = reader.text()
    return { id, on: reader.number() === 1 ? 'end' : 'success' }
  })
  return {
    key,
    keyForMs,
    exclusive,
    flow,
    enqueueTimeoutMs,
    depMode,
    deps,
    payload: payloadIn(reader.rest()),
  }
}

/** What rows.lua keeps under a short name, of jobs that have something to say of it. */
interface More {
  readonly h?: boolean
  readonly pr?: number
  readonly ab?: number
  readonly u?: boolean
  readonly ev?: string
  readonly vi?: string
  readonly co?: string
  readonly ca?: string
  readonly er?: string
  readonly lg?: readonly unknown[]
  readonly no?: string
  readonly re?: string
  readonly tm?: Terms
}

const NOTHING_MORE: More = Object.freeze({})

/** Where jobs look up what they share. */
export interface Shared {
  lineOf(line: number): { readonly pool: string; readonly type: string }
  termsOf(number: number): Terms | undefined
}

/** Terms that are not known yet, by their numbers: they are learnt, and then it is read again. */
export class Unknown {
  readonly terms = new Set<number>()
}

/** The seq of a job: six bytes, the highest first. */
export function seqOf(key: Buffer): number {
  return key.readUIntBE(0, 6)
}

/** What never changes of a job: of one that was handed in, or one that was read. */
export type Known = Said & Pick<StoredJob, 'terms'>

export interface Sharing extends Shared {
  readonly unknown: Unknown
  /** What jobs of this answer have in common, by its bytes. */
  readonly heads: Map<string, Head>
  /** What this process knows of a job anyway: then the server does not say it again. */
  readonly known: (id: string) => Known | undefined
}

/** Jobs as a script answers them: number, what was said (false: see `known`), how it is now. */
export function readJobs(reader: Reader, sharing: Sharing): StoredJob[] {
  return Array.from({ length: reader.list() / 3 }, () => {
    const seq = seqOf(reader.bytes())
    const said = reader.skipFalse() ? undefined : reader.bytes()
    return readJob(seq, said, reader.bytes(), sharing)
  })
}

function readJob(seq: number, said: Buffer | undefined, text: Buffer, sharing: Sharing): StoredJob {
  const headEnd = 2 + text.readUInt16BE(0)
  const idAt = headEnd + 7
  const idEnd = idAt + (text[idAt - 1] as number)
  const head = readHead(text, headEnd, sharing)
  const { status, createdAt, startedAt, holder, flags } = head
  const number = text.readUIntBE(headEnd, 6)
  const id = text.toString('utf8', idAt, idEnd)
  const more = idEnd === text.length ? NOTHING_MORE : readMore(new Reader(text.subarray(idEnd)))
  const known = said === undefined ? sharing.known(id) : undefined
  const { key, keyForMs, exclusive, flow, enqueueTimeoutMs, depMode, deps, payload } =
    known ?? readSaid(said ?? NO_BYTES, flags)
  const log = attemptsIn(more.lg, createdAt)
  if (status === 'running') {
    const queuedMs = startedAt - head.readyAt
    log.push({ attempt: head.starts, startedAt, queuedMs, worker: holder })
  }
  return {
    id,
    seq,
    rev: head.rev,
    type: head.type,
    pool: head.pool,
    flow,
    payload: typeof payload === 'string' ? payload : undefined,
    body: undefined,
    terms: known?.terms ?? termsFrom(head.termsAt, more, sharing),
    priority: head.priority,
    weight: head.weight,
    rank: head.rank,
    status,
    deps,
    depMode,
    needs: head.needs,
    open: head.open,
    key,
    keyForMs,
    exclusive,
    enqueueTimeoutMs,
    starts: head.starts,
    attempts: head.attempts,
    lost: head.lost,
    preempted: more.pr ?? 0,
    attemptsBefore: more.ab ?? 0,
    lostBefore: head.lostBefore,
    lease: number === 0 ? undefined : { holder, number, hold: more.h === true },
    unknown: more.u === true,
    evictor: more.ev,
    deadline: head.deadline,
    createdAt,
    availableAt: head.availableAt,
    startedAt,
    finishedAt: head.finishedAt,
    result: more.re,
    error: more.er === undefined ? undefined : (JSON.parse(more.er) as ErrorData),
    code: more.co,
    cause: more.ca,
    log,
    note: more.no,
  }
}

type Head = ReturnType<typeof headIn>

/** What many jobs have in common that were treated alike: it is read once for all of them. */
function readHead(text: Buffer, end: number, sharing: Sharing): Head {
  const name = text.toString('latin1', 2, end)
  const known = sharing.heads.get(name)
  if (known !== undefined) return known
  const head = headIn(text.subarray(2, end), sharing)
  sharing.heads.set(name, head)
  return head
}

/** In the order of rows.lua. */
function headIn(bytes: Buffer, { lineOf }: Sharing) {
  const r = new Reader(bytes)
  const { pool, type } = lineOf(r.number())
  const status = STATUSES[r.number() - 1] as StoredJob['status']
  const [rev, priority, flags, termsAt] = [r.number(), r.number(), r.number(), r.number()]
  const createdAt = r.number()
  const time = () => (r.skipFalse() ? 0 : createdAt + r.number())
  return {
    pool,
    type,
    status,
    rev,
    priority,
    flags,
    termsAt,
    createdAt,
    weight: r.number(),
    rank: r.number(),
    availableAt: createdAt + r.number(),
    readyAt: time(),
    startedAt: time(),
    finishedAt: time(),
    starts: r.number(),
    attempts: r.number(),
    lost: r.number(),
    needs: r.number(),
    open: r.number(),
    deadline: time(),
    holder: r.textOr(''),
    lostBefore: r.number(),
  }
}

/** Terms of its own are packed in what is packed. */
function readMore(reader: Reader): More {
  return reader.mapWith({ tm: (each) => termsIn(each.bytes()) }) as More
}

/** Terms as they are kept. Objects of the core have a prototype; maps of the wire have none. */
export function termsIn(packed: Buffer): Terms {
  const terms = unpack(packed) as Terms
  return { ...terms, backoff: { ...terms.backoff } }
}

function termsFrom(number: number, more: More, { termsOf, unknown }: Sharing): Terms {
  if (number === ITS_OWN) return more.tm as Terms
  const terms = termsOf(number)
  if (terms === undefined) unknown.terms.add(number)
  return terms as Terms
}

/** Seven values for each attempt that is over. */
const WIDTH = 7

function attemptsIn(flat: readonly unknown[] = [], createdAt: number): Attempt[] {
  const attempts: Attempt[] = []
  for (let at = 0; at < flat.length; at += WIDTH) {
    const [attempt, since, queuedMs, worker, callMs, outcome, code] = flat.slice(
      at,
      at + WIDTH,
    ) as [number, number, number, string, number, Outcome | false, string | false]
    attempts.push({
      attempt,
      startedAt: createdAt + since,
      queuedMs,
      worker,
      callMs,
      ...(outcome === false ? {} : { outcome }),
      ...(code === false ? {} : { code }),
    })
  }
  return attempts
}
