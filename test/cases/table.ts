// Owns the list of known cases from the field: for each one where it is tested, or why it is not.
// May never claim a test that does not exist: cases.test.ts looks.

/** A store that the tests of the scheduler run on. */
export type StoreName = 'memory' | 'redis' | 'sqlite'

const MEMORY: readonly StoreName[] = ['memory']
const REDIS: readonly StoreName[] = ['redis']
const SQLITE: readonly StoreName[] = ['sqlite']
const DURABLE: readonly StoreName[] = ['redis', 'sqlite']
const ALL: readonly StoreName[] = ['memory', 'redis', 'sqlite']

/**
 * `where`: the files whose test titles begin with the id. `on`: the stores that these run on, of a
 * case of the scheduler; a case of the toolkit, or of one function, has none.
 */
export type Case =
  | {
      readonly id: string
      readonly title: string
      readonly on?: readonly StoreName[]
      readonly where: readonly string[]
    }
  | { readonly id: string; readonly title: string; readonly later: string }
  | { readonly id: string; readonly title: string; readonly struck: string }

const FIELD =
  'C01 C04 C06 C07 C10 C13 C14 C15 C16 C18 C22 C23 C25 C26 C29 C30 C31 C35 C37 C39 C42 C43 C45 ' +
  'C47 C48 C50 C53 C54 C57 C58 C60 C62 C64 C67 C69 C70 C72 C74 C77 C79 C82 C84'

/** Every id that has to be accounted for, list by list. */
export const IDS: readonly string[] = [
  ...FIELD.split(' '),
  ...numbered('B', 30),
  ...numbered('DQ-', 20),
  ...numbered('ES-', 21),
]

export const CASES: readonly Case[] = [
  {
    id: 'C01',
    title: 'a retry keeps the urgency of its job and rejoins its priority',
    on: ALL,
    where: ['test/engine/run.test.ts'],
  },
  {
    id: 'C04',
    title: 'ageing with a bound that can be stated',
    on: ALL,
    where: ['test/core/order.test.ts', 'test/engine/budget.test.ts'],
  },
  {
    id: 'C06',
    title: 'a freed slot goes to the head of the queue',
    on: ALL,
    where: ['test/engine/run.test.ts', 'test/kit/limiter.test.ts', 'test/kit/runner.test.ts'],
  },
  {
    id: 'C07',
    title: 'the cap changes while work runs',
    on: ALL,
    where: ['test/engine/pools.test.ts', 'test/kit/limiter.test.ts', 'test/kit/runner.test.ts'],
  },
  {
    id: 'C10',
    title: 'one full pool hides no job of another',
    on: ALL,
    where: ['test/engine/run.test.ts'],
  },
  {
    id: 'C13',
    title: 'a preempted job keeps its place and does not run beside its evictor',
    on: ALL,
    where: ['test/engine/preempt.test.ts'],
  },
  {
    id: 'C14',
    title: 'backoff stays finite after a thousand attempts',
    on: ALL,
    where: [
      'test/core/backoff.test.ts',
      'test/engine/retries.test.ts',
      'test/kit/retry.test.ts',
      'test/kit/runner-attempts.test.ts',
    ],
  },
  {
    id: 'C15',
    title: 'jobs that failed together are spread within a band that scales',
    on: ALL,
    where: ['test/core/backoff.test.ts', 'test/engine/retries.test.ts', 'test/kit/retry.test.ts'],
  },
  {
    id: 'C16',
    title: 'a cancel during the backoff wait is noticed at once',
    on: ALL,
    where: ['test/engine/retries.test.ts', 'test/kit/retry.test.ts'],
  },
  {
    id: 'C18',
    title: 'a shared retry budget delays retries and nothing else',
    on: ALL,
    where: ['test/engine/budget.test.ts'],
  },
  {
    id: 'C22',
    title: 'a call that expired while it waited costs no slot',
    on: ALL,
    where: [
      'test/engine/timeouts.test.ts',
      'test/kit/limiter-queue.test.ts',
      'test/kit/runner.test.ts',
    ],
  },
  {
    id: 'C23',
    title: 'a timeout is counted from the start of each attempt',
    on: ALL,
    where: ['test/engine/timeouts.test.ts', 'test/kit/runner-timeouts.test.ts'],
  },
  {
    id: 'C25',
    title: 'cancel and completion race, and the answer is true',
    on: ALL,
    where: [
      'test/engine/cancel.test.ts',
      'test/stores/redis-ends.test.ts',
      'test/stores/sqlite-ends.test.ts',
    ],
  },
  {
    id: 'C26',
    title: 'clearing a queue settles every waiting call',
    where: ['test/kit/limiter-queue.test.ts', 'test/kit/map.test.ts'],
  },
  {
    id: 'C29',
    title: 'a cascade reaches the whole branch and nothing else',
    on: ALL,
    where: ['test/core/order.test.ts', 'test/engine/deps.test.ts'],
  },
  {
    id: 'C30',
    title: 'a shared failure is not remembered',
    where: ['test/kit/inflight.test.ts', 'test/kit/runner-keys.test.ts'],
  },
  {
    id: 'C31',
    title: 'a key is free again once its owner has ended, however it ended',
    on: ALL,
    where: ['test/engine/keys.test.ts'],
  },
  {
    id: 'C35',
    title: 'a fan-in with one failed parent ends, once, with the cause',
    on: ALL,
    where: ['test/engine/deps.test.ts'],
  },
  {
    id: 'C37',
    title: 'a fan-in over nothing is ready',
    on: ALL,
    where: [
      'test/core/order.test.ts',
      'test/core/submit.test.ts',
      'test/engine/deps.test.ts',
      'test/engine/idle.test.ts',
      'test/kit/runner-batch.test.ts',
    ],
  },
  {
    id: 'C39',
    title: 'repeated edges count once',
    on: ALL,
    where: ['test/core/submit.test.ts', 'test/engine/deps.test.ts', 'test/engine/flows.test.ts'],
  },
  {
    id: 'C42',
    title: 'parents that have ended, come later, or are unknown',
    on: ALL,
    where: ['test/core/submit.test.ts', 'test/engine/deps.test.ts'],
  },
  {
    id: 'C43',
    title: 'a loop is shown and refused, across batches too',
    on: ALL,
    where: ['test/core/order.test.ts', 'test/engine/deps.test.ts'],
  },
  {
    id: 'C45',
    title: 'no listener stays on a shared signal',
    on: ALL,
    where: [
      'test/engine/submit.test.ts',
      'test/kit/retry.test.ts',
      'test/kit/runner-keys.test.ts',
      'test/kit/timeout.test.ts',
    ],
  },
  {
    id: 'C47',
    title: 'idle may be awaited any number of times',
    on: ALL,
    where: [
      'test/engine/idle.test.ts',
      'test/engine/process.test.ts',
      'test/kit/limiter-queue.test.ts',
    ],
  },
  {
    id: 'C48',
    title: 'a stopped process has nothing left and ends',
    on: ALL,
    where: [
      'test/engine/process.test.ts',
      'test/stores/redis-ends.test.ts',
      'test/stores/sqlite-ends.test.ts',
    ],
  },
  {
    id: 'C50',
    title: 'a deploy hands jobs over at once, with no failure',
    on: ALL,
    where: [
      'test/engine/stop.test.ts',
      'test/stores/redis-ends.test.ts',
      'test/stores/sqlite-ends.test.ts',
    ],
  },
  {
    id: 'C53',
    title: 'odd rejections and throwing listeners break nothing',
    on: ALL,
    where: [
      'test/engine/events.test.ts',
      'test/engine/run.test.ts',
      'test/kit/map.test.ts',
      'test/kit/runner-batch.test.ts',
    ],
  },
  {
    id: 'C54',
    title: 'a worker that was blocked completes nothing any more',
    on: ALL,
    where: ['test/engine/leases.test.ts', 'test/stores/redis-ends.test.ts'],
  },
  {
    id: 'C57',
    title: 'death between claim and start gives the slot back',
    on: ALL,
    where: [
      'test/engine/leases.test.ts',
      'test/stores/redis-ends.test.ts',
      'test/stores/sqlite-ends.test.ts',
    ],
  },
  {
    id: 'C58',
    title: 'recovery stays under the cap and in order',
    on: ALL,
    where: [
      'test/engine/leases.test.ts',
      'test/engine/stop.test.ts',
      'test/stores/redis-ends.test.ts',
      'test/stores/sqlite-ends.test.ts',
    ],
  },
  {
    id: 'C60',
    title: 'delays beyond 2^31 milliseconds',
    on: ALL,
    where: [
      'test/engine/process.test.ts',
      'test/engine/timeouts.test.ts',
      'test/kit/retry.test.ts',
      'test/kit/runner-attempts.test.ts',
      'test/kit/runner-timeouts.test.ts',
      'test/kit/runtime.test.ts',
      'test/kit/timeout.test.ts',
    ],
  },
  {
    id: 'C62',
    title: 'after a long stall nothing is declared dead too early',
    on: ALL,
    where: ['test/engine/stalls.test.ts'],
  },
  {
    id: 'C64',
    title: 'claims on SQLite neither collide nor fail as busy',
    on: SQLITE,
    where: ['test/stores/sqlite-crowd.test.ts'],
  },
  {
    id: 'C67',
    title: 'a bulk submission is all or nothing',
    on: ALL,
    where: [
      'test/core/submit.test.ts',
      'test/engine/submit.test.ts',
      'test/stores/sqlite-faults.test.ts',
    ],
  },
  {
    id: 'C69',
    title: 'a long delay outlives any lease and runs once',
    on: ALL,
    where: ['test/engine/stalls.test.ts'],
  },
  {
    id: 'C70',
    title: 'draining stays linear and timers still fire',
    on: MEMORY,
    where: ['test/engine/process.test.ts', 'test/kit/limiter-turns.test.ts'],
  },
  {
    id: 'C72',
    title: 'mapping over an endless source pulls only what it can use',
    where: ['test/kit/map-turns.test.ts', 'test/kit/map.test.ts', 'test/kit/runner-batch.test.ts'],
  },
  {
    id: 'C74',
    title: 'types pass through limits and timeouts unchanged',
    on: MEMORY,
    where: ['test/engine/types.test.ts', 'test/types/toolkit.test.ts'],
  },
  {
    id: 'C77',
    title: 'waiting for a result never hangs',
    on: ALL,
    where: ['test/engine/submit.test.ts', 'test/stores/redis-ends.test.ts'],
  },
  {
    id: 'C79',
    title: 'the dashboard shows text as text and changes nothing on GET',
    later: 'It waits for the dashboard.',
  },
  {
    id: 'C82',
    title: 'ids are any text',
    on: ALL,
    where: ['test/core/submit.test.ts', 'test/engine/submit.test.ts'],
  },
  {
    id: 'C84',
    title: 'misspelt options are refused by name',
    on: ALL,
    where: [
      'test/core/submit.test.ts',
      'test/core/words.test.ts',
      'test/engine/submit.test.ts',
      'test/engine/views.test.ts',
      'test/kit/runner.test.ts',
    ],
  },
  {
    id: 'B01',
    title: 'aborts in any order leave the queue alive',
    on: ALL,
    where: [
      'test/engine/cancel.test.ts',
      'test/kit/limiter.test.ts',
      'test/kit/runner-keys.test.ts',
    ],
  },
  {
    id: 'B02',
    title: 'a signal that was aborted before leaves no trace',
    where: [
      'test/kit/inflight.test.ts',
      'test/kit/limiter.test.ts',
      'test/kit/map.test.ts',
      'test/kit/runner-keys.test.ts',
    ],
  },
  {
    id: 'B03',
    title: 'one long-lived signal over many calls',
    where: [
      'test/kit/inflight.test.ts',
      'test/kit/limiter.test.ts',
      'test/kit/map.test.ts',
      'test/kit/timeout.test.ts',
    ],
  },
  {
    id: 'B04',
    title: 'time limits under one signal keep nothing',
    on: MEMORY,
    where: ['test/engine/process.test.ts'],
  },
  {
    id: 'B05',
    title: 'an abandoned waiter uses nothing up',
    where: ['test/kit/limiter-queue.test.ts', 'test/kit/runner-keys.test.ts'],
  },
  {
    id: 'B06',
    title: 'durations that timers cannot count, and ones that make no sense',
    on: ALL,
    where: [
      'test/engine/timeouts.test.ts',
      'test/kit/limiter-queue.test.ts',
      'test/kit/retry.test.ts',
      'test/kit/runner-timeouts.test.ts',
      'test/kit/runtime.test.ts',
      'test/kit/timeout.test.ts',
    ],
  },
  {
    id: 'B07',
    title: 'jumps of the wall clock',
    on: MEMORY,
    where: [
      'test/engine/timeouts.test.ts',
      'test/kit/limiter-queue.test.ts',
      'test/kit/runtime.test.ts',
      'test/kit/timeout.test.ts',
      'test/kit/virtual.test.ts',
    ],
  },
  {
    id: 'B08',
    title: 'bodies that ignore the abort',
    on: ALL,
    where: ['test/engine/timeouts.test.ts', 'test/kit/runner-zombies.test.ts'],
  },
  {
    id: 'B09',
    title: 'tasks that throw at once',
    on: ALL,
    where: ['test/engine/run.test.ts', 'test/kit/limiter.test.ts', 'test/kit/timeout.test.ts'],
  },
  {
    id: 'B10',
    title: 'results that are no promises',
    on: ALL,
    where: ['test/engine/run.test.ts', 'test/kit/limiter.test.ts', 'test/kit/timeout.test.ts'],
  },
  {
    id: 'B11',
    title: 'hostile thenables',
    on: ALL,
    where: [
      'test/engine/run.test.ts',
      'test/kit/hostile.test.ts',
      'test/kit/limiter.test.ts',
      'test/kit/timeout.test.ts',
    ],
  },
  {
    id: 'B12',
    title: 'the async context of the submitter',
    on: ALL,
    where: [
      'test/engine/run.test.ts',
      'test/kit/coalesce.test.ts',
      'test/kit/inflight.test.ts',
      'test/kit/limiter-turns.test.ts',
      'test/kit/limiter.test.ts',
      'test/kit/map-turns.test.ts',
      'test/kit/map.test.ts',
      'test/kit/retry.test.ts',
      'test/kit/runner-keys.test.ts',
      'test/kit/runtime.test.ts',
      'test/kit/timeout.test.ts',
    ],
  },
  {
    id: 'B13',
    title: 'no depth of stack',
    on: ALL,
    where: ['test/engine/revive.test.ts', 'test/kit/limiter.test.ts', 'test/kit/runner.test.ts'],
  },
  {
    id: 'B14',
    title: 'the order is exactly the sort',
    on: ALL,
    where: ['test/engine/run.test.ts', 'test/kit/heap.test.ts', 'test/kit/limiter.test.ts'],
  },
  {
    id: 'B15',
    title: 'random priorities and cancels in large numbers',
    on: ALL,
    where: ['test/engine/pools.test.ts'],
  },
  {
    id: 'B16',
    title: 'the cap under random pauses and changes',
    on: ALL,
    where: [
      'test/engine/pools.test.ts',
      'test/kit/limiter-queue.test.ts',
      'test/kit/limiter-turns.test.ts',
      'test/kit/limiter.test.ts',
    ],
  },
  {
    id: 'B17',
    title: 'no barging',
    on: ALL,
    where: ['test/engine/run.test.ts', 'test/kit/limiter.test.ts'],
  },
  {
    id: 'B18',
    title: 'no slot is lost at a cancel',
    where: [
      'test/kit/limiter-turns.test.ts',
      'test/kit/limiter.test.ts',
      'test/kit/map.test.ts',
      'test/kit/runner-laws.test.ts',
    ],
  },
  {
    id: 'B19',
    title: 'weights that starve others',
    struck: 'A call takes one slot, always: there are no weights that could starve anybody.',
  },
  {
    id: 'B20',
    title: 'idle and drain waiters',
    on: ALL,
    where: ['test/engine/idle.test.ts', 'test/kit/limiter-queue.test.ts', 'test/kit/map.test.ts'],
  },
  {
    id: 'B21',
    title: 'counters that add up at every moment',
    on: ALL,
    where: [
      'test/engine/views.test.ts',
      'test/kit/limiter-turns.test.ts',
      'test/kit/runner-laws.test.ts',
    ],
  },
  {
    id: 'B22',
    title: 'a blocked loop causes no false timeout',
    on: ALL,
    where: [
      'test/engine/process.test.ts',
      'test/engine/timeouts.test.ts',
      'test/kit/limiter-queue.test.ts',
      'test/kit/runner-timeouts.test.ts',
      'test/kit/timeout.test.ts',
    ],
  },
  {
    id: 'B23',
    title: 'single flight',
    where: [
      'test/kit/inflight.test.ts',
      'test/kit/nested-inflight.test.ts',
      'test/kit/nested-many.test.ts',
      'test/kit/nested.test.ts',
    ],
  },
  {
    id: 'B24',
    title: 'an abort between two attempts',
    on: ALL,
    where: [
      'test/engine/retries.test.ts',
      'test/kit/hostile.test.ts',
      'test/kit/retry.test.ts',
      'test/kit/runner-attempts.test.ts',
    ],
  },
  {
    id: 'B25',
    title: 'the arithmetic of backoff and Retry-After',
    on: ALL,
    where: ['test/engine/retries.test.ts', 'test/kit/retry.test.ts'],
  },
  {
    id: 'B26',
    title: 'a streamed map after a break',
    where: ['test/kit/map.test.ts'],
  },
  {
    id: 'B27',
    title: 'limits that make no sense',
    on: ALL,
    where: ['test/engine/pools.test.ts', 'test/kit/limiter.test.ts'],
  },
  {
    id: 'B28',
    title: 'nested use that could never end',
    where: [
      'test/kit/nested-inflight.test.ts',
      'test/kit/nested-many.test.ts',
      'test/kit/nested-process.test.ts',
      'test/kit/nested-random.test.ts',
      'test/kit/nested-runner.test.ts',
      'test/kit/nested.test.ts',
    ],
  },
  {
    id: 'B29',
    title: 'what keeps a process alive',
    on: MEMORY,
    where: ['test/engine/process.test.ts'],
  },
  {
    id: 'B30',
    title: 'no bookkeeping without a bound',
    on: ALL,
    where: [
      'test/engine/events.test.ts',
      'test/kit/runner-stats.test.ts',
      'test/kit/runner-zombies.test.ts',
      'test/kit/stats.test.ts',
    ],
  },
  {
    id: 'DQ-01',
    title: 'an idle worker after the store was away',
    on: DURABLE,
    where: ['test/stores/redis-outage.test.ts', 'test/stores/sqlite-faults.test.ts'],
  },
  {
    id: 'DQ-02',
    title: 'a half-open notification channel',
    on: REDIS,
    where: ['test/stores/redis-outage.test.ts'],
  },
  {
    id: 'DQ-03',
    title: 'listings read pages, not everything',
    on: ALL,
    where: ['test/engine/views.test.ts'],
  },
  {
    id: 'DQ-04',
    title: 'retention works in bounded steps',
    on: ALL,
    where: ['test/engine/events.test.ts', 'test/stores/sqlite-faults.test.ts'],
  },
  {
    id: 'DQ-05',
    title: 'a late reaper overwrites nothing',
    on: ALL,
    where: ['test/engine/leases.test.ts'],
  },
  {
    id: 'DQ-06',
    title: 'an old attempt cannot finish the new one',
    on: ALL,
    where: ['test/engine/leases.test.ts'],
  },
  {
    id: 'DQ-07',
    title: 'a healthy long job is never taken away',
    on: ALL,
    where: ['test/engine/leases.test.ts'],
  },
  {
    id: 'DQ-08',
    title: 'a key whose owner is gone belongs to nobody',
    on: ALL,
    where: ['test/engine/keys.test.ts', 'test/stores/sqlite-faults.test.ts'],
  },
  {
    id: 'DQ-09',
    title: 'an older job does not free a newer owner’s key',
    on: ALL,
    where: ['test/engine/keys.test.ts'],
  },
  {
    id: 'DQ-10',
    title: 'the latest of several submissions during a run is kept',
    struck: 'A key means one thing: the first job has it until its end. No mode keeps the latest.',
  },
  {
    id: 'DQ-11',
    title: 'an expired record does not block its id',
    on: ALL,
    where: ['test/engine/submit.test.ts'],
  },
  {
    id: 'DQ-12',
    title: 'a taken key blocks nobody else',
    on: ALL,
    where: ['test/engine/keys.test.ts'],
  },
  {
    id: 'DQ-13',
    title: 'a lane stays serial, also over the death of its holder',
    on: ALL,
    where: [
      'test/engine/keys.test.ts',
      'test/engine/leases.test.ts',
      'test/stores/redis-ends.test.ts',
      'test/stores/sqlite-ends.test.ts',
    ],
  },
  {
    id: 'DQ-14',
    title: 'no job is left in limbo',
    on: ALL,
    where: ['test/engine/deps.test.ts', 'test/stores/sqlite-faults.test.ts'],
  },
  {
    id: 'DQ-15',
    title: 'an end costs only as much as it has dependents',
    on: ALL,
    where: ['test/engine/deps.test.ts'],
  },
  {
    id: 'DQ-16',
    title: 'a bulk submission wakes every worker',
    on: ALL,
    where: ['test/engine/stalls.test.ts'],
  },
  {
    id: 'DQ-17',
    title: 'pause, retries and due jobs together',
    on: ALL,
    where: ['test/engine/pools.test.ts'],
  },
  {
    id: 'DQ-18',
    title: 'a broken child process',
    on: MEMORY,
    where: ['test/cli/run.test.ts'],
  },
  {
    id: 'DQ-19',
    title: 'a poison job and the count of its attempts',
    on: ALL,
    where: [
      'test/engine/leases.test.ts',
      'test/stores/redis-ends.test.ts',
      'test/stores/sqlite-ends.test.ts',
    ],
  },
  {
    id: 'DQ-20',
    title: 'one job per scheduled instant',
    on: ALL,
    where: ['test/engine/schedules.test.ts'],
  },
  {
    id: 'ES-01',
    title: 'a rescue does not overwrite a success',
    on: ALL,
    where: ['test/engine/leases.test.ts'],
  },
  {
    id: 'ES-02',
    title: 'slow is not dead, and late changes nothing',
    on: ALL,
    where: ['test/engine/leases.test.ts'],
  },
  {
    id: 'ES-03',
    title: 'a timed-out attempt and its twin',
    on: ALL,
    where: ['test/engine/cancel.test.ts'],
  },
  {
    id: 'ES-04',
    title: 'a short absence runs nothing twice',
    on: ALL,
    where: ['test/engine/stalls.test.ts'],
  },
  {
    id: 'ES-05',
    title: 'an end whose acknowledgement is lost',
    on: ALL,
    where: ['test/engine/run.test.ts'],
  },
  {
    id: 'ES-06',
    title: 'a failover that drops acknowledged writes',
    on: REDIS,
    where: ['test/stores/redis-outage.test.ts'],
  },
  {
    id: 'ES-07',
    title: 'nothing delayed holds a lease',
    on: ALL,
    where: ['test/engine/stalls.test.ts'],
  },
  {
    id: 'ES-08',
    title: 'a draining worker claims nothing',
    on: ALL,
    where: ['test/engine/stop.test.ts'],
  },
  {
    id: 'ES-09',
    title: 'names are labels, starts are identities',
    on: ALL,
    where: ['test/engine/stalls.test.ts'],
  },
  {
    id: 'ES-10',
    title: 'a deploy interrupts without a charge',
    on: ALL,
    where: ['test/engine/stop.test.ts'],
  },
  {
    id: 'ES-11',
    title: 'a poison job is given up',
    on: ALL,
    where: ['test/engine/leases.test.ts'],
  },
  {
    id: 'ES-12',
    title: 'slot and lease are one',
    on: ALL,
    where: ['test/engine/leases.test.ts'],
  },
  {
    id: 'ES-13',
    title: 'no herd: polls and retries are spread',
    on: ALL,
    where: ['test/engine/stalls.test.ts'],
  },
  {
    id: 'ES-14',
    title: 'schedules fire once, across DST and clocks',
    on: ALL,
    where: ['test/engine/schedules.test.ts'],
  },
  {
    id: 'ES-15',
    title: 'only the clock of the store counts',
    on: ALL,
    where: ['test/engine/stalls.test.ts'],
  },
  {
    id: 'ES-16',
    title: 'giant and odd values stop at the border',
    on: ALL,
    where: ['test/engine/submit.test.ts'],
  },
  {
    id: 'ES-17',
    title: 'a missed wake-up costs one poll',
    on: ALL,
    where: ['test/engine/stalls.test.ts'],
  },
  {
    id: 'ES-18',
    title: 'the reaper gets through to everything',
    on: ALL,
    where: ['test/engine/stalls.test.ts'],
  },
  {
    id: 'ES-19',
    title: 'many cancels at once end, each once',
    on: ALL,
    where: ['test/engine/cancel.test.ts'],
  },
  {
    id: 'ES-20',
    title: 'long readers do not slow the store down',
    on: SQLITE,
    where: ['test/stores/sqlite-faults.test.ts'],
  },
  {
    id: 'ES-21',
    title: 'the dashboard has no store of its own',
    later: 'It waits for the dashboard.',
  },
]

function numbered(prefix: string, count: number): string[] {
  return Array.from({ length: count }, (_, n) => `${prefix}${String(n + 1).padStart(2, '0')}`)
}
