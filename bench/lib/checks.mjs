// Owns the list of what went wrong in a run. A fault is something that no noise explains.
// May never stop a run: all faults are worth seeing at once.

import { print } from './report.mjs'

/** Of one kind of fault, so many are printed in full. */
const SHOWN = 20

export class Checks {
  /** @type {string[]} */
  faults = []

  /**
   * @param {boolean} holds
   * @param {() => string} fault one sentence; made only if it is needed
   */
  expect(holds, fault) {
    if (!holds) this.faults.push(fault())
  }

  /** Prints what went wrong, and makes the exit code say so. */
  conclude() {
    for (const fault of this.faults.slice(0, SHOWN)) print(`FAULT  ${fault}`)
    if (this.faults.length > SHOWN) print(`FAULT  and ${this.faults.length - SHOWN} more`)
    print(this.faults.length === 0 ? 'All checks hold.' : `${this.faults.length} faults.`)
    if (this.faults.length > 0) process.exitCode = 1
  }
}
