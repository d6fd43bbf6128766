// Owns the public face: every name that a user imports from 'ax-scheduler'.
// May never hold logic beyond giving the scheduler its default store.

import type { SchedulerOptions } from './engine/options.ts'
import { SchedulerBase } from './engine/scheduler.ts'
import { memoryStore as openMemoryStore } from './store/memory.ts'
import type { Store } from './store/store.ts'

export type { BreakerOptions, BreakerState } from './core/breaker.ts'
export type { Duration } from './core/duration.ts'
export { AxError, type AxErrorCode, ERROR_CODES, isAxError } from './core/errors.ts'
export type { Dep, DepMode, ErrorData, JobEvent, JobStatus } from './core/job.ts'
export type {
  Advice,
  AttemptLog,
  Backoff,
  Confirmed,
  DoctorReport,
  Explanation,
  Finding,
  Job,
  JobContext,
  JobFilter,
  JobHandle,
  JobInput,
  PoolOptions,
  PoolOptionsChange,
  PoolSnapshot,
  RateOptions,
  RetryWhereOptions,
  ScheduleInfo,
  ScheduleOptions,
  Snapshot,
  StandardSchemaV1,
  SubmitOptions,
  TypePolicy,
} from './core/types.ts'
export type { JobZombie, ZombieRecord } from './core/zombie.ts'
export type { EventName, SchedulerEvents } from './engine/events.ts'
export { TaskGateway } from './engine/gateway.ts'
export type { Logger } from './engine/logger.ts'
export type { PoolHandle } from './engine/operator.ts'
export type { SchedulerOptions } from './engine/options.ts'
export type { EventsOptions } from './engine/reader.ts'
export type { TypeHandle } from './engine/scheduler.ts'
export { createInflight, type Inflight, type InflightOptions } from './kit/inflight.ts'
export {
  createLimiter,
  type Limiter,
  type LimiterOptions,
  type LimiterStats,
  type LimitOptions,
} from './kit/limiter.ts'
export type { MapContext, MapOptions } from './kit/map-options.ts'
export { isRetryable, type RetryInfo, type RetryOptions, withRetry } from './kit/retry.ts'
export {
  type AttemptRecord,
  type BatchOptions,
  type BatchResult,
  type CallOptions,
  createRunner,
  type Runner,
  type RunnerContext,
  type RunnerOptions,
  type RunnerResult,
  type RunnerRetry,
  type RunnerStats,
} from './kit/runner.ts'
export type { Runtime, Timer } from './kit/runtime.ts'
export type { Percentiles } from './kit/stats.ts'
export { type TimeoutOptions, withTimeout } from './kit/timeout.ts'
export type { Store } from './store/store.ts'

/** Jobs as data, run under control. On a memory store of its own, unless it is given another. */
export class AxScheduler extends SchedulerBase {
  constructor(options?: number | SchedulerOptions) {
    super(options, (runtime) => openMemoryStore({ runtime }))
  }
}

/** Jobs in the memory of this process: nothing survives it. */
export function memoryStore(): Store {
  return openMemoryStore()
}
