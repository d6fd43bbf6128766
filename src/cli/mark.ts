// Owns the marks by which a change is seen of what is not kept itself. May never be turned back.

import { createHash } from 'node:crypto'

/** Equal for what is the same. Of a function its text: all that can be seen of it. */
export function marked(value: unknown): string {
  const text = typeof value === 'function' ? String(value) : JSON.stringify(value)
  return createHash('sha256').update(text).digest('base64url').slice(0, 22)
}
