// Owns the arithmetic of a fleet on paper: calls per second times microseconds, servers by need.
// May never hold a figure that is not an input: what is measured comes from fleet-measure.mjs.

/**
 * `busy`: the share of one core that a server is to be used for. `ratePerWorker`: jobs that one
 * process runs in a second. Durations as the engine has them.
 *
 * @typedef {{
 *   busy: number, ratePerWorker: number, leaseMs: number, pollMs: number, keepMs: number,
 *   memoryGb: number, mostConnections: number,
 * }} Inputs
 *
 * Microseconds of the server's time.
 *
 * @typedef {Record<'lease' | 'overdue' | 'time' | 'beat' | 'extend' | 'extendHeld', number>} Costs
 */

/** As docs/scale.md has them; each is printed. @type {Inputs} */
export const INPUTS = {
  busy: 0.7,
  ratePerWorker: 100,
  leaseMs: 15_000,
  pollMs: 875,
  keepMs: 3_600_000,
  memoryGb: 16,
  mostConnections: 10_000,
}

/**
 * What so many workers ask for though nothing happens, in a second: kind, calls, microseconds.
 *
 * @param {number} workers
 * @param {Costs} costs
 * @param {Inputs} inputs
 */
export function restOf(workers, costs, { leaseMs, pollMs }) {
  const polls = (workers * 1_000) / pollMs
  const beats = (workers * 1_000) / (leaseMs / 3)
  const rows = [
    { what: 'poll: lease', calls: polls, us: costs.lease },
    { what: 'poll: overdue', calls: polls, us: costs.overdue },
    { what: 'poll: time', calls: polls, us: costs.time },
    { what: 'heartbeat: beat', calls: beats, us: costs.beat },
    { what: 'heartbeat: extend', calls: beats, us: costs.extendHeld },
  ]
  return rows.map((row) => ({ ...row, cores: (row.calls * row.us) / 1e6 }))
}

/** @param {ReturnType<typeof restOf>} rows */
export function coresOf(rows) {
  return rows.reduce((sum, { cores }) => sum + cores, 0)
}

/**
 * One hint in a store on which so many workers listen that have room: each gets the message and
 * asks for a lease, and all but one ask in vain.
 *
 * @param {number} workers
 * @param {number} hintUs
 * @param {Costs} costs
 */
export function wakeUs(workers, hintUs, costs) {
  return workers * (hintUs + costs.lease)
}

/**
 * Servers for so many jobs a second, each with its share of the workers: jobs, polls, heartbeats.
 *
 * @param {number} rate
 * @param {number} jobUs
 * @param {Costs} costs
 * @param {Inputs} inputs
 */
export function shardsFor(rate, jobUs, costs, inputs) {
  const workers = rate / inputs.ratePerWorker
  const rest = coresOf(restOf(workers, costs, inputs))
  const cores = (rate * jobUs) / 1e6 + rest
  return { workers, cores, shards: Math.ceil(cores / inputs.busy), rest }
}

/**
 * Servers by memory: jobs that have succeeded are kept for an hour unless it is said otherwise.
 *
 * @param {number} rate
 * @param {number} endedBytes
 * @param {Inputs} inputs
 * @param {number} keepMs
 */
export function shardsByMemory(rate, endedBytes, { memoryGb }, keepMs) {
  const gb = (rate * (keepMs / 1_000) * endedBytes) / 1e9
  return { gb, shards: Math.ceil(gb / memoryGb) }
}
