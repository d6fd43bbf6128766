// Owns what is known of a run while it goes on: the log, folded. May never ask the scheduler.

import type { JobEvent, JobStatus, StoredJob } from '../core/job.ts'
import type { Flow } from './flow.ts'
import { widthOf } from './text.ts'

export interface Row {
  /** As the flow calls it; the id of a job that another one submitted. */
  readonly name: string
  /** How many starts it may have. */
  readonly allowed: number
  status: JobStatus
  attempt: number
  /** When it entered its state. */
  since: number
  progress: number | undefined
}

export interface View {
  readonly flow: string
  /** What the ids of the flow's jobs begin with. */
  readonly prefix: string
  readonly startedAt: number
  /** Room for the names of the flow's jobs, in columns. */
  nameWidth: number
  readonly rows: Map<string, Row>
  readonly counts: Record<JobStatus, number>
  /** Ids of those that run, in the order of their starts. */
  readonly running: Set<string>
  /** Something that the people who watch have to know. */
  notice: string
}

export function newView(flow: Flow, prefix: string, startedAt: number): View {
  const counts = { pending: 0, waiting: 0, ready: 0, running: 0, success: 0, failed: 0 }
  const view: View = {
    flow: flow.name,
    prefix,
    startedAt,
    nameWidth: flow.jobs.reduce((most, job) => Math.max(most, widthOf(job.name)), 0),
    rows: new Map(),
    counts: { ...counts, cancelled: 0 },
    running: new Set(),
    notice: '',
  }
  for (const job of flow.jobs) {
    const allowed = 1 + (job.settings.retries ?? 0)
    addRow(view, prefix + job.name, job.name, allowed, startedAt)
  }
  return view
}

function addRow(view: View, id: string, name: string, allowed: number, since: number): Row {
  const row: Row = { name, allowed, status: 'waiting', attempt: 0, since, progress: undefined }
  view.rows.set(id, row)
  view.counts.waiting += 1
  return row
}

/** Takes in a job as it is stored: what has happened to it so far. */
export function seed(view: View, job: StoredJob): void {
  const { id, status, starts } = job
  const row =
    view.rows.get(id) ?? addRow(view, id, nameOf(view, id), job.terms.retries + 1, job.createdAt)
  view.nameWidth = Math.max(view.nameWidth, widthOf(row.name))
  enter(view, id, row, status)
  row.attempt = starts
  row.since = job.finishedAt || job.startedAt || job.createdAt
}

function enter(view: View, id: string, row: Row, status: JobStatus): void {
  view.counts[row.status] -= 1
  view.counts[status] += 1
  row.status = status
  if (status === 'running') view.running.add(id)
  else view.running.delete(id)
}

/** Takes in one transition and gives the row that it changed. O(1). */
export function fold(view: View, event: JobEvent): Row {
  const known = view.rows.get(event.job)
  const row = known ?? addRow(view, event.job, nameOf(view, event.job), 1, event.at)
  enter(view, event.job, row, event.to)
  row.attempt = event.attempt
  row.since = event.at
  row.progress = undefined
  return row
}

/** Takes in what a body says about itself: a share of 1, or how much is done of how much. */
export function foldProgress(view: View, id: string, value: unknown): void {
  const row = view.rows.get(id)
  if (row?.status === 'running') row.progress = shareOf(value)
}

function shareOf(value: unknown): number | undefined {
  if (typeof value === 'number') return value >= 0 && value <= 1 ? value : undefined
  const { done, total } = (value ?? {}) as { done?: unknown; total?: unknown }
  if (typeof done !== 'number' || typeof total !== 'number' || !(total > 0)) return undefined
  return Math.min(1, Math.max(0, done / total))
}

/** A job's name in the flow, or its id if it is not of the flow. */
export function nameOf(view: Pick<View, 'prefix'>, id: string): string {
  return id.startsWith(view.prefix) ? id.slice(view.prefix.length) : id
}

/** What the scheduler says, with names as the flow has them. */
export function byName(view: Pick<View, 'prefix' | 'flow'>, text: string): string {
  return text.replaceAll(view.prefix, '').replaceAll(`${view.flow}/`, '')
}

/** The first sentence of an explanation, without its subject: that stands in front of it. */
export function reasonOf(view: View, explanation: string): string {
  const [sentence = ''] = byName(view, explanation).split(/(?<=\.) /, 1)
  return sentence.replace(/^Job "[^"]*" /, '').replace(/ of job "[^"]*"/, '')
}
