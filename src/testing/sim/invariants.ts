// Owns the list of what must always hold, by number, and the shape of a violation.
// May never check anything: the oracles do.

/** What the oracles of this version check. */
export const INVARIANTS = [
  1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27,
  28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42,
] as const

export type Invariant = (typeof INVARIANTS)[number]

/** 0: not one of the list, but the run itself went wrong (something threw, or it spins). */
export class Violation extends Error {
  readonly invariant: Invariant | 0
  readonly jobs: readonly string[]

  constructor(invariant: Invariant | 0, text: string, jobs: readonly string[] = []) {
    super(text)
    this.name = 'Violation'
    this.invariant = invariant
    this.jobs = jobs
  }
}
