// Owns what others may know of who waits for the results of a map: see nested/watch.ts.
// May never hold the map's state: it asks for it.

import type { Lane } from './lane.ts'
import type { Block, Wait, Waiter } from './nested/graph.ts'
import type { Berth } from './nested/trace.ts'
import type { Party } from './nested/watch.ts'

/** How a map stands. */
export interface Standing {
  /** Who has asked for the next result. */
  readonly taker: Waiter | undefined
  readonly lanes: readonly Lane[]
  /** Where bodies of the limiter run, those of the map among them. */
  readonly berths: ReadonlySet<Berth>
  readonly concurrency: number
  /** The number of the result that comes next, where there is an order. */
  readonly next: number | undefined
  readonly tickets: number
  readonly isPulling: boolean
  /** Grows whenever something has started or ended. */
  readonly moves: number
}

export class MapParty implements Party {
  readonly #look: () => Standing
  readonly #refuse: () => void
  // Slots are the limiter's.
  readonly waiting = 0
  readonly joined = undefined
  readonly ended = 0

  constructor(look: () => Standing, refuse: () => void) {
    this.#look = look
    this.#refuse = refuse
  }

  holders(): Iterable<Lane> {
    return this.#look().lanes
  }

  waits(note: (wait: Wait) => void): void {
    const seen = this.#look()
    const { taker, moves } = seen
    const block = blockOf(seen)
    if (taker === undefined || block === undefined) return
    const holds = () => {
      const now = this.#look()
      return now.taker === taker && now.moves === moves
    }
    note({ waiter: taker, blocks: [block], holds, refuse: this.#refuse })
  }
}

/** What the next result waits for: a body, or any of several, or a slot. */
function blockOf(seen: Standing): Block | undefined {
  const running = seen.lanes.filter((lane) => lane.busy)
  const next = running.filter((lane) => lane.index === seen.next)
  if (next.length > 0) return { holders: next, enough: 1 }
  if (seen.tickets === 0) {
    // A source that is asked may bring one that starts at once.
    const isAll = running.length > 0 && !seen.isPulling
    return isAll ? { holders: running, enough: running.length } : undefined
  }
  const holders = [...seen.berths].filter((berth) => berth.busy)
  return { holders, enough: Math.max(seen.concurrency, holders.length) }
}
