// Owns the end of a process's work: what runs gets its time, then the store hears what is left.
// May never wait for a store that does not answer: what that was not told, ends with the leases.

import type { Timer } from '../kit/runtime.ts'
import type { Hub } from './hub.ts'
import type { Keeper } from './keeper.ts'
import type { Pulse } from './pulse.ts'
import type { Setup } from './setup.ts'
import type { Worker } from './worker.ts'

/** So often it is looked whether anything has moved on, and so often nothing may have. */
const LOOK_MS = 1_000
const PATIENCE = 5

export interface Closing {
  readonly hub: Hub
  readonly setup: Setup
  readonly worker: Worker
  readonly keeper: Keeper
  readonly pulse: Pulse
  /** Resolves once nothing is being started any more. */
  started(): Promise<void>
  /** Says that nothing is served from here on. */
  announce(): void
  /** Make-up runs, which have been told to end. */
  readonly madeUp: Promise<void>
}

/**
 * Resolves when everything has ended and the store knows it, or when it has answered nothing for
 * five seconds in which no body ran: then it says what was left behind.
 */
export async function leave(parts: Closing): Promise<void> {
  const { hub, worker, keeper, pulse } = parts
  const progress = { phase: 0 }
  let timer: Timer | undefined
  const silence = new Promise<'silence'>((resolve) => {
    let last = ''
    let left = PATIENCE
    const look = () => {
      const now = `${progress.phase} ${worker.runs.size} ${hub.answers}`
      left = now === last && !worker.hasBodies ? left - 1 : PATIENCE
      last = now
      if (left === 0) resolve('silence')
      else timer = hub.runtime.after(LOOK_MS, look)
    }
    look()
  })
  const ended = await Promise.race([inOrder(parts, progress), silence])
  timer?.cancel()
  if (ended !== 'silence') return
  const held = worker.runs.size + worker.unwritten
  hub.giveUp()
  keeper.stop()
  pulse.stop().catch(() => {})
  warn(hub, held)
}

async function inOrder(parts: Closing, progress: { phase: number }): Promise<void> {
  const { setup, worker, keeper, pulse, madeUp, announce, started } = parts
  const next = () => {
    progress.phase += 1
  }
  await setup.open().catch(() => {})
  await started().catch(() => {})
  next()
  worker.stop()
  announce()
  await worker.emptied()
  next()
  await madeUp
  keeper.stop()
  await worker.lastWords().catch(() => {})
  next()
  await pulse.stop(next).catch(() => {})
}

function warn({ settings, outage }: Hub, held: number): void {
  const { name, leaseMs, logger } = settings
  const seconds = (PATIENCE * LOOK_MS) / 1_000
  const rest = held === 1 ? '1 job that it held is' : 'What it may hold is'
  const left =
    held > 1
      ? `${held} jobs that it held are not given back, and count`
      : `${rest} not given back, and counts`
  const why = outage.reason === undefined ? '' : ` ${outage.reason}`
  logger.warn(
    { held },
    `The store has answered '${name}' nothing for ${seconds} s, which closes without it. ${left} ` +
      `as lost when the lease is over, in at most ${leaseMs} ms.${why}`,
  )
}
