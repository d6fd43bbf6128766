// Owns how a job is now, as the scripts keep it: a head that many share, and what is rare about it.
// May never read for each job what is the same for all that were treated alike.

import {
  type Attempt,
  type ErrorData,
  type Outcome,
  STATUSES,
  type StoredJob,
  type Terms,
} from '../../core/job.ts'
import { type Reader, unpack } from './pack.ts'

/** What most jobs have nothing to say of. */
export interface More {
  readonly hold: boolean
  readonly preempted: number
  readonly attemptsBefore: number
  readonly unknown: boolean
  readonly evictor: string | undefined
  readonly code: string | undefined
  readonly cause: string | undefined
  readonly result: string | undefined
  readonly error: ErrorData | undefined
  readonly note: string | undefined
  readonly log: readonly Attempt[]
  /** Terms that the job shares with nobody. */
  readonly terms: Terms | undefined
}

type Changing<T> = { -readonly [Name in keyof T]: T[Name] }

type Lines = (line: number) => { readonly pool: string; readonly type: string }

/** What jobs have in common that were treated alike, in the order of rows.lua. */
export class Head {
  readonly pool: string
  readonly type: string
  readonly status: StoredJob['status']
  readonly rev: number
  readonly priority: number
  readonly flags: number
  readonly termsAt: number
  readonly createdAt: number
  readonly weight: number
  readonly rank: number
  readonly availableAt: number
  readonly startedAt: number
  readonly finishedAt: number
  readonly starts: number
  readonly attempts: number
  readonly lost: number
  readonly needs: number
  readonly open: number
  readonly deadline: number
  readonly holder: string
  readonly lostBefore: number
  /** The attempt that is under way. */
  readonly #current: readonly Attempt[]
  readonly #nothing: More
  /** Where what is rare about the last job stands, and what it is. */
  #lastAt = 0
  #lastEnd = 0
  #last: More
  /** The same of its log, which jobs have in common that have ended with a result. */
  #logAt = 0
  #logEnd = 0
  #log: readonly Attempt[] = []

  constructor(reader: Reader, lineOf: Lines) {
    const { pool, type } = lineOf(reader.number())
    this.pool = pool
    this.type = type
    this.status = STATUSES[reader.number() - 1] as StoredJob['status']
    this.rev = reader.number()
    this.priority = reader.number()
    this.flags = reader.number()
    this.termsAt = reader.number()
    const createdAt = reader.number()
    const time = () => (reader.skipFalse() ? 0 : createdAt + reader.number())
    this.createdAt = createdAt
    this.weight = reader.number()
    this.rank = reader.number()
    this.availableAt = createdAt + reader.number()
    const readyAt = time()
    this.startedAt = time()
    this.finishedAt = time()
    this.starts = reader.number()
    this.attempts = reader.number()
    this.lost = reader.number()
    this.needs = reader.number()
    this.open = reader.number()
    this.deadline = time()
    this.holder = reader.textOr('')
    this.lostBefore = reader.number()
    const { starts: attempt, startedAt, holder: worker } = this
    const current = { attempt, startedAt, queuedMs: startedAt - readyAt, worker }
    this.#current = this.status === 'running' ? [current] : []
    this.#nothing = nothing(this.#current)
    this.#last = this.#nothing
  }

  /** What is rare about a job, from where the reader stands to `end`. */
  more(reader: Reader, end: number): More {
    const { at } = reader
    if (at === end) return this.#nothing
    if (!reader.isAgain(end, this.#lastAt, this.#lastEnd)) {
      this.#last = this.#read(reader)
      this.#lastAt = at
      this.#lastEnd = end
    }
    reader.at = end
    return this.#last
  }

  #read(reader: Reader): More {
    const more: Changing<More> = nothing(this.#current)
    for (let left = reader.map(); left > 0; left -= 1) {
      const name = reader.text()
      if (name === 'lg') more.log = this.#logOf(reader)
      else if (name === 'tm') more.terms = termsIn(reader.bytes())
      else set(more, name, reader.value())
    }
    return more
  }

  #logOf(reader: Reader): readonly Attempt[] {
    const { at } = reader
    const sameEnd = at + this.#logEnd - this.#logAt
    if (reader.isAgain(sameEnd, this.#logAt, this.#logEnd)) reader.at = sameEnd
    else {
      this.#log = [...attemptsIn(reader, this.createdAt), ...this.#current]
      this.#logAt = at
      this.#logEnd = reader.at
    }
    return this.#log
  }
}

function nothing(log: readonly Attempt[]): More {
  return {
    hold: false,
    preempted: 0,
    attemptsBefore: 0,
    unknown: false,
    evictor: undefined,
    code: undefined,
    cause: undefined,
    result: undefined,
    error: undefined,
    note: undefined,
    log,
    terms: undefined,
  }
}

/** By the short names of rows.lua; what a script alone asks for has none here. */
function set(more: Changing<More>, name: string, value: unknown): void {
  if (name === 're') more.result = value as string
  else if (name === 'h') more.hold = value as boolean
  else if (name === 'pr') more.preempted = value as number
  else if (name === 'ab') more.attemptsBefore = value as number
  else if (name === 'u') more.unknown = value as boolean
  else if (name === 'ev') more.evictor = value as string
  else if (name === 'co') more.code = value as string
  else if (name === 'ca') more.cause = value as string
  else if (name === 'er') more.error = JSON.parse(value as string) as ErrorData
  else if (name === 'no') more.note = value as string
}

/** Seven values for each attempt that is over. */
const WIDTH = 7

function attemptsIn(reader: Reader, createdAt: number): Attempt[] {
  const attempts: Attempt[] = []
  for (let left = reader.list(); left > 0; left -= WIDTH) {
    const attempt: Changing<Attempt> = {
      attempt: reader.number(),
      startedAt: createdAt + reader.number(),
      queuedMs: reader.number(),
      worker: reader.text(),
      callMs: reader.number(),
    }
    const outcome = reader.textOr(undefined)
    const code = reader.textOr(undefined)
    if (outcome !== undefined) attempt.outcome = outcome as Outcome
    if (code !== undefined) attempt.code = code
    attempts.push(attempt)
  }
  return attempts
}

/** The heads of one answer: most often a job has the one of the job before it. */
export class Heads {
  readonly #known = new Map<string, Head>()
  readonly #lineOf: Lines
  #at = 0
  #end = 0
  #last: Head | undefined

  constructor(lineOf: Lines) {
    this.#lineOf = lineOf
  }

  /** The head that begins where the reader stands: two bytes of length, then as many. */
  read(reader: Reader): Head {
    const at = reader.at + 2
    const end = at + reader.two()
    let head = this.#last
    if (head === undefined || !reader.isAgain(end, this.#at, this.#end)) {
      const name = reader.buffer.toString('latin1', at, end)
      head = this.#known.get(name) ?? new Head(reader, this.#lineOf)
      this.#known.set(name, head)
      this.#last = head
      this.#at = at
      this.#end = end
    }
    reader.at = end
    return head
  }
}

/** Terms as they are kept. Objects of the core have a prototype; maps of the wire have none. */
export function termsIn(packed: Buffer): Terms {
  const terms = unpack(packed) as Terms
  return { ...terms, backoff: { ...terms.backoff } }
}
