// Owns the text form of what is kept whole: settings, terms, errors, attempts.
// May never look inside a payload or a result: those are text already.

/** JSON has no infinity. No name can hold a NUL, so that no text is taken for it. */
const INFINITE = '\0infinite'

export function pack(value: unknown): string {
  return JSON.stringify(value, (_, part) => (part === Number.POSITIVE_INFINITY ? INFINITE : part))
}

export function unpack<T>(text: string): T {
  if (!text.includes('\\u0000infinite')) return JSON.parse(text)
  return JSON.parse(text, (_, part) => (part === INFINITE ? Number.POSITIVE_INFINITY : part))
}

/** Texts that come again and again are read once: settings, terms. Bounded; the oldest go. */
export class Texts<T> {
  readonly #known = new Map<string, T>()
  readonly #max: number

  constructor(max = 1_000) {
    this.#max = max
  }

  read(text: string): T {
    const known = this.#known.get(text)
    if (known !== undefined) return known
    const value: T = unpack(text)
    if (this.#known.size >= this.#max) this.#known.clear()
    this.#known.set(text, value)
    return value
  }
}
