// Owns every bound of the store contract, each with its reason.
// May never be changed by an option: options have limits of their own, beside their checks.

export const LIMITS = {
  /** Jobs in one atomic insertion: what a database commits in well under a second. */
  batch: 10_000,
  /** Dependencies in one atomic insertion, for the same reason. */
  edges: 100_000,
  /** Jobs promoted, ranked anew, dependents told by one call: no call blocks for long. */
  chunk: 1_000,
  /** Log entries and outcomes dropped by one call: ten for each job that it can forget. */
  prune: 10_000,
  /** Outcomes of forgotten jobs in memory: about 20 MB. The oldest go first. */
  memoryOutcomes: 100_000,
  /** Jobs granted by one `lease`, moved by one `apply`, returned by one `overdue`. */
  moves: 1_000,
  /** Of payloads and results in one call that can be parted: a server takes 512 MB at most. */
  bytes: 16_000_000,
  /** Jobs on one page of a listing: a page is read while others wait. */
  page: 500,
  /** Log entries on one page. */
  events: 1_000,
  /** A place in line is exact up to here; beyond it nobody counts. */
  position: 1_000,
  /** Attempts kept with a job; the log has them all. */
  attempts: 100,
  /** Distinct failure codes counted; the rest are counted together as `other`. */
  codes: 100,
  /** Leases named by `count`: what a person can look at. */
  held: 1_000,
  /** Bytes of a note: a name, a number, an address. */
  note: 1_000,
  /** Between two looks at an ended job that its flow keeps: nobody has to look for such jobs. */
  flowMs: 3_600_000,
  /** Entries of a log in memory: 32 bytes each, and 60 more for one with a code or a cause. */
  memoryLog: 1_000_000,
} as const
