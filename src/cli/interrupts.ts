// Owns what people mean by Ctrl-C: stop, stop now, be gone.
// May never end the process before the third time.

import { EXIT } from './exit.ts'

/** One key press may arrive twice, since npm passes on what the terminal has sent already. */
const BURST_MS = 250

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

export interface Interrupts {
  /** Aborted by the first one: start nothing more, let what runs end. */
  readonly drain: AbortSignal
  /** Aborted by the second one: end what runs. */
  readonly abort: AbortSignal
  /** The signals mean again what they meant before. */
  end(): void
}

/** Where signals come from, and what a third one does: in tests, not this process. */
export interface InterruptPowers {
  readonly source: Pick<NodeJS.EventEmitter, 'on' | 'off'>
  readonly now: () => number
  readonly exit: (code: number) => void
}

const REAL: InterruptPowers = {
  source: process,
  now: () => performance.now(),
  exit: (code) => process.exit(code),
}

/** From now on the third signal ends the process, whose exit handlers end what it started. */
export function listenForInterrupts({ source, now, exit }: InterruptPowers = REAL): Interrupts {
  const drain = new AbortController()
  const abort = new AbortController()
  const lastAt = new Map<string, number>()
  const listener = (signal: string): void => {
    const isRepeat = now() - (lastAt.get(signal) ?? Number.NEGATIVE_INFINITY) < BURST_MS
    if (isRepeat) return
    lastAt.set(signal, now())
    if (!drain.signal.aborted) drain.abort()
    else if (!abort.signal.aborted) abort.abort()
    else exit(EXIT.interrupted)
  }
  for (const signal of SIGNALS) source.on(signal, listener)
  return {
    drain: drain.signal,
    abort: abort.signal,
    end() {
      for (const signal of SIGNALS) source.off(signal, listener)
    },
  }
}
