// Owns reading a run back from the scheduler's log, and holding it against what is stored.
// May never use a rule of the scheduler: it only follows what the entries say.

/**
 * @typedef {import('../../src/index.ts').JobEvent} JobEvent
 * @typedef {import('../../src/index.ts').JobStatus} JobStatus
 * @typedef {InstanceType<typeof import('../../src/index.ts').AxScheduler>} Scheduler
 * @typedef {import('./checks.mjs').Checks} Checks
 */

/**
 * The whole log, oldest entry first.
 *
 * @param {Scheduler} scheduler
 */
export async function readLog(scheduler) {
  /** @type {JobEvent[]} */
  const events = []
  for await (const event of scheduler.events()) events.push(event)
  return events
}

/**
 * Walks through a log and keeps the state of every job. `each` sees an entry and the states from
 * before it. Checks that nothing is missing, that each entry begins where the one before it left
 * its job, and that no more jobs run than the cap allows.
 *
 * @param {readonly JobEvent[]} events
 * @param {number} cap
 * @param {Checks} checks
 * @param {(event: JobEvent, states: ReadonlyMap<string, JobStatus>) => void} each
 */
export function follow(events, cap, checks, each) {
  /** @type {Map<string, JobStatus>} */
  const states = new Map()
  let running = 0
  events.forEach((event, at) => {
    const { job, from, to, seq } = event
    const before = states.get(job) ?? null
    checks.expect(seq === at + 1, () => `Log entry ${at + 1} has the number ${seq}.`)
    checks.expect(from === before, () => `Entry ${seq} moves ${job} from ${from}, not ${before}.`)
    each(event, states)
    if (from === 'running') running -= 1
    if (to === 'running') running += 1
    checks.expect(running <= cap, () => `After entry ${seq}, ${running} jobs run; cap ${cap}.`)
    states.set(job, to)
  })
  return states
}

/**
 * Checks that the states at the end of a log are those of the stored jobs, no more and no fewer,
 * and that every job succeeded in one attempt.
 *
 * @param {ReadonlyMap<string, JobStatus>} states
 * @param {Scheduler} scheduler
 * @param {number} count
 * @param {Checks} checks
 */
export async function compareWithStored(states, scheduler, count, checks) {
  let stored = 0
  for await (const job of scheduler.jobs()) {
    stored += 1
    const { id, status, attempts } = job
    const folded = states.get(id)
    checks.expect(folded === status, () => `The log leaves ${id} ${folded}, it is ${status}.`)
    checks.expect(
      status === 'success' && attempts === 1,
      () => `Job ${id} is ${status} after ${attempts} attempts.`,
    )
  }
  checks.expect(
    stored === count && states.size === count,
    () => `${count} jobs went in, ${stored} are stored, the log knows ${states.size}.`,
  )
}
