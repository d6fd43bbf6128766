// Owns values that are no options, for tests of what every function refuses.

class Made {
  readonly field = 1
}

/** Given in place of an options object. */
export const WRONG: readonly unknown[] = [
  null,
  5,
  'x',
  true,
  [],
  [1],
  () => 1,
  new AbortController().signal,
  new Map([['signal', 1]]),
  new Date(0),
  new Made(),
  Object.create(new Made()),
]

/** Whether a message shows the value that it is about. */
export function showsValue(message: string, value: unknown): boolean {
  if (typeof value === 'function') return message.includes('a function')
  if (value instanceof Made) return message.includes('an instance of Made')
  const kind = Object.prototype.toString.call(value)
  return [`got ${JSON.stringify(value)}`, `got ${String(value)}`, `got ${kind}`].some((text) =>
    message.includes(text),
  )
}
