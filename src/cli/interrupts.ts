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

/** From now on the third signal ends the process, whose exit handlers end what it started. */
export function listenForInterrupts(): Interrupts {
  const drain = new AbortController()
  const abort = new AbortController()
  const lastAt = new Map<string, number>()
  const listener = (signal: NodeJS.Signals): void => {
    const now = performance.now()
    if (now - (lastAt.get(signal) ?? Number.NEGATIVE_INFINITY) < BURST_MS) return
    lastAt.set(signal, now)
    if (!drain.signal.aborted) drain.abort()
    else if (!abort.signal.aborted) abort.abort()
    else process.exit(EXIT.interrupted)
  }
  for (const signal of SIGNALS) process.on(signal, listener)
  return {
    drain: drain.signal,
    abort: abort.signal,
    end() {
      for (const signal of SIGNALS) process.off(signal, listener)
    },
  }
}
