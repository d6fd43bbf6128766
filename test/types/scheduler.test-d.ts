// Owns the promises of the scheduler's types: every name and shape that users rely on. It is
// compiled by the project's own type check, and never run.

import {
  type Advice,
  AxScheduler,
  type Backoff,
  type BreakerOptions,
  type Confirmed,
  type DoctorReport,
  type Duration,
  type Explanation,
  type Finding,
  type Job,
  type JobContext,
  type JobEvent,
  type JobFilter,
  type JobHandle,
  type JobInput,
  type JobStatus,
  type JobZombie,
  type Logger,
  memoryStore,
  type PoolHandle,
  type PoolOptions,
  type PoolOptionsChange,
  type PoolSnapshot,
  type RateOptions,
  type RetryWhereOptions,
  type Runtime,
  type ScheduleInfo,
  type ScheduleOptions,
  type SchedulerEvents,
  type SchedulerOptions,
  type Snapshot,
  type StandardSchemaV1,
  type Store,
  TaskGateway,
  type TypeHandle,
  type TypePolicy,
  type ZombieRecord,
} from '../../src/index.ts'

/** Exactly the same type; `any` is the same as nothing else. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
type Part<A, B> = A extends B ? true : false

declare function same<A, B>(check: Same<A, B>): void
declare function part<A, B>(check: Part<A, B>): void

declare const store: Store
declare const logger: Logger
declare const runtime: Runtime
declare const schema: StandardSchemaV1<{ to: string }>
declare const ax: AxScheduler

// ------------------------------------------------------------------------------- options
const backoff: Backoff = { type: 'exponential', delay: '1s', max: '30s', factor: 2, jitter: true }
const rate: RateOptions = { count: 100, per: '1m', burst: 5 }
const breaker: BreakerOptions = { failures: 5, failureRate: 0.5, window: 20, resetMs: '10s' }
const pool: PoolOptions = {
  concurrency: 10,
  perWorker: 5,
  maxQueue: 100,
  overflow: 'wait',
  rate,
  elastic: { ratio: 0.3, minPriority: 95 },
  preempt: { minPriority: 95, minGap: 10, minRun: '1s' },
  breaker,
  paused: false,
}
const policy: TypePolicy<{ to: string }> = {
  pool: 'net',
  concurrency: 5,
  priority: 80,
  timeout: '3s',
  retries: 2,
  backoff,
  heartbeat: '5s',
  preemptible: true,
  idempotent: false,
  maxLost: 3,
  retryable: (error) => error instanceof Error,
  confirm: async ({ job, signal }): Promise<Confirmed> => {
    same<typeof job, Job<{ to: string }>>(true)
    return signal.aborted ? { done: false } : { done: true, result: job.payload.to }
  },
  schema,
}
const options: SchedulerOptions = {
  store,
  concurrency: 10,
  pools: { net: pool },
  types: { mail: { timeout: '3s' } },
  ageing: { every: '10m', ceiling: 90 },
  retryBudget: rate,
  leaseMs: '15s',
  graceMs: '5s',
  maxZombies: 100,
  trackAsync: true,
  keep: { success: '1h', failed: '7d', cancelled: '7d', outcomes: '30d', log: '7d' },
  unknownDeps: 'reject',
  autoStart: false,
  name: 'worker',
  logger,
  runtime,
}
new AxScheduler(options)
new AxScheduler({ ageing: false, retryBudget: false, store: memoryStore() })
new AxScheduler(5)
new AxScheduler()
// @ts-expect-error: a slip
new AxScheduler({ concurency: 5 })
// @ts-expect-error: null is for configure()
new AxScheduler({ pools: { net: { concurrency: null } } })

// ---------------------------------------------------------------------------------- jobs
const input: JobInput<number, string> = {
  id: 'a',
  type: 't',
  payload: 1,
  priority: 50,
  deps: ['b', { id: 'c', on: 'end' }],
  depMode: 2,
  timeout: '5s',
  retries: 1,
  backoff: (attempt, random) => attempt * random,
  heartbeat: 5,
  availableAt: 0,
  delay: '1s',
  enqueueTimeout: '1s',
  key: 'k',
  dedupe: { for: '1h' },
  exclusive: 'account:42',
  pool: 'net',
  flow: 'f',
  idempotent: true,
  execute: (context) => {
    same<typeof context, JobContext<number>>(true)
    return String(context.payload)
  },
}

async function methods(): Promise<void> {
  const mail = ax.define('mail', policy, ({ payload }) => payload.to.length)
  same<typeof mail, TypeHandle<{ to: string }, number>>(true)
  const sent = await mail.submit({ to: 'x' }, { priority: 5 })
  same<typeof sent, JobHandle<number>>(true)
  same<Awaited<ReturnType<typeof sent.result>>, number>(true)
  same<Awaited<ReturnType<typeof sent.cancel>>, boolean>(true)
  const added = await ax.addJob(input)
  same<typeof added, JobHandle<string>>(true)
  part<Awaited<ReturnType<typeof ax.addJobs>>, JobHandle[]>(true)
  same<Awaited<ReturnType<typeof ax.addMany>>, number>(true)
  same<Awaited<ReturnType<typeof ax.job>>, Job | null>(true)
  const filter: JobFilter = {
    status: ['failed', 'cancelled'],
    type: 't',
    pool: 'p',
    flow: 'f',
    code: 'E',
    key: 'k',
    createdAfter: 0,
    createdBefore: 1,
    limit: 5,
    after: 'a',
  }
  for await (const job of ax.jobs(filter)) same<typeof job, Job>(true)
  same<Awaited<ReturnType<typeof ax.snapshot>>, Snapshot>(true)
  same<Snapshot['pools'], Readonly<Record<string, PoolSnapshot>>>(true)
  same<Awaited<ReturnType<typeof ax.explain>>, Explanation>(true)
  same<Awaited<ReturnType<typeof ax.cancel>>, boolean>(true)
  same<Awaited<ReturnType<typeof ax.retry>>, boolean>(true)
  await ax.retry('a', { downstream: true })
  const paced: RetryWhereOptions = { per: { count: 10, per: '1m' }, until: 0 }
  const revived = await ax.retryWhere(filter, paced)
  same<typeof revived, number>(true)
  const levers = ax.pool('net')
  same<typeof levers, PoolHandle>(true)
  const change: PoolOptionsChange = { concurrency: null, rate: false, breaker: null }
  await levers.configure(change)
  await levers.pause()
  await levers.resume()
  const when: ScheduleOptions = { timeZone: 'Europe/Berlin', missed: 'all' }
  await ax.schedule('nightly', '0 3 * * *', { type: 't' }, when)
  same<Awaited<ReturnType<typeof ax.unschedule>>, boolean>(true)
  same<Awaited<ReturnType<typeof ax.schedules>>, ScheduleInfo[]>(true)
  const off = ax.on('job:preempted', (event) => same<typeof event, JobEvent>(true))
  same<typeof off, () => void>(true)
  part<
    'job:added' | 'job:ready' | 'job:running' | 'job:progress' | 'job:retry' | 'job:success',
    keyof SchedulerEvents
  >(true)
  part<
    'job:failed' | 'job:cancelled' | 'job:timeout' | 'job:zombie' | 'job:preempted' | 'job:lost',
    keyof SchedulerEvents
  >(true)
  part<'job:duplicate' | 'idle', keyof SchedulerEvents>(true)
  for await (const event of ax.events({ after: 0, follow: false })) {
    same<typeof event, JobEvent>(true)
  }
  same<ReturnType<typeof ax.zombies>, JobZombie[]>(true)
  part<JobZombie, ZombieRecord>(true)
  same<Awaited<ReturnType<typeof ax.doctor>>, DoctorReport>(true)
  same<DoctorReport['findings'], readonly Finding[]>(true)
  same<Awaited<ReturnType<typeof ax.advise>>, Advice[]>(true)
  await ax.idle()
  await ax.start()
  const patience: Duration = '30s'
  await ax.close({ drainMs: patience })
  await using own = new AxScheduler()
  part<typeof own, AsyncDisposable>(true)
  const gateway = new TaskGateway(ax)
  same<Awaited<ReturnType<typeof gateway.submit>>, string>(true)
  same<Awaited<ReturnType<typeof gateway.getStatus>>, JobStatus>(true)
}
void methods
