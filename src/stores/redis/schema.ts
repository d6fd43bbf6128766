// Owns the keys of a prefix: what each holds, and the version that they are written in.
// May never change the meaning of a key that has been published: a new meaning is a new version.

import { refuseValue } from '../../core/options.ts'

/** The version that `{prefix}:state` carries. A later one is refused. */
export const VERSION = 1

export const DEFAULT_PREFIX = 'ax'

const MAX_PREFIX = 200

/**
 * All keys of a prefix, after `{prefix}:`; the braces keep them in one slot of a cluster. A *job*
 * is the six bytes of its seq, highest first, so that members with equal scores stand in order of
 * seq. A *line* is the number of one pool with one type; numbers are never used again.
 *
 * What there is:
 * - `state`: version, clock, counters, ageing, budget (session.lua has the order)
 * - `i` id to job · `j` job to what was said of it: a header if it is special, then its payload
 * - `n` job to how it is now, packed; rewritten with each change (rows.lua has the order)
 * - `line`, `lineby`: a line to its pool and type, and back · `terms`, `termsby`: the same of terms
 * - `b`, `b:LINE`, `bn`: blocks of 128 numbers in which there are jobs, and how many
 *
 * Where jobs stand, sorted sets by score:
 * - `r:LINE`, `rs:LINE` ready ones, suspects apart, by rank · `heads` those that are not empty
 * - `due:0`, `due:1` pending ones and retries, by instant · `again` what the budget holds, by rank
 * - `l:LINE` leases and holds, a set · `held` those that are not empty
 * - `h:HOLDER LINE` the same of one worker (a NUL between) · `hl:HOLDER` its lines
 * - `waits` deadlines of those that wait · `st:STATE` rare states, by seq
 * - `ends` of leases, `past` of retentions: by instant, as many jobs in one member as share it
 * - `w:LANE` who waits for a lane, by rank · `doomed` · `suspects` job to holder
 * - `f:FLOW`, `k:KEY`, `c:CODE` for listings, by seq
 *
 * What they are about:
 * - `lane` name to holder and whether it has started · `key` key to owner and end of its window
 * - `d:ID` edges that lead to an id, by (state, seq) · `e:JOB` a letter for each edge of a job
 * - `named` id to how many live, failed or cancelled jobs name it
 * - `fans`, `fan`: ends whose dependents have not all been told, and how far that has come
 * - `outcome`, `outcomes`: how forgotten jobs ended, and until when that is remembered
 *
 * What is set and counted:
 * - `pool`, `wanting`, `type`, `cap`, `schedule`, `schedules`, `worker`, `workers`
 * - `tally` jobs by line and state, `weigh` by priority and weight, `failure` by code
 * - `log` a stream: an entry for each batch, under the number of the first record in it
 *
 * `hint` is a channel.
 */
export function stateKeyOf(prefix: string): string {
  return `{${prefix}}:state`
}

/**
 * A key that is never there. Each call names it beside `state`: while the slot of a prefix moves
 * to another node of a cluster, a node that has not all keys of a call refuses it (TRYAGAIN) before
 * its script begins. Otherwise the script would find some keys of the prefix and miss others.
 */
export function nowhereOf(prefix: string): string {
  return `{${prefix}}:nowhere`
}

export function keyOf(prefix: string, name: string): string {
  return `{${prefix}}:${name}`
}

/** Checks a prefix: braces say which part of a key decides about its slot. */
export function checkPrefix(prefix: unknown): string {
  const isGood =
    typeof prefix === 'string' &&
    prefix !== '' &&
    prefix.length <= MAX_PREFIX &&
    !/[{}\0]|\p{Surrogate}/u.test(prefix)
  if (isGood) return prefix
  return refuseValue('prefix', prefix, `a text of 1 to ${MAX_PREFIX} characters without braces`)
}
