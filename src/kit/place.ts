// Owns where a call came from: the first place on the stack that is not this package's own.
// May never throw, or read a stack that nobody asks for.

/** Reads a captured stack: `file:line:column` of the caller, undefined where nobody can tell. */
export type Place = () => string | undefined

/** Frames looked through: of this package there are up to six above its caller. */
const FRAMES = 12

/** Where the files of this package lie; null where a bundler has moved them. */
const OWN = /^(?:file:\/\/)?(.*\/)kit\/place\.[jt]s$/.exec(import.meta.url)?.[1] ?? null

/**
 * Notes who called, to be read when there is a reason. Measured on Node 20, ten frames deep:
 * capturing costs 8 us and keeps 1,000 bytes, as much as two jobs that are submitted, so it is for
 * the few; turning frames into text costs another 17 us, and is left to the reader.
 */
export function capturePlace(): Place {
  const held: { stack?: unknown } = {}
  try {
    const { stackTraceLimit } = Error
    Error.stackTraceLimit = FRAMES
    Error.captureStackTrace(held, capturePlace)
    Error.stackTraceLimit = stackTraceLimit
  } catch {
    // Error may be frozen; then nobody can tell.
  }
  return () => placeIn(held.stack)
}

/** The first frame of a stack, as text, that belongs to neither this package nor Node. */
export function placeIn(stack: unknown, own: string | null = OWN): string | undefined {
  if (typeof stack !== 'string' || own === null) return undefined
  for (const line of stack.split('\n').slice(1)) {
    const at = line.slice(line.lastIndexOf('(') + 1).replace(/^\s*at (?:async )?|\)$/g, '')
    if (!/:\d+:\d+$/.test(at) || at.startsWith('node:')) continue
    const place = at.replace(/^file:\/\//, '')
    if (!place.startsWith(own)) return place
  }
  return undefined
}
