// Owns the moments at which it is looked for waits that could never end, and all who know of any.
// May never look while things go well, or keep alive whoever is forgotten by everyone else.
//
// Nothing is tracked before: when calls wait and no body has ended for a while, V8 is asked who
// waits for whom (trace.ts), and what could never end is found in the answers (graph.ts).

import { beforeEnd, type Runtime, systemRuntime, warn } from '../runtime.ts'
import { type Edge, type Holder, victim, type Wait } from './graph.ts'
import { ask } from './trace.ts'

/** How long no body must have ended before it is looked; twice as long each time. */
const STALL_MS = 20
/**
 * For those who wait for one certain body it is looked later, since there the body is seldom slow
 * because of a ring; and while other bodies end, again and again, with pauses of at most so long.
 */
const LATE_MS = 250
const BUSY_MS = 5_000
/** Waiting calls of a party that are asked at the first look (4 us each): see some.ts. */
const FIRST_LOOK = 256
const LONGEST_LOOK = 4096
/** Of each other party as many as fit into that, all of them together, but at least so many. */
const LEAST_LOOK = 4
/**
 * Looking takes at most a twentieth of the time, whoever it is that has stalled: so long after each
 * call that was asked, nobody looks. (With 1,000 limiters of which each looked at all the others, a
 * downstream that was slow for 6 s kept the event loop from turning for 38 s.)
 */
const REST_MS = 20 * 0.004

/** Somebody who knows of waits: a limiter, a map, a runner, single flights, a scheduler. */
export interface Party {
  /** How many wait until a body has ended, whichever it is. */
  readonly waiting: number
  /**
   * Of all certain bodies that somebody waits for, so that it is no help if others end: the one
   * that has been waited for the longest.
   */
  readonly joined: object | undefined
  /** Goes up whenever a body has ended. */
  readonly ended: number
  /** Goes up whenever it has learnt something by which it would tell more than at the last look. */
  readonly news?: number
  /** Where its bodies run. */
  holders(): Iterable<Holder>
  /** Tells of everyone who waits: of those who wait for bodies to start, at most `most`. */
  waits(note: (wait: Wait) => void, most: number): void
}

/** Watches over a party: looks when it has stalled, or one body has been waited for too long. */
export class Watch {
  readonly #party: Party
  readonly #runtime: Runtime
  #isEnrolled = false
  #isArmed = false
  #delay = STALL_MS
  #ended = 0
  #joined: object | undefined

  constructor(party: Party, runtime: Runtime) {
    this.#party = party
    this.#runtime = runtime
  }

  /** From now on others see the waits of the party when they look. */
  enroll(): void {
    if (!this.#isEnrolled) enroll(this.#party)
    this.#isEnrolled = true
  }

  /** Somebody has to wait. */
  wait(): void {
    if (this.#isArmed) return
    this.enroll()
    this.#delay = STALL_MS
    this.#ended = this.#party.ended
    this.#joined = undefined
    this.#arm()
  }

  #arm(ms = this.#delay): void {
    this.#isArmed = true
    this.#runtime.after(ms, () => this.#check(), { ref: false })
  }

  #check(): void {
    this.#isArmed = false
    const { waiting, ended, joined } = this.#party
    if (waiting === 0 && joined === undefined) return
    const goesOn = ended !== this.#ended
    const isNew = joined !== this.#joined
    this.#ended = ended
    this.#joined = joined
    // While bodies end, who waits for a slot gets on; and who waits for one body has it slow once.
    const isLate = joined !== undefined && !isNew && this.#delay >= LATE_MS
    const isStuck = !goesOn && waiting > 0
    if (!isLate && !isStuck) {
      this.#delay = joined === undefined ? STALL_MS : LATE_MS
      this.#arm()
      return
    }
    const rest = (rests.get(this.#runtime) ?? 0) - this.#runtime.monotonic()
    if (rest > 0) {
      this.#arm(rest)
      return
    }
    const most = Math.min(LONGEST_LOOK, (FIRST_LOOK * this.#delay) / STALL_MS)
    this.#delay = goesOn ? Math.min(this.#delay * 2, BUSY_MS) : this.#delay * 2
    this.#isArmed = true
    look(this.#runtime, this.#party, most, (found) => {
      if (found) this.#delay = STALL_MS
      this.#arm()
    })
  }
}

/** Everyone who has anything to tell; they may be forgotten by everyone else. */
const parties = new Set<WeakRef<Party>>()
/** When so many are known, those that are gone are looked for. */
let sweepAt = 1000
let listening = false
let lastState = ''

/** Counts `party` in until the function that comes back is called, or nobody else knows it. */
export function enroll(party: Party): () => void {
  if (parties.size >= sweepAt) sweepAt = 1000 + 2 * alive().length
  const ref = new WeakRef(party)
  parties.add(ref)
  listen()
  return () => parties.delete(ref)
}

function listen(): void {
  if (listening) return
  listening = true
  beforeEnd(() => {
    // Nothing is left that could end a body. Once: to look makes the process go on for a turn.
    const busy = alive().filter(({ waiting, joined }) => waiting > 0 || joined !== undefined)
    const state = busy.map(({ waiting, ended, news }) => `${waiting} ${ended} ${news}`).join()
    if (state === '') return
    if (state === lastState) {
      warnOnce(busy.reduce((sum, { waiting }) => sum + waiting, 0))
      return
    }
    lastState = state
    look(systemRuntime, undefined, Number.POSITIVE_INFINITY, () => {})
  })
}

let warned = false

/** No ring was found, and the process ends all the same: at least it does not end in silence. */
function warnOnce(waiting: number): void {
  if (warned) return
  warned = true
  const calls = waiting === 1 ? 'a call waits' : `${waiting} calls wait`
  const who = waiting === 0 ? 'calls wait for a body' : `${calls} for a slot`
  warn(
    'AX_STUCK',
    `The process ends while ${who}, and nothing is left that could end one: no promise of ` +
      'theirs will ever settle. Look for a body that waits for such a call, or a paused limiter.',
  )
}

function alive(): Party[] {
  const found: Party[] = []
  for (const ref of parties) {
    const party = ref.deref()
    if (party === undefined) parties.delete(ref)
    else found.push(party)
  }
  return found
}

/** Until when nobody looks again, by the clock that they go by. */
const rests = new WeakMap<Runtime, number>()

/**
 * Finds out who waits for whom, ends one wait if there is a ring, and says whether it did. Of the
 * party that has stalled at most `most` calls are asked, of the others a share.
 */
function look(
  runtime: Runtime,
  stalled: Party | undefined,
  most: number,
  done: (found: boolean) => void,
): void {
  const all = alive()
  const bodies = new Map<string, Holder>()
  for (const party of all) {
    for (const holder of party.holders()) if (holder.busy) bodies.set(holder.name, holder)
  }
  for (const holder of bodies.values()) holder.mark()
  const edges: Edge[] = []
  let asked = bodies.size
  const note = (wait: Wait) => {
    if (wait.blocks.length === 0) return
    asked += 1
    ask(wait.waiter, (names) => {
      const by = new Map<Holder, number>()
      for (const name of names) {
        const holder = bodies.get(name)
        if (holder !== undefined) by.set(holder, holder.turn)
      }
      if (by.size > 0) edges.push({ wait, by })
    })
  }
  const share = Math.max(LEAST_LOOK, Math.floor(LONGEST_LOOK / all.length))
  for (const party of all) {
    const isOther = stalled !== undefined && party !== stalled
    party.waits(note, isOther ? Math.min(most, share) : most)
  }
  rests.set(runtime, runtime.monotonic() + asked * REST_MS)
  // The answers come in the microtasks before this.
  runtime.soon(() => {
    const found = victim(edges)
    found?.refuse?.()
    done(found !== undefined)
  })
}
