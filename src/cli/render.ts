// Owns how a run looks: lines of text made of what is known. Pure.
// May never write anywhere, read a clock, or ask the scheduler.

import { showMs } from '../core/duration.ts'
import { hasEnded, type JobEvent, type JobStatus } from '../core/job.ts'
import type { JobReport, RunReport } from './report.ts'
import {
  type Color,
  cut,
  type Look,
  oneLine,
  padEnd,
  padStart,
  paint,
  plainLines,
  widthOf,
} from './text.ts'
import { nameOf, type Row, type View } from './view.ts'

const COLORS: Readonly<Record<JobStatus, Color>> = {
  pending: 'yellow',
  waiting: 'grey',
  ready: 'blue',
  running: 'blue',
  success: 'green',
  failed: 'red',
  cancelled: 'grey',
}

const SIGNS: Readonly<Record<JobStatus, string>> = {
  pending: '○',
  waiting: '○',
  ready: '○',
  running: '●',
  success: '✓',
  failed: '✗',
  cancelled: '–',
}

/** Rows of a screen that are not for jobs: the heading, the notice, what was left out. */
const OTHER_ROWS = 5
const MAX_WAITING_SHOWN = 3
const MAX_RESULTS_SHOWN = 5
/** With more jobs than this, those that succeeded are only counted. */
const MAX_ROWS_IN_FULL = 40

/** A job that waits, and the scheduler's sentence that says for what. */
export interface Waiting {
  readonly id: string
  readonly text: string
  /** When it goes on by itself, if the clock decides that. */
  readonly until?: number | undefined
}

/** What a terminal shows while the run goes on. */
export function liveLines(
  view: View,
  waiting: readonly Waiting[],
  now: number,
  look: Look & { readonly rows: number },
): string[] {
  const room = Math.max(1, look.rows - OTHER_ROWS)
  const ids = [...view.running].slice(0, room)
  const hidden = view.running.size - ids.length
  const held = waiting.slice(0, Math.max(0, Math.min(MAX_WAITING_SHOWN, room - ids.length)))
  const names = [...ids, ...held.map(({ id }) => id)].map((id) => nameIn(view, id))
  const width = Math.min(Math.max(8, ...names.map(widthOf)), Math.floor(look.columns / 3))
  return [
    ...heading(view, now, look),
    ...ids.map((id) => runningLine(view.rows.get(id) as Row, now, width, look)),
    ...(hidden > 0 ? [paint(look, 'grey', `  and ${hidden} more`)] : []),
    ...held.map((each) => waitingLine(view, each, now, width, look)),
    ...(view.notice === '' ? [] : [paint(look, 'yellow', cut(view.notice, look.columns))]),
  ]
}

function nameIn(view: View, id: string): string {
  return oneLine(view.rows.get(id)?.name ?? nameOf(view, id))
}

function heading(view: View, now: number, look: Look): string[] {
  const { success, failed, cancelled, running } = view.counts
  const total = view.rows.size
  const waits = total - success - failed - cancelled - running
  const counts: [number, string, Color][] = [
    [success, 'done', 'green'],
    [failed, 'failed', 'red'],
    [cancelled, 'cancelled', 'grey'],
    [running, 'running', 'blue'],
    [waits, 'waiting', 'grey'],
  ]
  const shown = counts.filter(([count], index) => count > 0 || index === 0)
  const elapsed = showMs(now - view.startedAt)
  const plain = shown.map(([count, word]) => `${count} ${word}`).join(', ')
  const title = cut(oneLine(view.flow), Math.max(8, look.columns - widthOf(plain) - 14))
  const line = `${title}  ${plain}  ${elapsed}`
  if (widthOf(line) > look.columns) return [cut(line, look.columns), bar(view, look)]
  const painted = shown.map(([count, word, color]) => paint(look, color, `${count} ${word}`))
  const parts = [paint(look, 'bold', title), painted.join(', '), paint(look, 'grey', elapsed)]
  return [parts.join('  '), bar(view, look)]
}

/** One bar of all jobs: done, failed and cancelled, running, and the rest. */
function bar(view: View, look: Look): string {
  const { success, failed, cancelled, running } = view.counts
  const total = Math.max(1, view.rows.size)
  const width = Math.max(4, Math.min(48, look.columns - 2))
  const upTo = (count: number) => Math.round((count / total) * width)
  const ends = [success, success + failed, success + failed + cancelled].map(upTo)
  const [done = 0, bad = 0, over = 0] = ends
  const runs = upTo(success + failed + cancelled + running)
  return [
    paint(look, 'green', '█'.repeat(done)),
    paint(look, 'red', '█'.repeat(bad - done)),
    paint(look, 'grey', '█'.repeat(over - bad)),
    paint(look, 'blue', '▒'.repeat(runs - over)),
    paint(look, 'grey', '░'.repeat(width - runs)),
  ].join('')
}

function runningLine(row: Row, now: number, width: number, look: Look): string {
  const name = padEnd(cut(oneLine(row.name), width), width)
  const elapsed = padStart(showMs(now - row.since), 8)
  const most = Math.max(row.allowed, row.attempt)
  const attempt = most > 1 ? `  attempt ${row.attempt}/${most}` : ''
  const share = row.progress === undefined ? '' : `  ${Math.floor(row.progress * 100)} %`
  const rest = cut(`${name}  ${elapsed}${attempt}${share}`, look.columns - 2)
  return `${paint(look, 'blue', SIGNS.running)} ${rest}`
}

function waitingLine(view: View, waiting: Waiting, now: number, width: number, look: Look): string {
  const { id, text, until } = waiting
  const name = padEnd(cut(nameIn(view, id), width), width)
  const due = until === undefined ? '' : `in ${showMs(until - now)}: `
  const rest = cut(`${name}  ${due}${oneLine(text)}`, look.columns - 2)
  return paint(look, 'grey', `${SIGNS.waiting} ${rest}`)
}

/** Transitions that say nothing new: the table at the end tells how long a job was queued. */
const UNTOLD = ['job:added', 'job:ready']

export function isTold(event: JobEvent): boolean {
  return !UNTOLD.includes(event.event)
}

/**
 * One transition as a line of a log: when, which job, to which state, which attempt, and why.
 * `why` is the job's latest error, for a transition that has one.
 */
export function eventLine(view: View, row: Row, event: JobEvent, why: string | undefined): string {
  const most = Math.max(row.allowed, event.attempt)
  const attempt = event.attempt > 0 ? `attempt ${event.attempt}/${most}` : ''
  const parts = [
    clockTime(event.at),
    padEnd(oneLine(row.name), Math.min(view.nameWidth, 40)),
    padEnd(event.to, 'cancelled'.length),
    padEnd(attempt, 'attempt 1/1'.length),
    causeOf(view, event, why),
  ]
  return parts.join('  ').trimEnd()
}

function causeOf(view: View, event: JobEvent, why: string | undefined): string {
  if (event.cause !== undefined) return `because of ${oneLine(nameOf(view, event.cause))}`
  if (event.code === undefined) return ''
  return why === undefined ? event.code : `${event.code}: ${firstLine(why)}`
}

/** The local time of day, to the millisecond. */
export function clockTime(at: number): string {
  const date = new Date(at)
  const two = (value: number) => String(value).padStart(2, '0')
  const time = [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(':')
  return `${time}.${String(date.getMilliseconds()).padStart(3, '0')}`
}

export function firstLine(message: string): string {
  return oneLine(message.trim().split('\n', 1)[0] as string)
}

/** Everything that is said at the end: the table, the errors, the results, and what happened. */
export function endLines(report: RunReport, look: Look): string[] {
  const sections = [
    tableLines(report, look),
    ...errorSections(report, look),
    resultLines(report, look),
    [closingLine(report, look)],
  ]
  const spaced = sections.filter((lines) => lines.length > 0).flatMap((lines) => ['', ...lines])
  return spaced.slice(1)
}

/** One job per line; the branch that a failure cancelled is greyed. */
function tableLines(report: RunReport, look: Look): string[] {
  const isLong = report.jobs.length > MAX_ROWS_IN_FULL
  const jobs = isLong ? report.jobs.filter(({ state }) => state !== 'success') : report.jobs
  const hidden = report.jobs.length - jobs.length
  const rows = jobs.map(cellsOf)
  const columns = look.columns < 64 ? [0, 1, 2, 4] : [0, 1, 2, 3, 4]
  const widths = columns.map((column) =>
    [HEADS, ...rows].reduce((most, cells) => Math.max(most, widthOf(cells[column] as string)), 0),
  )
  widths[0] = Math.min(widths[0] as number, Math.max(12, Math.floor(look.columns / 3)))
  const line = (cells: readonly string[]) =>
    columns.map((column, index) => {
      const width = widths[index] as number
      const cell = cut(cells[column] as string, width)
      return column < 2 ? padEnd(cell, width) : padStart(cell, width)
    })
  const room = look.columns - widths.reduce((sum, width) => sum + width + 2, 0)
  const withCause = (cells: readonly string[]) =>
    [...line(cells), ...(room > 8 ? [cut(cells[5] as string, room)] : [])].join('  ').trimEnd()
  return [
    ...(rows.length > 0 ? [paint(look, 'bold', withCause(HEADS))] : []),
    ...rows.map((cells, index) => colored(withCause(cells), jobs[index] as JobReport, look)),
    ...(hidden > 0 ? [`and ${hidden} that succeeded`] : []),
  ]
}

const HEADS = ['job', 'state', 'attempts', 'queued', 'ran', 'cause'] as const

function cellsOf(job: JobReport): readonly string[] {
  // What a stop handed back has used no attempt, and did run.
  const started = job.attempts > 0 || job.ranMs > 0
  return [
    oneLine(job.name),
    `${SIGNS[job.state]} ${job.state}`,
    started ? `${job.attempts}/${job.allowed}` : '–',
    started ? showMs(job.queuedMs) : '–',
    started ? showMs(job.ranMs) : '–',
    reasonOf(job),
  ]
}

function reasonOf(job: JobReport): string {
  if (job.state === 'success') {
    return job.failures.length === 0 ? '' : `retried after ${job.failures.join(', ')}`
  }
  if (job.cause !== undefined) return `because of ${oneLine(job.cause)}`
  if (!hasEnded(job.state)) return oneLine(job.reason ?? '')
  return job.error === undefined ? '' : `${job.error.code}: ${firstLine(job.error.message)}`
}

function colored(line: string, job: JobReport, look: Look): string {
  if (job.state === 'cancelled') return paint(look, 'grey', line)
  const word = `${SIGNS[job.state]} ${job.state}`
  // The state is looked for after the name, which may contain the same word.
  const at = line.indexOf(word, Math.min(oneLine(job.name).length, line.length))
  if (at < 0) return line
  const after = line.slice(at + word.length)
  return line.slice(0, at) + paint(look, COLORS[job.state], word) + after
}

/** The errors of failed jobs in full. */
function errorSections(report: RunReport, look: Look): string[][] {
  const failed = report.jobs.filter(({ state, error }) => state === 'failed' && error !== undefined)
  return failed.map((job) => {
    const { code, message, stack } = job.error as NonNullable<JobReport['error']>
    const times = job.attempts === 1 ? '1 attempt' : `${job.attempts} attempts`
    const title = `${oneLine(job.name)} failed after ${times} (${oneLine(code)})`
    const text = stack?.includes(message) ? stack : message
    return [paint(look, 'red', title), ...plainLines(text).map((line) => `  ${line}`.trimEnd())]
  })
}

/** What the last jobs of a flow gave, if all went well and a line can hold it. */
function resultLines(report: RunReport, look: Look): string[] {
  if (!report.ok) return []
  const inner = new Set(report.jobs.flatMap(({ deps }) => deps))
  const lines = report.jobs.filter(({ name }) => !inner.has(name)).flatMap(resultLine)
  const hidden = lines.length - MAX_RESULTS_SHOWN
  const shown = lines.slice(0, MAX_RESULTS_SHOWN)
  return hidden > 0 ? [...shown, paint(look, 'grey', `and ${hidden} more results`)] : shown
}

/** A text is shown whole, since it may be a path that somebody wants to copy. */
function resultLine({ name, result }: JobReport): string[] {
  if (result === undefined || result === null || result === '') return []
  const text = typeof result === 'string' ? result.trim() : JSON.stringify(result)
  const isShort = !text.includes('\n') && text.length <= 300
  return isShort ? [`${oneLine(name)}: ${oneLine(text)}`] : []
}

function closingLine(report: RunReport, look: Look): string {
  const total = report.jobs.length
  const named = (state: JobStatus) => report.jobs.filter((job) => job.state === state)
  const took = showMs(report.ms)
  const flow = oneLine(report.flow)
  if (report.ok) {
    const what = total === 1 ? 'the job succeeded' : `all ${total} jobs succeeded`
    return paint(look, 'green', `${flow}: ${what} in ${took}.`)
  }
  const failed = named('failed').map(({ name }) => oneLine(name))
  const unfinished = report.jobs.filter(({ state }) => !hasEnded(state)).length
  const parts = [
    ...(failed.length > 0 ? [`${failed.length} failed (${fewOf(failed)})`] : []),
    ...count(named('cancelled').length, 'cancelled'),
    ...count(unfinished, 'not finished'),
    `${named('success').length} of ${total} succeeded`,
  ]
  const stopped = report.followed ? 'followed for' : 'interrupted after'
  const how = report.interrupted ? `${stopped} ${took}` : `ended after ${took}`
  const text = `${flow}: ${how}: ${parts.join(', ')}.${nextStep(report)}`
  return paint(look, report.interrupted ? 'yellow' : 'red', text)
}

/** What the people who see that may do about it. */
function nextStep({ run, resumable, followed, interrupted }: RunReport): string {
  if (followed && interrupted) return ` Run ${run} goes on in its own process.`
  return resumable ? ' Run the same command again to resume it.' : ''
}

function count(number: number, word: string): string[] {
  return number > 0 ? [`${number} ${word}`] : []
}

function fewOf(names: readonly string[]): string {
  return names.length <= 3 ? names.join(', ') : `${names.slice(0, 3).join(', ')} ...`
}
