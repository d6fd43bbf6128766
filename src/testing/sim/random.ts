// Owns chance: streams of numbers that one seed fixes, one stream for each purpose.
// May never be shared between purposes: what one of them draws must not disturb another.

/** A stream of numbers (sfc32), fixed by a seed and the name of what it is for. */
export class Random {
  #a: number
  #b: number
  #c: number
  #counter = 1

  constructor(seed: number, name: string) {
    this.#a = hashText(name, seed | 0)
    this.#b = hashText(name, (seed | 0) ^ 0x9e3779b9)
    this.#c = hashText(name, Math.imul(seed | 0, 0x85ebca6b))
    for (let round = 0; round < 12; round += 1) this.next()
  }

  /** A number in [0, 1). */
  next(): number {
    const sum = (this.#a + this.#b + this.#counter) | 0
    this.#counter = (this.#counter + 1) | 0
    this.#a = this.#b ^ (this.#b >>> 9)
    this.#b = (this.#c + (this.#c << 3)) | 0
    this.#c = ((this.#c << 21) | (this.#c >>> 11)) + sum
    return (sum >>> 0) / 2 ** 32
  }

  /** An integer from `min` to `max`, both included. */
  int(min: number, max: number): number {
    return min + Math.floor(this.next() * (max - min + 1))
  }

  chance(probability: number): boolean {
    return this.next() < probability
  }

  pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.next() * list.length)] as T
  }

  /** The list in another order. */
  shuffle<T>(list: readonly T[]): T[] {
    const copy = [...list]
    for (let last = copy.length - 1; last > 0; last -= 1) {
      const other = this.int(0, last)
      const kept = copy[last] as T
      copy[last] = copy[other] as T
      copy[other] = kept
    }
    return copy
  }
}

/** FNV-1a over the text, finished by the mixer of MurmurHash3. */
export function hashText(text: string, seed: number): number {
  let hash = 0x811c9dc5 ^ seed
  for (let index = 0; index < text.length; index += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193)
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}
