// Owns those who have asked for a result that is not there yet, in the order in which they asked.
// May never settle what it has promised: whoever takes somebody out of the line does.

import { Fifo } from './fifo.ts'
import type { Waiter } from './nested/graph.ts'

let resolveNext: (value: unknown) => void
let rejectNext: (error: unknown) => void

/** Made once, not per promise: it hands out what it is given through the two variables above. */
const keep = (resolve: (value: unknown) => void, reject: (error: unknown) => void): void => {
  resolveNext = resolve
  rejectNext = reject
}

class Taker implements Waiter {
  resolve = resolveNext
  reject = rejectNext
}

export class Takers extends Fifo<Waiter> {
  /** Puts somebody at the end of the line, who waits for the promise that comes back. O(1). */
  ask(): Promise<unknown> {
    const promise = new Promise<unknown>(keep)
    this.push(new Taker())
    return promise
  }
}
