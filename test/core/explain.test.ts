// Owns what people are told about a job. May never accept a silence.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type ExplainFacts, explain, REASONS } from '../../src/core/explain.ts'
import { rateTerms } from '../../src/core/gcra.ts'
import { type Dep, type JobStatus, Live, STATUSES, type StoredJob } from '../../src/core/job.ts'
import { poolRules } from '../../src/core/settings.ts'
import { addCounts, emptyCounts, snapshotOf, viewOf } from '../../src/core/view.ts'
import { HOLD, jobOf, LEASE, TERMS } from './helpers.ts'

const NOW = 100_000
const POOL: ExplainFacts['standing']['pool'] = {
  concurrency: 2,
  perWorker: Number.POSITIVE_INFINITY,
  paused: false,
  running: 0,
  elastic: null,
  rateAt: 0,
  breakerState: 'closed',
  breakerUntil: 0,
}

type Standing = ExplainFacts['standing']

function facts(standing: Partial<Standing> = {}, more: Partial<ExplainFacts> = {}): ExplainFacts {
  const idle: Standing = {
    ahead: 0,
    pool: POOL,
    laneHolder: undefined,
    deps: [],
    served: true,
    full: false,
    barred: false,
    spent: false,
    type: { concurrency: null, running: 0 },
    budgetAt: 0,
    victim: undefined,
  }
  return { standing: { ...idle, ...standing }, now: NOW, ...more }
}

function dep(id: string, status: JobStatus | 'unknown'): Standing['deps'][number] {
  return { id, on: 'success', status }
}

function waitingFor(deps: Standing['deps'], fields: Partial<StoredJob> = {}): StoredJob {
  const own: readonly Dep[] = deps.map(({ id, on }) => ({ id, on }))
  const counts = { needs: deps.length, open: deps.length }
  return jobOf({ status: 'waiting', deps: own, ...counts, ...fields })
}

const FULL = { ...POOL, running: 2 }
const LIMITED = { ...TERMS, timeoutMs: 2_000 }
const BUSY = [dep('b', 'running'), dep('c', 'pending')]
const MANY = ['b', 'c', 'd', 'e', 'f'].map((id) => dep(id, 'ready'))
const BOOM = { error: { name: 'Error', message: 'Out of\n paper.' }, code: 'BOOM' }
const attempt = { attempt: 1, startedAt: 1, queuedMs: 0, worker: 'w1' }

const retrying = jobOf({ attempts: 2, starts: 2, availableAt: NOW + 4_200, ...BOOM })
const failed = jobOf({ status: 'failed', finishedAt: NOW - 60_000, starts: 1, ...BOOM })
const cancelled = jobOf({ status: 'cancelled', finishedAt: NOW - 1_000 })

const READY = jobOf({ status: 'ready' })
const OPEN = { breakerState: 'open', breakerUntil: NOW + 8_000 } as const
const RATED = { rateAt: NOW + 2_000 }
const ELASTIC = { elastic: { ratio: 0.3, minPriority: 95 } }
const CAPPED = { type: { concurrency: 1, running: 1 } }
const asked = { ...TERMS, idempotent: false, confirm: true }
const displaced = { log: [{ ...attempt, outcome: 'preempted' }], preempted: 2 } as const

const ANSWERS: readonly [string, StoredJob, ExplainFacts, string, ...string[]][] = [
  ['a delay', jobOf({ availableAt: NOW + 60_000 }), facts(), 'delayed', 'due in 1 m'],
  [
    'a back-off',
    { ...retrying, terms: { ...TERMS, retries: 3 } },
    facts(),
    'backoff',
    'Attempt 2 of 4',
    'BOOM: Out of paper;',
    'in 4.2 s',
  ],
  [
    'a loss',
    jobOf({ lost: 2, starts: 2, availableAt: NOW + 1_000, log: [{ ...attempt, outcome: 'lost' }] }),
    facts(),
    'lost',
    '2 times',
    'in 1 s',
  ],
  [
    'two dependencies',
    waitingFor(BUSY),
    facts({ deps: BUSY }),
    'dependency',
    'jobs "b" (running) and "c" (pending)',
  ],
  [
    'many dependencies',
    waitingFor(MANY),
    facts({ deps: MANY }),
    'dependency',
    '"b" (ready), "c" (ready), "d" (ready) and 2 more',
  ],
  [
    'any of many',
    waitingFor(MANY, { depMode: 'any', needs: 1 }),
    facts({ deps: MANY }),
    'dependency',
    '1 of 5 (any 1 of its 5 dependencies',
  ],
  [
    'a second of three, one of which is unknown',
    waitingFor([...BUSY, dep('x', 'unknown')], { depMode: 2, needs: 2 }),
    facts({ deps: [...BUSY, dep('x', 'unknown')] }),
    'dependency',
    '"x" (not submitted)',
  ],
  [
    'an id that nobody has submitted',
    waitingFor([dep('b', 'ready'), dep('x', 'unknown')]),
    facts({ deps: [dep('b', 'ready'), dep('x', 'unknown')] }),
    'unknown-dependency',
    'job "x", which nobody has submitted',
    'Submit it',
  ],
  [
    'a doomed one',
    waitingFor([dep('b', 'failed')], { open: 0, cause: 'root' }),
    facts({ deps: [dep('b', 'failed')] }),
    'doomed',
    'job "root" did not succeed',
    'retry',
  ],
  [
    'a lane',
    jobOf({ status: 'waiting', exclusive: 'account:42' }),
    facts({ laneHolder: 'z' }),
    'lane',
    '"account:42"',
    'job "z"',
  ],
  ['a free lane', jobOf({ status: 'waiting', exclusive: 'l' }), facts(), 'lane', 'It is next'],
  [
    'no handler, which comes before the pause',
    jobOf({ status: 'ready' }),
    facts({ served: false, pool: { ...FULL, paused: true } }),
    'no-handler',
    '"mail"',
    'start a worker',
  ],
  [
    'a pause, which comes before the full pool',
    jobOf({ status: 'ready' }),
    facts({ pool: { ...FULL, paused: true } }),
    'paused',
    'Resume',
  ],
  [
    'a full pool',
    jobOf({ status: 'ready' }),
    facts({ pool: FULL, ahead: 999 }),
    'pool-full',
    '2 of 2 running',
    'number 1000 in line',
  ],
  [
    'a place that nobody counts',
    jobOf({ status: 'ready' }),
    facts({ pool: FULL, ahead: 1_000 }),
    'pool-full',
    'beyond 1,000',
  ],
  ['a free slot', jobOf({ status: 'ready' }), facts({ ahead: 3 }), 'next', 'starts as soon as'],
  [
    'a retry that the budget holds',
    { ...retrying, availableAt: NOW - 10, terms: { ...TERMS, retries: 3 } },
    facts({ budgetAt: NOW + 6_000 }),
    'budget',
    'Attempt 2 of 4',
    'waits for the retry budget, which lets it go in 6 s at the earliest',
  ],
  [
    'an open breaker',
    READY,
    facts({ pool: { ...POOL, ...OPEN } }),
    'breaker',
    'The breaker of pool "default" is open',
    'in 8 s one job starts as a probe',
  ],
  [
    'a probe under way',
    READY,
    facts({ pool: { ...POOL, breakerState: 'half-open', running: 1 } }),
    'breaker',
    'waits for what it shows',
  ],
  [
    'another that is the next probe',
    READY,
    facts({ pool: { ...POOL, breakerState: 'half-open' }, ahead: 1 }),
    'breaker',
    'one job at a time',
  ],
  [
    'being the next probe itself',
    READY,
    facts({ pool: { ...POOL, breakerState: 'open', breakerUntil: NOW } }),
    'next',
    'starts as soon as',
  ],
  [
    'a rate',
    READY,
    facts({ pool: { ...POOL, ...RATED } }),
    'rate',
    'lets the next job start in 2 s; then it is the turn of job "a"',
  ],
  [
    'a rate, with others before it',
    READY,
    facts({ pool: { ...POOL, ...RATED }, ahead: 3 }),
    'rate',
    '3 others come before job "a"',
  ],
  [
    'a rate, with one other before it',
    READY,
    facts({ pool: { ...POOL, ...RATED }, ahead: 1 }),
    'rate',
    '1 other comes before job "a"',
  ],
  [
    'the cap of its type',
    READY,
    facts(CAPPED),
    'type-full',
    'type "mail"',
    '(1 of 1)',
    'raise the concurrency of the type',
  ],
  [
    'a type that is closed',
    READY,
    facts({ type: { concurrency: 0, running: 0 } }),
    'type-full',
    'concurrency of 0',
    'Raise it',
  ],
  [
    'a pool that is closed',
    READY,
    facts({ pool: { ...POOL, concurrency: 0 } }),
    'pool-full',
    'concurrency of 0',
    'Raise it',
  ],
  [
    'a share that is closed',
    READY,
    facts({ pool: { ...POOL, perWorker: 0 }, spent: true }),
    'worker-full',
    'perWorker of 0',
  ],
  [
    'a job that stops for it',
    jobOf({ status: 'ready', priority: 99 }),
    facts({ pool: FULL, victim: 'slow' }),
    'preempting',
    'Job "slow" has been told to give its slot to job "a", and keeps it until it has stopped',
  ],
  [
    'workers that have another suspect',
    jobOf({ status: 'ready', lost: 5, lostBefore: 3 }),
    facts({ pool: FULL, barred: true }),
    'suspect',
    'was lost 2 times with its worker',
    'on another worker',
  ],
  [
    'workers that have their share',
    READY,
    facts({ spent: true, pool: { ...POOL, perWorker: 1, running: 1 } }),
    'worker-full',
    'perWorker 1',
    'Start another worker, or raise perWorker',
  ],
  [
    'workers that have their share for urgent jobs, too',
    jobOf({ status: 'ready', priority: 95 }),
    facts({ spent: true, pool: { ...POOL, ...ELASTIC } }),
    'worker-full',
    'Start another worker',
  ],
  [
    'urgent jobs above the cap',
    READY,
    facts({ pool: { ...POOL, ...ELASTIC, running: 3 } }),
    'pool-full',
    'Urgent jobs run above the cap',
    '(3 of 2 running)',
  ],
  [
    'being urgent, with room above the cap',
    jobOf({ status: 'ready', priority: 95 }),
    facts({ pool: { ...FULL, ...ELASTIC } }),
    'next',
    'starts as soon as',
  ],
  [
    'being urgent, with no room there either',
    jobOf({ status: 'ready', priority: 95 }),
    facts({ pool: { ...POOL, ...ELASTIC, running: 3 } }),
    'pool-full',
    'All slots of pool "default" are taken (3 of 2 running)',
  ],
  [
    'having been displaced',
    jobOf({ status: 'ready', ...displaced }),
    facts({ pool: FULL }),
    'pool-full',
    'number 1 in line',
    'gave way to an urgent job (2 times so far), and has kept its place',
  ],
  [
    'an outcome that nobody knows, before it runs again',
    jobOf({ status: 'ready', unknown: true, terms: asked }),
    facts({ pool: FULL }),
    'pool-full',
    'its type is asked first (confirm)',
  ],
  [
    'an outcome that nobody knows, while it backs off',
    { ...retrying, unknown: true, terms: { ...asked, retries: 3 } },
    facts(),
    'backoff',
    'its type is asked first (confirm)',
  ],
  [
    'a body of its own that no scheduler is there to call',
    jobOf({ status: 'ready', body: {} }),
    facts({ served: false }),
    'no-handler',
    'no scheduler is running',
  ],
  [
    'workers that take nothing for their zombies',
    jobOf({ status: 'ready' }),
    facts({ full: true }),
    'zombies',
    'ignore their abort',
  ],
  [
    'a run',
    jobOf({ status: 'running', lease: LEASE, starts: 2, startedAt: NOW - 3_000 }),
    facts(),
    'running',
    'on worker "w1", attempt 2, for 3 s',
  ],
  [
    'a run of a worker that is gone',
    jobOf({ status: 'running', lease: LEASE, starts: 2, deadline: NOW + 5_000 }),
    facts({}, { leaseHolderAlive: false }),
    'running',
    'ends in 5 s',
  ],
  [
    'a success',
    jobOf({ status: 'success', finishedAt: NOW - 1_000, starts: 2 }),
    facts(),
    'success',
    '1 s ago, after 2 attempts',
  ],
  [
    'a run that is to give way',
    jobOf({ status: 'running', lease: LEASE, starts: 1, startedAt: NOW, evictor: 'urgent' }),
    facts(),
    'running',
    'to the urgent job "urgent", and goes back to its place, with no attempt used, unless it',
    'It keeps its slot until it has stopped, or its worker lets it go on as a zombie.',
  ],
  [
    'a run whose time is over',
    jobOf({ status: 'running', lease: LEASE, startedAt: NOW - 3_000, terms: LIMITED }),
    facts(),
    'running',
    'for 3 s. Its timeout of 2 s is over, at which its worker tells it to stop. It keeps its slot ' +
      'until it has stopped, or its worker lets it go on as a zombie. Let its handler follow',
  ],
  [
    'a run whose time is not over',
    jobOf({ status: 'running', lease: LEASE, startedAt: NOW - 2_000, terms: LIMITED }),
    facts(),
    'running',
    'for 2 s. Cancel it if that is too long.',
  ],
  [
    'a run that is to give way when its time is over',
    jobOf({
      ...{ status: 'running', lease: LEASE, startedAt: NOW - 3_000 },
      ...{ terms: LIMITED, evictor: 'urgent' },
    }),
    facts(),
    'running',
    'to the urgent job "urgent". Its timeout of 2 s is over',
  ],
  ['a failure', failed, facts(), 'failed', '1 m ago with BOOM: Out of paper.', 'retry'],
  [
    'an outcome that stays unknown',
    { ...failed, code: 'OUTCOME_UNKNOWN', log: [{ ...attempt, outcome: 'timeout' }] },
    facts(),
    'failed',
    'It ran out of time, or went silent. Look whether it took effect; retry it only if it did not.',
  ],
  [
    'a last attempt that ran out of time, of a job that must not be repeated',
    {
      ...failed,
      code: 'EXECUTION_TIMEOUT',
      unknown: true,
      terms: { ...TERMS, idempotent: false },
      log: [{ ...attempt, outcome: 'timeout' }],
    },
    facts(),
    'failed',
    'Look whether it took effect; retry it only if it did not.',
  ],
  [
    'an outcome that stays unknown, since nobody could be asked',
    {
      ...failed,
      code: 'OUTCOME_UNKNOWN',
      log: [
        { ...attempt, outcome: 'lost' },
        { ...attempt, outcome: 'failure' },
      ],
    },
    facts(),
    'failed',
    'Its worker was lost. Look whether it took effect',
  ],
  [
    'an outcome that is unknown for a displacement',
    { ...failed, code: 'OUTCOME_UNKNOWN', log: [{ ...attempt, outcome: 'preempted' }] },
    facts(),
    'failed',
    'It had given way to an urgent job.',
  ],
  [
    'an outcome that is unknown for a stop',
    { ...failed, code: 'OUTCOME_UNKNOWN', log: [{ ...attempt, outcome: 'returned' }] },
    facts(),
    'failed',
    'Its worker was stopping.',
  ],
  [
    'an outcome that is unknown for a loss',
    { ...failed, code: 'OUTCOME_UNKNOWN', log: [{ ...attempt, outcome: 'lost' }] },
    facts(),
    'failed',
    'Its worker was lost.',
  ],
  [
    'an end by silence',
    { ...failed, code: 'HEARTBEAT_LOST' },
    facts(),
    'failed',
    'HEARTBEAT_LOST',
    'call progress() more often',
  ],
  ['a timeout', { ...failed, code: 'EXECUTION_TIMEOUT' }, facts(), 'failed', 'a longer timeout'],
  ['a queue', { ...failed, code: 'ENQUEUE_TIMEOUT' }, facts(), 'failed', 'no slot in time'],
  ['too many losses', { ...failed, code: 'LOST' }, facts(), 'failed', 'memory and the log'],
  ['a result that cannot be kept', { ...failed, code: 'UNSTORABLE' }, facts(), 'failed', 'less'],
  [
    'a cancellation',
    { ...cancelled, code: 'CANCELLED', error: { name: 'AxError', message: 'Not today.' } },
    facts(),
    'cancelled',
    'CANCELLED: Not today.',
  ],
  ['a cascade', { ...cancelled, cause: 'root' }, facts(), 'cancelled', 'job "root"', 'downstream'],
  [
    'a hold',
    { ...cancelled, lease: HOLD },
    facts(),
    'stopping',
    'it keeps its slot on worker "w1" until it has stopped, or its worker lets it go on as a zombie.',
  ],
]

describe('explain', () => {
  it.each(ANSWERS)('says of %s what it is and what to do', (_, job, given, reason, ...parts) => {
    const answer = explain(job, given)
    expect(answer).toMatchObject({ id: 'a', status: job.status, reason })
    for (const part of parts) expect(answer.text).toContain(part)
  })

  it('knows every reason', () => {
    const reasons = ANSWERS.map(([, job, given]) => explain(job, given).reason)
    expect([...new Set(reasons)].sort()).toEqual([...REASONS].sort())
  })

  it('names the blockers, the time and the place for programs', () => {
    expect(explain(waitingFor(BUSY), facts({ deps: BUSY })).blockedBy).toEqual([
      { id: 'b', status: 'running' },
      { id: 'c', status: 'pending' },
    ])
    expect(explain(retrying, facts()).until).toBe(NOW + 4_200)
    const ready = jobOf({ status: 'ready' })
    expect(explain(ready, facts({ pool: FULL, ahead: 4 })).position).toBe(5)
    expect(explain(ready, facts({ pool: FULL, ahead: 1_000 }))).not.toHaveProperty('position')
  })

  /** Each reason for a ready job with facts that bring it about, in the order of precedence. */
  const STOPS: readonly [string, Partial<Standing>, Partial<Standing['pool']>][] = [
    ['no-handler', { served: false }, {}],
    ['zombies', { full: true }, {}],
    ['paused', {}, { paused: true }],
    ['breaker', {}, OPEN],
    ['rate', {}, RATED],
    ['suspect', { barred: true }, {}],
    ['type-full', CAPPED, {}],
    ['preempting', { victim: 'v' }, {}],
    ['pool-full', {}, { running: 2 }],
    ['worker-full', { spent: true }, {}],
    ['next', {}, {}],
  ]

  it.each(STOPS.map(([reason], index) => [reason, index] as const))(
    'names %s before whatever would go away by itself sooner',
    (reason, index) => {
      for (let from = index; from < STOPS.length; from += 1) {
        const [, standing, pool] = STOPS[index] as (typeof STOPS)[number]
        const later = STOPS.slice(index + 1, from + 1)
        const merged = Object.assign({}, ...later.map(([, more]) => more), standing)
        const inPool = Object.assign({}, POOL, ...later.map(([, , more]) => more), pool)
        expect(explain(READY, facts({ ...merged, pool: inPool })).reason).toBe(reason)
      }
    },
  )

  it('names a cap of 0 before what time would change', () => {
    const all = { ...POOL, ...OPEN, ...RATED }
    const closed = { concurrency: 0, running: 0 }
    expect(explain(READY, facts({ pool: { ...all, concurrency: 0 } })).reason).toBe('pool-full')
    expect(explain(READY, facts({ pool: all, type: closed })).reason).toBe('type-full')
    expect(explain(READY, facts({ pool: { ...all, perWorker: 0 } })).reason).toBe('worker-full')
  })

  it('says until when, where time alone changes it', () => {
    expect(explain(READY, facts({ pool: { ...POOL, ...OPEN } })).until).toBe(NOW + 8_000)
    const probed = facts({ pool: { ...POOL, breakerState: 'half-open', running: 1 } })
    expect(explain(READY, probed)).not.toHaveProperty('until')
    const rated = explain(READY, facts({ pool: { ...POOL, ...RATED }, ahead: 2 }))
    expect(rated).toMatchObject({ until: NOW + 2_000, position: 3 })
    expect(explain(retrying, facts({ budgetAt: NOW + 5 })).until).toBe(NOW + 5)
  })

  it('names the victim as what is in the way', () => {
    expect(explain(READY, facts({ victim: 'v' })).blockedBy).toEqual([
      { id: 'v', status: 'running' },
    ])
  })

  it('has an answer for every job, whatever it is told', () => {
    const statuses = fc.constantFrom<JobStatus | 'unknown'>(...STATUSES, 'unknown')
    const deps = fc.array(statuses, { maxLength: 6 })
    const jobs = fc.record({
      status: fc.constantFrom(...STATUSES),
      needs: fc.nat(3),
      open: fc.nat(6),
      attempts: fc.nat(3),
      lost: fc.nat(3),
      starts: fc.nat(3),
      lease: fc.constantFrom(undefined, LEASE, HOLD),
      exclusive: fc.constantFrom(undefined, 'l'),
      cause: fc.constantFrom(undefined, 'root'),
      availableAt: fc.nat(2 * NOW),
      priority: fc.constantFrom(1, 95),
      unknown: fc.boolean(),
      evictor: fc.constantFrom(undefined, 'urgent'),
      code: fc.constantFrom(undefined, 'OUTCOME_UNKNOWN', 'HEARTBEAT_LOST', 'PREEMPTED'),
    })
    const instants = fc.constantFrom(0, NOW - 5, NOW + 5)
    const policies = fc.record({
      barred: fc.boolean(),
      spent: fc.boolean(),
      full: fc.boolean(),
      type: fc.record({ concurrency: fc.constantFrom(null, 0, 1), running: fc.nat(2) }),
      budgetAt: instants,
      victim: fc.constantFrom(undefined, 'v'),
    })
    const rules = fc.record({
      concurrency: fc.nat(2),
      perWorker: fc.constantFrom(0, 1, Number.POSITIVE_INFINITY),
      elastic: fc.constantFrom(null, ELASTIC.elastic),
      rateAt: instants,
      breakerState: fc.constantFrom('closed' as const, 'open' as const, 'half-open' as const),
      breakerUntil: instants,
    })
    const booleans = fc.tuple(fc.boolean(), fc.boolean(), fc.boolean())
    fc.assert(
      fc.property(jobs, deps, booleans, fc.nat(2_000), policies, rules, (job, list, ...given) => {
        const [[a, b, c], ahead, policy, rule] = given
        const named = list.map((status, index) => dep(`d${index}`, status))
        const pool = { ...POOL, ...rule, running: ahead % 3, paused: a }
        const lane = { laneHolder: b ? 'z' : undefined }
        const standing = { ahead, pool, ...lane, deps: named, served: c, ...policy }
        const answer = explain(
          jobOf({ ...job, deps: named }),
          facts(standing, { leaseHolderAlive: a }),
        )
        expect(REASONS).toContain(answer.reason)
        expect(answer.text).toMatch(/^[A-Z].*\.$/)
        expect(answer.text).not.toMatch(/undefined|NaN|\[object|-\d+ /)
      }),
      { numRuns: 500 },
    )
  })
})

describe('a view of a job', () => {
  const stored = jobOf({
    payload: '{"x":[1]}',
    result: 'null',
    deps: [{ id: 'b', on: 'end' }],
    log: [{ ...attempt, outcome: 'success' }],
    startedAt: 5,
    finishedAt: 6,
    key: 'k',
  })

  it('is a plain copy with the values read back', () => {
    const view = viewOf(stored, 0.5)
    expect(view).toMatchObject({
      id: 'a',
      payload: { x: [1] },
      result: null,
      startedAt: 5,
      key: 'k',
    })
    expect(view).toMatchObject({ timeout: 0, retries: 0, finishedAt: 6, progress: 0.5 })
    expect(view.deps).toEqual(stored.deps)
    expect(view.deps[0]).not.toBe(stored.deps[0])
    expect(view.attemptLog).toEqual(stored.log)
    expect(view.attemptLog[0]).not.toBe(stored.log[0])
    expect(JSON.parse(JSON.stringify(view))).toEqual(view)
  })

  it('has no property for what does not apply', () => {
    const optional = ['startedAt', 'finishedAt', 'result', 'error', 'cause', 'key', 'exclusive']
    const view = viewOf(jobOf())
    for (const name of [...optional, 'flow', 'progress']) expect(view).not.toHaveProperty(name)
  })

  it('hands out a live value by reference', () => {
    const value = new Map()
    const view = viewOf(jobOf({ payload: new Live(value), result: new Live(value) }))
    expect([view.payload, view.result]).toEqual([value, value])
    expect(view.payload).toBe(value)
  })
})

describe('a snapshot', () => {
  it('sums up, and marks what is cancelled but not stopped', () => {
    const mail = { ...emptyCounts(), ready: 2, success: 3 }
    const types = Object.fromEntries([
      ['mail', mail],
      ['__proto__', { ...emptyCounts(), running: 1, cancelled: 1 }],
    ])
    const held = [
      jobOf({ status: 'running', lease: LEASE, startedAt: NOW - 30 }),
      jobOf({ id: 'b', status: 'cancelled', lease: HOLD, startedAt: NOW - 20 }),
    ]
    const pool = { ...poolRules({ concurrency: 2 }, {}), rateAt: 0, breakerUntil: 0 }
    const counts = { running: 2, ready: 2, states: { ...emptyCounts(), ready: 2, pending: 3 } }
    const pools = { default: { ...pool, ...counts, breakerState: 'closed' as const } }
    const failures = { BOOM: 4 }
    const left = { unranked: 0, budgeted: 0 }
    const snapshot = snapshotOf({ at: NOW, types, pools, failures, held, ...left }, 7)
    expect(snapshot).toMatchObject({ at: NOW, total: 7, zombies: 7, failures })
    expect(snapshot.pools).toEqual({
      default: {
        concurrency: 2,
        running: 2,
        ready: 2,
        queued: 5,
        overflow: 'reject',
        paused: false,
      },
    })
    expect(snapshot).not.toHaveProperty('unranked')
    expect(snapshot).not.toHaveProperty('waitingForBudget')
    expect(snapshot.states).toMatchObject({ ready: 2, success: 3, running: 1, cancelled: 1 })
    expect(Object.keys(snapshot.types)).toEqual(['mail', '__proto__'])
    expect(snapshot.types.mail).not.toBe(mail)
    expect(snapshot.running).toEqual([
      { id: 'a', type: 'mail', forMs: 30, worker: 'w1' },
      { id: 'b', type: 'mail', forMs: 20, worker: 'w1', stopping: true },
    ])
  })

  it('says what holds for a pool, and how it is, with all its policies', () => {
    const terms = {
      perWorker: 1,
      maxQueue: 9,
      overflow: 'wait',
      paused: true,
      rate: rateTerms(100, 1_000),
      elastic: { ratio: 0.3, minPriority: 95 },
      preempt: { minPriority: 96, minGap: 10, minRunMs: 5 },
      breaker: { failures: 5, failureRate: 0, window: 20, resetMs: 10 },
    } as const
    const pool = { ...poolRules(terms, {}), running: 0, ready: 0, states: emptyCounts() }
    const now = { rateAt: NOW + 5, breakerState: 'open', breakerUntil: NOW + 7 } as const
    const tally = { at: NOW, types: {}, pools: { p: { ...pool, ...now } }, failures: {}, held: [] }
    const snapshot = snapshotOf({ ...tally, unranked: 3, budgeted: 2 }, 0)
    expect(snapshot).toMatchObject({ unranked: 3, waitingForBudget: 2 })
    expect(snapshot.pools.p).toEqual({
      concurrency: 10,
      perWorker: 1,
      running: 0,
      ready: 0,
      queued: 0,
      maxQueue: 9,
      overflow: 'wait',
      paused: true,
      rate: { count: 100, per: 1_000, burst: 2, nextAt: NOW + 5 },
      elastic: { raise: 3, minPriority: 95 },
      preempt: { minPriority: 96, minGap: 10, minRun: 5 },
      breaker: { state: 'open', until: NOW + 7 },
    })
    const later = snapshotOf({ ...tally, at: NOW + 60, unranked: 0, budgeted: 0 }, 0).pools.p
    expect(later?.rate).not.toHaveProperty('nextAt')
    expect(later?.breaker).toEqual({ state: 'open' })
    expect(JSON.parse(JSON.stringify(snapshot))).toEqual(snapshot)
  })

  it('adds counts up', () => {
    const sum = emptyCounts()
    addCounts(sum, { ...emptyCounts(), failed: 2 })
    addCounts(sum, { ...emptyCounts(), failed: 1, ready: 1 })
    expect(sum).toEqual({ ...emptyCounts(), failed: 3, ready: 1 })
  })
})
