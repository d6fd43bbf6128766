// Owns what a runner tells of those who wait in it: for which bodies, and how each can be refused.
// May never name a body that will be ended, or a call that gives up, by itself.

import type { Block, Holder, Wait, Waiter } from '../nested/graph.ts'
import { atMost, some } from '../nested/some.ts'
import type { Party } from '../nested/watch.ts'
import type { Core } from './core.ts'
import { nestedCall } from './errors.ts'
import type { Flight } from './flight.ts'
import type { Run, Seat } from './run.ts'

/** A batch that waits: for anything to end, or for the start of the call of `key`. */
export interface Feed extends Waiter {
  key: string | undefined
}

type Note = (wait: Wait) => void

/**
 * Who waits for a slot, or for a place among those who keep theirs, and has a limit of patience or
 * a signal, gives up by itself: that is no wait for ever. Who waits for a certain body, because it
 * is of the same key, is told of all the same: nothing but the end of his own body helps there,
 * and a signal for each call would hide every ring. A body with a timeout ends by itself.
 */
export class RunnerParty implements Party {
  readonly #core: Core
  /** A claim waits for a slot, and for room among the zombies. */
  readonly #slots: readonly Block[]
  readonly #sessions: readonly Block[]

  constructor(core: Core) {
    this.#core = core
    const { zombies, settings } = core
    const holds = (run: Run) => !zombies.has(run)
    const isInSession = (run: Run) => sessionOf(this.#flightOf(run)) === 'inside'
    this.#slots = [
      blockOf(
        () => this.#seats(holds),
        () => core.slots.limit,
      ),
      blockOf(
        () => this.#seats((run) => zombies.has(run)),
        () => (zombies.isFull ? zombies.max : Number.POSITIVE_INFINITY),
      ),
    ]
    this.#sessions = [
      blockOf(
        () => this.#seats(isInSession),
        () => settings.inSlotConcurrency,
      ),
    ]
  }

  get waiting(): number {
    const { feeds, slots, sessions } = this.#core
    if (!this.#isPatient) return feeds.size
    return feeds.size + slots.waiting + (sessions?.stats().waiting ?? 0)
  }

  get joined(): object | undefined {
    for (const flight of this.#core.joins) return flight
    for (const flight of this.#core.leftovers.waiting()) return flight
    return undefined
  }

  get ended(): number {
    return this.#core.ended
  }

  holders(): Iterable<Holder> {
    return this.#core.seats.all
  }

  waits(note: Note, most: number): void {
    const { seats, slots, leftovers, joins, feeds, starts } = this.#core
    for (const { run } of seats.all) {
      const flight = run && this.#flightOf(run)
      if (flight !== undefined && flight.run === run) this.#noteFirst(flight, note)
    }
    for (const flight of leftovers.waiting()) this.#noteFirst(flight, note)
    for (const flight of slots.some(most)) this.#noteFirst(flight, note)
    for (const flight of atMost(most, this.#outOfSession())) this.#noteFirst(flight, note)
    let left = most
    for (const flight of joins) left -= this.#noteJoiners(flight, note, left)
    for (const feed of feeds) {
      const refuse = () => {
        feeds.delete(feed)
        feed.reject(nestedCall('the next item of a batch'))
      }
      note({ waiter: feed, holds: () => feeds.has(feed), blocks: this.#slots, refuse })
    }
    for (const feed of starts) {
      const flight = feed.key === undefined ? undefined : this.#core.flights.get(feed.key)
      if (flight === undefined) continue
      const refuse = () => this.#refuseFirst(flight)
      note({ waiter: feed, holds: () => starts.has(feed), blocks: this.#blocksOf(flight), refuse })
    }
  }

  get #isPatient(): boolean {
    return this.#core.settings.patienceMs === Number.POSITIVE_INFINITY
  }

  #flightOf(run: Run): Flight | undefined {
    return this.#core.flights.get(run.owner.key)
  }

  /** Where bodies run that nobody will end. */
  #seats(which: (run: Run) => boolean): Seat[] {
    const { all } = this.#core.seats
    return [...all].filter(({ run }) => run !== undefined && run.index < 0 && which(run))
  }

  *#outOfSession(): IterableIterator<Flight> {
    if (this.#core.sessions === undefined) return
    for (const flight of this.#core.flights.values())
      if (sessionOf(flight) === 'outside') yield flight
  }

  /** What a call waits for; nothing if it will get on, or give up. */
  #blocksOf(flight: Flight): readonly Block[] {
    const { run, place, key } = flight
    if (run !== undefined) return run.seat && run.index < 0 ? [blockOn([run.seat])] : []
    if (!this.#isPatient) return []
    if (place === 'parked') return this.#leftoversOf(key).map((seat) => blockOn([seat]))
    if (place !== 'nowhere') return this.#slots
    return sessionOf(flight) === 'outside' ? this.#sessions : []
  }

  /** Where bodies run whose calls have ended: each of them has to end, or to outlive its grace. */
  #leftoversOf(key: string): Seat[] {
    const { seats, confirm } = this.#core
    return [...seats.all].filter(({ run }) => {
      if (run?.owner.key !== key) return false
      return confirm === undefined || run.index < 0
    })
  }

  #noteFirst(flight: Flight, note: Note): void {
    const { crowd, run, place } = flight
    if (crowd?.isFirstHere === false) return
    const isForSlot = run === undefined && place !== 'parked'
    if (isForSlot && crowd?.hasSignal) return
    const isSame = sameWait(flight)
    note({
      waiter: flight,
      blocks: this.#blocksOf(flight),
      holds: () => isSame() && flight.crowd?.isFirstHere !== false,
      refuse: run === undefined ? () => this.#refuseFirst(flight) : undefined,
    })
  }

  #noteJoiners(flight: Flight, note: Note, most: number): number {
    const { crowd, run, place } = flight
    if (crowd === undefined) return 0
    const isForSlot = run === undefined && place !== 'parked'
    const blocks = this.#blocksOf(flight)
    const isSame = sameWait(flight)
    const joiners = [...crowd.joiners]
    const looked = [...some(joiners.length, Math.max(most, 2), joiners.toReversed(), joiners)]
    for (const joiner of looked) {
      if (isForSlot && joiner.signal !== undefined) continue
      const holds = () => isSame() && crowd.joiners.has(joiner)
      const refuse = () => {
        this.#core.meter.codes.add('NESTED_LIMIT')
        joiner.leave(nestedCall(flight.key))
      }
      note({ waiter: joiner, blocks, holds, refuse })
    }
    return looked.length
  }

  /** The others who wait for the call go on waiting. */
  #refuseFirst(flight: Flight): void {
    const error = nestedCall(flight.key)
    if (flight.crowd === undefined || flight.crowd.joiners.size === 0) flight.giveUp(error)
    else {
      this.#core.meter.codes.add('NESTED_LIMIT')
      flight.crowd.leave(error)
    }
  }
}

/** Whether a call is where it is now. */
function sameWait(flight: Flight): () => boolean {
  const { run, place } = flight
  const session = sessionOf(flight)
  return () => flight.run === run && flight.place === place && sessionOf(flight) === session
}

/** Whether a call waits for a place among those who keep their slot, or has one. */
function sessionOf(flight: Flight | undefined): 'outside' | 'inside' | undefined {
  const more = flight?.more
  if (more?.session === undefined) return undefined
  return more.leaveSession === undefined ? 'outside' : 'inside'
}

function blockOn(holders: readonly Seat[]): Block {
  return { holders, enough: 1 }
}

/** One whose holders and number are what they are when it is looked at. */
function blockOf(holders: () => Iterable<Holder>, enough: () => number): Block {
  return {
    get holders() {
      return holders()
    },
    get enough() {
      return enough()
    },
  }
}
