// Owns what a run is in the store: one job more, the head, beside the jobs of the flow.
// May never run anything.
//
// The head of run 3 of weekly-report has the id weekly-report#3, which is the flow of its jobs, and
// type and pool weekly-report/, which no job of a flow can have. Its state is that of the run: who
// holds its lease is the one process that runs it; ready or pending, the run was interrupted, or
// its process has died; a success, and every job is one; failed, and there is something to try
// again; cancelled, and the run was given up.

import { randomBytes } from 'node:crypto'
import { hasEnded, type StoredJob } from '../core/job.ts'
import type { Job, TypePolicy } from '../core/types.ts'
import { storedValue } from '../core/view.ts'
import { AxError, type AxScheduler, isAxError, type Store } from '../index.ts'
import { LIMITS } from '../store/limits.ts'

export interface RunRef {
  readonly flow: string
  readonly number: number
  /** The id of its head, and the flow of its jobs. */
  readonly id: string
  /** What the ids of its jobs begin with. */
  readonly prefix: string
  /** The flow file that began it, as seen from the store; undefined if nobody knows. */
  readonly file: string | undefined
  /** Different for each run, also of stores that begin to count anew. */
  readonly born: string
}

/** For how long runs are kept after their end, and unfinished ones after their last change. */
export const KEEP_MS = 30 * 86_400_000

/** A head that is lost goes back: whether the run goes on is for the next `ax run` to say. */
export const HEAD_POLICY: TypePolicy = { maxLost: 1_000_000 }

const GIVEN_UP = 'The run was given up.'
const WOKEN = 'The run is taken up again at once.'

export function headType(flow: string): string {
  return `${flow}/`
}

/** The latest run of a flow, with its head; undefined if there is none. */
export async function latestRun(
  scheduler: AxScheduler,
  flow: string,
): Promise<{ readonly run: RunRef; readonly head: Job } | undefined> {
  let latest: { run: RunRef; head: Job } | undefined
  for await (const head of scheduler.jobs({ type: headType(flow) })) {
    const run = refOf(flow, head)
    if (run === undefined) continue
    if (run.number >= (latest?.run.number ?? 0)) latest = { run, head }
  }
  return latest
}

/** Undefined for a job of somebody else whose type only looks like that of a head. */
function refOf(flow: string, { id, payload }: Pick<Job, 'id' | 'payload'>): RunRef | undefined {
  const number = Number(id.slice(flow.length + 1))
  const { born, file } = (payload ?? {}) as { readonly born?: unknown; readonly file?: unknown }
  if (id !== `${flow}#${number}` || typeof born !== 'string') return undefined
  const begunBy = typeof file === 'string' ? file : undefined
  return { flow, number, id, prefix: `${id}/`, file: begunBy, born }
}

/**
 * Stores the head of a new run, or finds the one that somebody else has stored at this very moment:
 * two that start at once mean the same run.
 */
export async function newRun(
  scheduler: AxScheduler,
  flow: string,
  after: number,
  file?: string,
): Promise<RunRef> {
  for (let number = after + 1; ; number += 1) {
    const id = `${flow}#${number}`
    // In this order: the head is stored before its jobs are.
    const isUsed = await hasJobs(scheduler, id)
    const there = await scheduler.job(id)
    // Its head was forgotten, and jobs of it are left that others still name.
    if (there === null && isUsed) continue
    if (there === null) await addHead(scheduler, flow, id, file)
    const head = there ?? (await scheduler.job(id))
    const run = head === null ? undefined : refOf(flow, head)
    if (run !== undefined) return run
  }
}

async function addHead(
  scheduler: AxScheduler,
  flow: string,
  id: string,
  file: string | undefined,
): Promise<void> {
  const type = headType(flow)
  const born = randomBytes(9).toString('base64url')
  const payload = file === undefined ? { born } : { born, file }
  try {
    await scheduler.addJob({ id, type, pool: type, payload })
  } catch (error) {
    if (!isAxError(error, 'DUPLICATE_ID')) throw error
  }
}

async function hasJobs(scheduler: AxScheduler, flow: string): Promise<boolean> {
  for await (const _ of scheduler.jobs({ flow, limit: 1 })) return true
  return false
}

/** The head as the store has it: with the holder of its lease. */
export async function headOf(store: Store, run: RunRef): Promise<StoredJob> {
  const [head] = await store.get([run.id])
  if (head !== null && head !== undefined) return head
  throw new AxError('GONE', `Run ${run.number} of ${run.flow} is in the store no more.`)
}

/** All jobs of a run as the store has them, in order of submission. */
export async function jobsOf(store: Store, run: Pick<RunRef, 'id'>): Promise<readonly StoredJob[]> {
  const jobs: StoredJob[] = []
  for (let after: number | null = 0; after !== null; ) {
    const page = await store.list({ flow: run.id, after, limit: LIMITS.page })
    jobs.push(...page.jobs)
    after = page.after
  }
  return jobs
}

export function isGivenUp({ status, error }: Pick<Job, 'status' | 'error'>): boolean {
  return status === 'cancelled' && error?.message === GIVEN_UP
}

/** Has the head ready at once, whatever it waits for: a new process means to run it. */
export async function wake(scheduler: AxScheduler, run: RunRef): Promise<void> {
  const head = await scheduler.job(run.id)
  if (head?.status === 'pending') await scheduler.cancel(run.id, WOKEN)
  await scheduler.retry(run.id)
}

/**
 * Nothing of a run will run any more, and it is kept no longer than other jobs. Can be repeated: a
 * process that dies in the middle leaves it to the next.
 */
export async function giveUp(scheduler: AxScheduler, store: Store, run: RunRef): Promise<void> {
  await cancel(scheduler, run.id)
  for (const job of await jobsOf(store, run)) {
    if (!hasEnded(job.status)) await cancel(scheduler, job.id)
  }
}

async function cancel(scheduler: AxScheduler, id: string): Promise<void> {
  try {
    await scheduler.cancel(id, GIVEN_UP)
  } catch (error) {
    if (!isAxError(error, 'UNKNOWN_JOB')) throw error
  }
}

/** Gives up what nobody has taken up again for so long, of all flows: nobody will. */
export async function giveUpOld(scheduler: AxScheduler, store: Store): Promise<void> {
  const { types, at } = await scheduler.snapshot()
  for (const [type, counts] of Object.entries(types)) {
    if (!type.endsWith('/') || counts.ready + counts.pending === 0) continue
    const flow = type.slice(0, -1)
    for await (const head of scheduler.jobs({ type, status: ['ready', 'pending'] })) {
      const run = refOf(flow, head)
      if (run !== undefined && at - lastChange(head) > KEEP_MS) await giveUp(scheduler, store, run)
    }
  }
}

function lastChange({ attemptLog, createdAt }: Job): number {
  const last = attemptLog.at(-1)
  return last === undefined ? createdAt : last.startedAt + (last.callMs ?? 0)
}

/** The payload of a job as it was given. */
export function payloadOf(job: StoredJob): unknown {
  return storedValue(job.payload)
}
