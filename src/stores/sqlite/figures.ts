// Owns the texts in a job's rows: what was said and what changes, where no statement asks for it.
// May never be read by a statement but for the places that schema.ts and statements.ts name.

import type { Attempt, Dep, DepMode, Terms } from '../../core/job.ts'
import { pack, unpack } from './pack.ts'
import { NO_ATTEMPTS, type Row } from './row.ts'

const NOTHING_MORE: More = Object.freeze({})

/** Instead of the number of its terms: they stand beside it. */
export const ITS_OWN = 0

/** What was said of a job and no statement asks for; schema.ts knows one of the places. */
export function saidOf(row: Row): string {
  const { termsAt, priority, keyForMs, enqueueTimeoutMs, depMode, deps } = row
  const isPlain = keyForMs === 0 && enqueueTimeoutMs === 0 && termsAt !== ITS_OWN
  if (isPlain && deps.length === 0 && depMode === 'all') return `[${termsAt},${priority}]`
  const said: Said = [termsAt, priority, keyForMs, enqueueTimeoutMs, depMode, deps]
  if (termsAt === ITS_OWN) said.push(packTerms(row.terms))
  return JSON.stringify(said)
}

export type Said = [
  termsAt: number,
  priority: number,
  keyForMs?: number,
  enqueueTimeoutMs?: number,
  depMode?: DepMode,
  deps?: readonly Dep[],
  terms?: string,
]

/** What changes and no statement asks for. Instants are milliseconds since the job was created. */
export function figuresOf(row: Row): string {
  const { rev, weight, starts, attempts, lost, log, status, createdAt } = row
  const numbers =
    `${rev},${weight},${starts},${attempts},${lost},${since(createdAt, row.availableAt)},` +
    `${since(createdAt, row.readyAt)},${since(createdAt, row.startedAt)},` +
    `${since(createdAt, row.finishedAt)}`
  const more = moreOf(row)
  // The attempt that runs is not written: it is what the row itself says.
  const closed = status === 'running' ? log.length - 1 : log.length
  if (closed <= 0 && more === undefined) return `[${numbers}]`
  let made = ''
  for (let at = 0; at < closed; at += 1) {
    made += (at === 0 ? '' : ',') + attemptText(log[at] as Attempt, createdAt)
  }
  if (more === undefined) return `[${numbers},[${made}]]`
  return `[${numbers},[${made}],${JSON.stringify(more)}]`
}

function since(createdAt: number, time: number): number | 'null' {
  return time === 0 ? 'null' : time - createdAt
}

export type Figures = [
  rev: number,
  weight: number,
  starts: number,
  attempts: number,
  lost: number,
  availableAt: number | null,
  readyAt: number | null,
  startedAt: number | null,
  finishedAt: number | null,
  log?: readonly PackedAttempt[],
  more?: More,
]

/** An attempt as a list; what it lacks is left out at the end, or is 0 where more follows. */
type PackedAttempt = [
  attempt: number,
  startedAt: number,
  queuedMs: number,
  worker: string,
  callMs?: number,
  outcome?: Attempt['outcome'] | 0,
  code?: string,
]

function attemptText(made: Attempt, createdAt: number): string {
  const { attempt, startedAt, queuedMs, worker, callMs, outcome, code } = made
  let text = `[${attempt},${startedAt - createdAt},${queuedMs},${JSON.stringify(worker)}`
  if (callMs === undefined) return `${text}]`
  text += `,${callMs}`
  if (outcome !== undefined || code !== undefined) text += `,${JSON.stringify(outcome ?? 0)}`
  return code === undefined ? `${text}]` : `${text},${JSON.stringify(code)}]`
}

function unpackAttempt(packed: PackedAttempt, createdAt: number): Attempt {
  const [attempt, since, queuedMs, worker, callMs, outcome = 0, code] = packed
  return {
    attempt,
    startedAt: createdAt + since,
    queuedMs,
    worker,
    ...(callMs === undefined ? {} : { callMs }),
    ...(outcome === 0 ? {} : { outcome }),
    ...(code === undefined ? {} : { code }),
  }
}

/** The attempts that are over. */
export function attemptsIn([, , , , , , , , , log = []]: Figures, createdAt: number) {
  return log.length === 0 ? NO_ATTEMPTS : log.map((each) => unpackAttempt(each, createdAt))
}

export function moreIn([, , , , , , , , , , more = NOTHING_MORE]: Figures): More {
  return more
}

/** What most jobs have nothing to say of. */
function moreOf(row: Row): More | undefined {
  const { cause, victim, preempted, attemptsBefore, lostBefore, unknown, displaced } = row
  const { stuck, pass, keepRank, keepMs, parked, inLane, note } = row
  const isPlain =
    cause === undefined &&
    victim === undefined &&
    note === undefined &&
    preempted === 0 &&
    attemptsBefore === 0 &&
    lostBefore === 0 &&
    !(unknown || displaced || stuck || keepRank || parked || inLane) &&
    pass < 0 &&
    keepMs === 0
  if (isPlain) return undefined
  return {
    cause,
    victim,
    preempted: preempted || undefined,
    attemptsBefore: attemptsBefore || undefined,
    lostBefore: lostBefore || undefined,
    unknown: unknown || undefined,
    displaced: displaced || undefined,
    stuck: stuck || undefined,
    pass: pass < 0 ? undefined : pass,
    keepRank: keepRank || undefined,
    keepMs: keepMs || undefined,
    parked: parked || undefined,
    inLane: inLane || undefined,
    note,
  }
}

type Rare =
  | ('cause' | 'victim' | 'preempted' | 'attemptsBefore' | 'lostBefore' | 'unknown')
  | ('displaced' | 'stuck' | 'pass' | 'keepRank' | 'keepMs' | 'parked' | 'inLane' | 'note')
type More = { readonly [Name in Rare]?: Row[Name] | undefined }

/** What jobs agree on, as the text by which it is found again. */
export const packTerms = (terms: Terms): string => pack(terms)
export const unpackTerms = (text: string): Terms => unpack(text)
