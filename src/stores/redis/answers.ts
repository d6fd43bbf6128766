// Owns the answers of scripts that move jobs, as the port gives them.
// May never decide: what a script has not said is not known.

import type { Move, NewJob, StoredJob } from '../../core/job.ts'
import type { Missed, Schedule } from '../../core/settings.ts'
import type {
  ExtendAnswer,
  ExtendAsk,
  Extended,
  InsertAnswer,
  InsertGroup,
  LeaseAnswer,
  Moved,
  OverdueAnswer,
  Refusal,
} from '../../store/store.ts'
import type { Reader } from './pack.ts'
import { type Knowing, type Known, readJobs, type Sharing } from './rows.ts'

export function readInserted(
  reader: Reader,
  sharing: Sharing,
  groups: readonly Pick<InsertGroup, 'jobs'>[],
): InsertAnswer[] {
  reader.list()
  const said: { readonly status: string; readonly what: unknown[] }[] = []
  // Who was added by this call, by place in the answer: the server does not say again what it was.
  const added: (NewJob | undefined)[] = []
  for (let left = reader.list(); left > 0; left -= 1) {
    reader.list()
    const status = reader.text()
    const jobs = groups[said.length]?.jobs ?? []
    const what = reader.value() as unknown[]
    said.push({ status, what })
    if (status !== 'done') continue
    for (const [place, job] of jobs.entries()) added.push(what[place] === true ? job : undefined)
  }
  const jobs = readJobs(reader, sharing, knowing(added))
  let next = 0
  return said.map(({ status, what }): InsertAnswer => {
    if (status === 'stale') return { status }
    if (status === 'refused') {
      return { status, refusals: (what as unknown[][]).map((each) => refusalOf(each)) }
    }
    const mine = jobs.slice(next, next + what.length)
    next += what.length
    return {
      status: 'done',
      jobs: mine.map((job, place) => ({ added: what[place] === true, job })),
    }
  })
}

/** One that was added may stand in the answer twice: also for another with its key, or its id. */
function knowing(added: readonly (NewJob | undefined)[]): Knowing {
  let byId: Map<string, NewJob> | undefined
  return {
    at: (place) => added[place],
    by: (id) => {
      byId ??= new Map(added.flatMap((job) => (job === undefined ? [] : [[job.id, job]])))
      return byId.get(id)
    },
    resultAt: () => undefined,
  }
}

function refusalOf([index, reason, a, b, c, d]: unknown[]): Refusal {
  const at = index as number
  if (reason === 'duplicate') return { index: at, reason, id: a as string }
  if (reason === 'key') return { index: at, reason, key: a as string, owner: b as string }
  if (reason === 'unknown') return { index: at, reason, dep: a as string }
  if (reason === 'cycle') return { index: at, reason, path: a as string[] }
  return {
    index: at,
    reason: 'full',
    pool: a as string,
    maxQueue: b as number,
    overflow: c as 'reject' | 'wait',
    never: d as boolean,
  }
}

export function readLeased(reader: Reader, sharing: Sharing): LeaseAnswer {
  reader.list()
  return { jobs: readJobs(reader, sharing), nextAt: reader.number() }
}

/**
 * What has not happened is said, with its place among the moves, counted from 1. `mine`: what is
 * known of the job that each move is about.
 */
export function readMoved(
  reader: Reader,
  sharing: Sharing,
  moves: readonly Move[],
  mine: readonly (Known | undefined)[],
): Moved[] {
  reader.list()
  const count = reader.number()
  const others = new Map<number, Other>()
  for (let left = reader.list(); left > 0; left -= 5) {
    const place = reader.number() - 1
    const [status, why, by] = [reader.text(), reader.textOr(''), reader.textOr('')]
    others.set(place, { status, why, by, isThere: reader.flag() })
  }
  const isThere = (_: unknown, place: number) => others.get(place)?.isThere !== false
  const there = others.size === 0 ? mine : mine.filter(isThere)
  const about = others.size === 0 ? moves : moves.filter(isThere)
  const jobs = readJobs(reader, sharing, {
    at: (place) => there[place],
    by: () => undefined,
    resultAt: (place) => {
      const result = about[place]?.result
      return typeof result === 'string' ? result : undefined
    },
  })
  const moved: Moved[] = []
  let next = 0
  for (let place = 0; place < count; place += 1) {
    const other = others.size === 0 ? undefined : others.get(place)
    if (other?.isThere === false) moved.push({ status: 'stale', job: null })
    else {
      const job = jobs[next] as StoredJob
      next += 1
      moved.push(other === undefined ? { status: 'moved', job } : notMoved(job, other))
    }
  }
  return moved
}

interface Other {
  readonly status: string
  readonly why: string
  readonly by: string
  readonly isThere: boolean
}

function notMoved(job: StoredJob, { status, why, by }: Other): Moved {
  if (status === 'stale') return { status, job }
  if (why === 'key') return { status: 'refused', job, why: { reason: why, owner: by } }
  if (why === 'doomed') return { status: 'refused', job, why: { reason: why, dep: by } }
  return { status: 'refused', job, why: { reason: 'named' } }
}

export function readExtended(reader: Reader, { holder }: ExtendAsk): ExtendAnswer {
  reader.list()
  const leases = Array.from({ length: reader.list() }, (): Extended => {
    const length = reader.list()
    const status = reader.text()
    if (length === 1) return { status: status === 'held' ? status : 'lost' }
    if (status === 'evicted') return { status, by: reader.text() }
    return { status: 'cancelled', lease: { holder, number: reader.number(), hold: true } }
  })
  return { leases, mark: reader.number() }
}

export function readOverdue(reader: Reader, sharing: Sharing): OverdueAnswer {
  reader.list()
  const jobs = readJobs(reader, sharing)
  const rows = reader.value() as unknown[][]
  const schedules = rows.map((row) => scheduleOf(row[5] as string, row))
  schedules.sort((a, b) => a.nextAt - b.nextAt || (a.name < b.name ? -1 : 1))
  return {
    jobs,
    schedules,
    nextAt: reader.number(),
    nextQuietAt: reader.number(),
    more: reader.flag(),
  }
}

/** A row as timetable.lua keeps it. */
export function scheduleOf(name: string, row: readonly unknown[]): Schedule {
  const [cron, timeZone, missed, template, nextAt] = row
  return {
    name,
    cron: cron as string,
    timeZone: timeZone === false ? null : (timeZone as string),
    missed: missed as Missed,
    template: template as string,
    nextAt: nextAt as number,
  }
}
