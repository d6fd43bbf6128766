// Owns how a run looks, as golden texts: the live picture, the log lines, the end.

import { describe, expect, it } from 'vitest'
import type { Flow } from '../../src/cli/flow.ts'
import { endLines, eventLine, isTold, liveLines } from '../../src/cli/render.ts'
import type { JobReport, RunReport } from '../../src/cli/report.ts'
import { cut, oneLine, widthOf } from '../../src/cli/text.ts'
import { fold, foldProgress, newView, type View } from '../../src/cli/view.ts'
import type { JobEvent, JobStatus } from '../../src/core/job.ts'

const PREFIX = 'weekly#1/'
const AT = new Date(2026, 4, 18, 9, 30, 0, 125).getTime()

function flowOf(names: readonly string[], retries = 2): Flow {
  return {
    name: 'weekly',
    file: '/f.yaml',
    folder: '/',
    pools: {},
    jobs: names.map((name) => ({
      name,
      work: { kind: 'sleep', ms: 0 },
      deps: [],
      depMode: undefined,
      pool: 'default',
      settings: { retries },
    })),
  }
}

function event(job: string, to: JobStatus, more: Partial<JobEvent> = {}): JobEvent {
  return {
    seq: 1,
    at: AT,
    job: PREFIX + job,
    type: `weekly/${job}`,
    pool: 'weekly/default',
    from: null,
    to,
    attempt: 0,
    event: `job:${to}`,
    ...more,
  }
}

function viewOf(...events: readonly JobEvent[]): View {
  const view = newView(flowOf(['sales', 'stock', 'ads', 'report', 'mail']), PREFIX, AT)
  for (const each of events) fold(view, each)
  return view
}

const PLAIN = { columns: 79, rows: 24, color: false }

describe('the live picture', () => {
  const view = viewOf(
    event('sales', 'success', { attempt: 1 }),
    event('stock', 'running', { attempt: 1, at: AT + 400 }),
    event('ads', 'running', { attempt: 2, at: AT + 900 }),
  )
  const waiting = [{ id: `${PREFIX}report`, text: 'It waits for ads, which is running.' }]

  it('shows how far the run is, what runs, and why something waits', () => {
    foldProgress(view, `${PREFIX}stock`, { done: 9, total: 20 })
    expect(liveLines(view, waiting, AT + 1_650, PLAIN)).toEqual([
      'weekly  1 done, 2 running, 2 waiting  1.6 s',
      '██████████▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒░░░░░░░░░░░░░░░░░░░',
      '● stock        1.3 s  attempt 1/3  45 %',
      '● ads         750 ms  attempt 2/3',
      '○ report    It waits for ads, which is running.',
    ])
  })

  it('never writes beyond the edge of a narrow terminal, nor below its last row', () => {
    view.notice = 'Stopping: 2 running jobs have up to 30 s to end. Ctrl-C again aborts them.'
    for (const columns of [20, 33, 47, 64, 200]) {
      const lines = liveLines(view, waiting, AT + 1_650, { ...PLAIN, columns, rows: 7 })
      expect(lines.map(widthOf).filter((width) => width > columns)).toEqual([])
      expect(lines.length).toBeLessThan(7)
    }
    view.notice = ''
  })

  it('names a few of many running jobs and counts the rest', () => {
    const many = newView(
      flowOf(Array.from({ length: 50 }, (_, index) => `job${index}`)),
      PREFIX,
      AT,
    )
    for (let index = 0; index < 40; index += 1) fold(many, event(`job${index}`, 'running'))
    const lines = liveLines(many, [], AT, { ...PLAIN, rows: 10 })
    expect(lines.slice(0, 1)).toEqual(['weekly  0 done, 40 running, 10 waiting  0 ms'])
    expect(lines.slice(2).map((line) => line.slice(0, 13).trim())).toEqual([
      '● job0',
      '● job1',
      '● job2',
      '● job3',
      '● job4',
      'and 35 more',
    ])
  })

  it('shows failed and cancelled jobs in the bar and in the counts', () => {
    const ended = viewOf(event('ads', 'failed'), event('report', 'cancelled'))
    const [heading, bar] = liveLines(ended, [], AT + 61_000, { ...PLAIN, color: true })
    expect(heading).toContain('\x1b[31m1 failed\x1b[39m, \x1b[90m1 cancelled\x1b[39m')
    expect(heading).toContain('1 m 1 s')
    expect(bar).toContain(`\x1b[31m${'█'.repeat(10)}\x1b[39m\x1b[90m${'█'.repeat(9)}`)
  })
})

describe('a line of the log', () => {
  it.each<[string, JobEvent, string | undefined, string]>([
    [
      'a start',
      event('ads', 'running', { attempt: 1 }),
      undefined,
      '09:30:00.125  ads     running    attempt 1/3',
    ],
    [
      'a retry, with the error',
      event('ads', 'pending', { attempt: 1, event: 'job:retry', code: 'EXIT' }),
      'The command ended with exit status 1.\n503',
      '09:30:00.125  ads     pending    attempt 1/3  EXIT: The command ended with exit status 1.',
    ],
    [
      'an end without an attempt',
      event('mail', 'cancelled', { code: 'DEPENDENCY_FAILED', cause: `${PREFIX}ads` }),
      undefined,
      '09:30:00.125  mail    cancelled               because of ads',
    ],
  ])('tells of %s', (_, one, why, line) => {
    const view = viewOf()
    expect(eventLine(view, fold(view, one), one, why)).toBe(line)
  })

  it('is not written for what says nothing new', () => {
    expect(isTold(event('ads', 'waiting', { event: 'job:added' }))).toBe(false)
    expect(isTold(event('ads', 'ready'))).toBe(false)
    expect(isTold(event('ads', 'ready', { event: 'job:retry' }))).toBe(true)
  })

  it('shows jobs that another job submitted by their ids', () => {
    const view = viewOf()
    const row = fold(view, { ...event('x', 'running', { attempt: 1 }), job: 'page:7' })
    expect(row.name).toBe('page:7')
    expect(view.rows.size).toBe(6)
    expect(view.counts).toMatchObject({ running: 1, waiting: 5 })
  })
})

function jobOf(name: string, state: JobStatus, more: Partial<JobReport> = {}): JobReport {
  const idle = state === 'cancelled' || state === 'waiting'
  return {
    name,
    id: PREFIX + name,
    state,
    attempts: idle ? 0 : 1,
    allowed: 3,
    queuedMs: 2,
    ranMs: idle ? 0 : 1_234,
    failures: [],
    deps: [],
    ...more,
  }
}

function reportOf(jobs: readonly JobReport[], more: Partial<RunReport> = {}): RunReport {
  const ok = jobs.every(({ state }) => state === 'success')
  const how = { resumed: false, followed: false, interrupted: false, resumable: false }
  return { flow: 'weekly', run: 1, ok, ...how, ms: 3_210, jobs, ...more }
}

const FILE = { columns: Number.POSITIVE_INFINITY, color: false }

const FAILED = reportOf([
  jobOf('sales', 'success'),
  jobOf('ads', 'failed', {
    attempts: 3,
    failures: ['EXIT', 'EXIT', 'EXIT'],
    error: { code: 'EXIT', message: 'The command ended with exit status 1.\n503\n\tat once' },
  }),
  jobOf('report', 'cancelled', { cause: 'ads', deps: ['sales', 'ads'] }),
  jobOf('mail', 'cancelled', { cause: 'ads', deps: ['report'] }),
])

describe('the end', () => {
  it('of a run that went well is a table, the results and one sentence', () => {
    const lines = endLines(
      reportOf([
        jobOf('sales', 'success', { result: [1, 2, 3] }),
        jobOf('ads', 'success', { attempts: 2, failures: ['EXIT'], ranMs: 65_000 }),
        jobOf('mail', 'success', { deps: ['sales', 'ads'], result: 'outbox/week.html\n' }),
      ]),
      FILE,
    )
    expect(lines).toEqual([
      'job    state      attempts  queued      ran  cause',
      'sales  ✓ success       1/3    2 ms    1.2 s',
      'ads    ✓ success       2/3    2 ms  1 m 5 s  retried after EXIT',
      'mail   ✓ success       1/3    2 ms    1.2 s',
      '',
      'mail: outbox/week.html',
      '',
      'weekly: all 3 jobs succeeded in 3.2 s.',
    ])
  })

  it('of a run that failed tells the causes, and the errors in full', () => {
    expect(endLines(FAILED, FILE)).toEqual([
      'job     state        attempts  queued    ran  cause',
      'sales   ✓ success         1/3    2 ms  1.2 s',
      'ads     ✗ failed          3/3    2 ms  1.2 s  EXIT: The command ended with exit status 1.',
      'report  – cancelled         –       –      –  because of ads',
      'mail    – cancelled         –       –      –  because of ads',
      '',
      'ads failed after 3 attempts (EXIT)',
      '  The command ended with exit status 1.',
      '  503',
      '    at once',
      '',
      'weekly: ended after 3.2 s: 1 failed (ads), 2 cancelled, 1 of 4 succeeded.',
    ])
  })

  it('greys the branch that a failure cancelled', () => {
    const lines = endLines(FAILED, { columns: 79, color: true })
    const codes = lines.map((line) => line.replaceAll('\x1b[', '^'))
    expect(codes[1]).toMatch(/^sales {3}\^32m✓ success\^39m /)
    expect(codes[2]).toMatch(/^ads {5}\^31m✗ failed\^39m /)
    expect(codes[3]).toMatch(/^\^90mreport .*because of ads\^39m$/)
    expect(codes.at(-1)).toMatch(/^\^31mweekly: ended/)
  })

  it('of an interrupted run says what did not finish, and why', () => {
    const lines = endLines(
      reportOf(
        [
          jobOf('sales', 'success'),
          jobOf('ads', 'ready', { attempts: 0, ranMs: 0, reason: 'The run was interrupted.' }),
          jobOf('mail', 'waiting', { reason: 'It waits for ads.' }),
        ],
        { interrupted: true },
      ),
      FILE,
    )
    expect(lines.slice(2)).toEqual([
      'ads    ○ ready           –       –      –  The run was interrupted.',
      'mail   ○ waiting         –       –      –  It waits for ads.',
      '',
      'weekly: interrupted after 3.2 s: 2 not finished, 1 of 3 succeeded.',
    ])
  })

  it('fits a narrow terminal', () => {
    for (const columns of [40, 50, 64, 79]) {
      const table = endLines(FAILED, { columns, color: false }).slice(0, 5)
      expect(table.filter((line) => widthOf(line) > columns)).toEqual([])
      expect(table[2]).toContain('failed')
    }
  })

  it('counts the successes of a very large run instead of listing them', () => {
    const many = Array.from({ length: 500 }, (_, index) => jobOf(`job${index}`, 'success'))
    const lines = endLines(reportOf([...many, jobOf('bad', 'failed')]), FILE)
    expect(lines.slice(1, 3)).toEqual([
      expect.stringMatching(/^bad +✗ failed/),
      'and 500 that succeeded',
    ])
  })

  it('shows the stack of an error that a function threw', () => {
    const error = { code: 'HANDLER_FAILED', message: 'no', stack: 'Error: no\n    at flow.mjs:3:9' }
    const lines = endLines(reportOf([jobOf('calc', 'failed', { error })]), FILE)
    expect(lines).toContain('      at flow.mjs:3:9')
  })

  it('lets no control character of a job through', () => {
    const error = { code: 'EXIT', message: 'a\x1b[2Jb\x07\x9b31m' }
    const lines = endLines(reportOf([jobOf('x\x1b]0;title\x07y', 'failed', { error })]), FILE)
    expect(lines.join('').match(/\p{Cc}/u)).toBeNull()
  })
})

describe('text', () => {
  it('is measured in columns', () => {
    expect(widthOf('abc')).toBe(3)
    expect(widthOf('日本')).toBe(4)
    expect(widthOf('é\u0301')).toBe(1)
    expect(widthOf('\x1b[31mred\x1b[39m')).toBe(3)
    expect(widthOf('🚀')).toBe(2)
  })

  it('is cut where it does not fit, and says so', () => {
    expect(cut('abcdef', 6)).toBe('abcdef')
    expect(cut('abcdef', 5)).toBe('abcd…')
    expect(cut('日本語', 5)).toBe('日本…')
    expect(cut('日本語', 4)).toBe('日…')
    expect(cut('abc', 0)).toBe('')
  })

  it('becomes one line', () => {
    expect(oneLine('a\r\nb\tc')).toBe('a b c')
  })
})
