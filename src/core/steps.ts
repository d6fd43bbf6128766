// THE HEART, first half. Owns the table of legal transitions: what may happen to a job at all.
// May never decide which of them happens: that is machine.ts.

import type { JobStatus, StepName } from './job.ts'

/** One kind of transition: where it may begin, where it may lead, and who takes it. */
export interface Step {
  readonly from: readonly (JobStatus | 'new')[]
  readonly to: readonly (JobStatus | 'gone')[]
  /** `rule`: a store takes it by arithmetic alone. `decision`: only `decide` does. */
  readonly by: 'rule' | 'decision'
  /** What the log calls it. */
  readonly event: string
  /** One line for the picture and for the reader. */
  readonly says: string
}

/**
 * Every legal transition. There is no other way to change a state: stores ask this table before
 * they write, and the picture in ARCHITECTURE.md is drawn from it.
 */
export const STEPS: Readonly<Record<StepName, Step>> = {
  add: {
    from: ['new'],
    to: ['waiting', 'pending', 'ready'],
    by: 'rule',
    event: 'job:added',
    says: 'submitted',
  },
  release: {
    from: ['waiting'],
    to: ['pending', 'ready'],
    by: 'rule',
    event: 'job:ready',
    says: 'its dependencies are met',
  },
  due: {
    from: ['pending'],
    to: ['ready', 'waiting'],
    by: 'rule',
    event: 'job:ready',
    says: 'its time has come',
  },
  admit: {
    from: ['waiting'],
    to: ['ready'],
    by: 'rule',
    event: 'job:ready',
    says: 'its lane is free',
  },
  yield: {
    from: ['ready'],
    to: ['waiting'],
    by: 'rule',
    event: 'job:waiting',
    says: 'a better-ranked job took its lane before it had started',
  },
  lease: {
    from: ['ready'],
    to: ['running'],
    by: 'rule',
    event: 'job:running',
    says: 'a worker took it',
  },
  unheard: {
    from: ['running'],
    to: ['ready'],
    by: 'rule',
    event: 'job:returned',
    says: 'its worker never heard of the lease',
  },
  succeed: {
    from: ['running'],
    to: ['success'],
    by: 'decision',
    event: 'job:success',
    says: 'the handler returned',
  },
  fail: {
    from: ['running'],
    to: ['failed'],
    by: 'decision',
    event: 'job:failed',
    says: 'the handler threw, and no attempt is left',
  },
  retry: {
    from: ['running'],
    to: ['pending', 'ready'],
    by: 'decision',
    event: 'job:retry',
    says: 'the handler threw, and an attempt is left',
  },
  timeout: {
    from: ['running'],
    to: ['pending', 'ready', 'failed'],
    by: 'decision',
    event: 'job:timeout',
    says: 'the attempt ran out of time',
  },
  lose: {
    from: ['running'],
    to: ['pending', 'ready', 'failed'],
    by: 'decision',
    event: 'job:lost',
    says: 'its worker died, stalled, or was cut off from the store',
  },
  return: {
    from: ['running'],
    to: ['ready', 'failed'],
    by: 'decision',
    event: 'job:returned',
    says: 'its worker is stopping',
  },
  preempt: {
    from: ['running'],
    to: ['ready', 'failed'],
    by: 'decision',
    event: 'job:preempted',
    says: 'an urgent job took its slot',
  },
  cancel: {
    from: ['waiting', 'pending', 'ready', 'running'],
    to: ['cancelled'],
    by: 'decision',
    event: 'job:cancelled',
    says: 'somebody cancelled it',
  },
  settle: {
    from: ['cancelled'],
    to: ['cancelled'],
    by: 'decision',
    event: 'job:settled',
    says: 'the body of a cancelled job has ended, or its grace has',
  },
  expire: {
    from: ['ready'],
    to: ['failed'],
    by: 'decision',
    event: 'job:failed',
    says: 'it waited for a slot longer than it may',
  },
  cascade: {
    from: ['waiting'],
    to: ['cancelled'],
    by: 'decision',
    event: 'job:cancelled',
    says: 'its dependencies can no longer be met',
  },
  revive: {
    from: ['failed', 'cancelled', 'waiting'],
    to: ['waiting', 'pending', 'ready'],
    by: 'decision',
    event: 'job:revived',
    says: 'somebody asked for another try',
  },
  forget: {
    from: ['success', 'failed', 'cancelled'],
    to: ['gone'],
    by: 'decision',
    event: 'job:forgotten',
    says: 'its retention is over',
  },
}

/** Whether the table knows this transition. O(1). */
export function isLegal(step: StepName, from: JobStatus | 'new', to: JobStatus | 'gone'): boolean {
  const { from: begins, to: ends } = STEPS[step]
  return begins.includes(from) && ends.includes(to)
}

const PLACING: readonly StepName[] = ['release', 'due', 'admit']

/** What the log calls a transition: rules that may land elsewhere are named by where they did. */
export function eventOf(step: StepName, to: JobStatus): string {
  return PLACING.includes(step) ? `job:${to}` : STEPS[step].event
}
