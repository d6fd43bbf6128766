// Owns calling functions that only watch: hooks, loggers.
// May never let one of them change what it watches, or let its failure reach anybody.

/** Calls `hook(value)`. What it throws, or what its promise rejects with, is dropped. */
export function tell<V>(hook: ((value: V) => unknown) | undefined, value: V): void {
  if (hook === undefined) return
  try {
    const answer = hook(value)
    if (typeof answer !== 'object' || answer === null || !('then' in answer)) return
    Promise.resolve(answer).catch(() => {})
  } catch {
    // Whoever watches has no say.
  }
}
