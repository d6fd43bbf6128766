// Owns the packed form of what goes to the server and comes back: MessagePack, as Redis' own
// scripts read and write it. May never lose a bit: whole numbers are exact up to 2^53.

/** What can be packed. Undefined is left out of objects; in lists it has no place. */
export type Packable =
  | string
  | number
  | boolean
  | null
  | Uint8Array
  | readonly Packable[]
  | Part
  | { readonly [name: string]: Packable | undefined }

/** Writes itself, one value: what is long need not be made into a list first. */
export type Part = (writer: Writer) => void

const FIRST_BYTES = 16_384
/** Beyond that, a buffer is not kept for the next call. */
const MOST_KEPT = 1_048_576

/** Up to so many characters, a text is written here: a call of the platform takes longer. */
const SHORT = 31

export class Writer {
  #buffer = Buffer.allocUnsafe(FIRST_BYTES)
  #at = 0

  get isLarge(): boolean {
    return this.#buffer.length > MOST_KEPT
  }

  /** What was written; and it begins anew. */
  taken(): Buffer {
    const taken = Buffer.allocUnsafe(this.#at)
    this.#buffer.copy(taken, 0, 0, this.#at)
    this.#at = 0
    return taken
  }

  reset(): void {
    this.#at = 0
  }

  write(value: Packable | undefined): void {
    switch (typeof value) {
      case 'string':
        this.text(value)
        return
      case 'number':
        this.number(value)
        return
      case 'boolean':
        this.flag(value)
        return
      case 'function':
        value(this)
        return
      default:
        if (value === undefined || value === null) this.#byte(0xc0)
        else if (value instanceof Uint8Array) this.bytes(value)
        else if (Array.isArray(value)) {
          this.list(value.length)
          for (const each of value) this.write(each)
        } else this.#map(value as { readonly [name: string]: Packable | undefined })
    }
  }

  flag(flag: boolean): void {
    this.#byte(flag ? 0xc3 : 0xc2)
  }

  /** Most texts are ASCII: written once, where their length then is right. */
  text(text: string): void {
    const { length } = text
    this.#grow(3 * length + 5)
    if (length <= SHORT && this.#ascii(text)) return
    const head = headOf(length)
    const bytes = this.#buffer.write(text, this.#at + head)
    this.#length(bytes)
    if (headOf(bytes) === head) this.#at += bytes
    else this.#at += this.#buffer.write(text, this.#at)
  }

  bytes(bytes: Uint8Array): void {
    this.#grow(bytes.length + 5)
    this.#length(bytes.length)
    this.#buffer.set(bytes, this.#at)
    this.#at += bytes.length
  }

  number(value: number): void {
    this.#grow(9)
    const buffer = this.#buffer
    const at = this.#at
    if (value >>> 0 === value) {
      if (value < 128) {
        buffer[at] = value
        this.#at = at + 1
        return
      }
      buffer[at] = 0xce
      buffer[at + 1] = value >>> 24
      buffer[at + 2] = value >>> 16
      buffer[at + 3] = value >>> 8
      buffer[at + 4] = value
      this.#at = at + 5
      return
    }
    // A double holds every whole number that is safe; the scripts have no other numbers.
    buffer[at] = 0xcb
    buffer.writeDoubleBE(value, at + 1)
    this.#at = at + 9
  }

  /** A list of so many values, which have to follow. */
  list(length: number): void {
    this.#many(length, 0x90, 0xdd)
  }

  #grow(more: number): void {
    if (this.#at + more <= this.#buffer.length) return
    const bigger = Buffer.allocUnsafe(Math.max(2 * this.#buffer.length, this.#at + more))
    this.#buffer.copy(bigger, 0, 0, this.#at)
    this.#buffer = bigger
  }

  #byte(byte: number): void {
    this.#grow(1)
    this.#buffer[this.#at] = byte
    this.#at += 1
  }

  /** Whether that was a text of ASCII, which then has been written. */
  #ascii(text: string): boolean {
    const buffer = this.#buffer
    const { length } = text
    const from = this.#at + 1
    for (let place = 0; place < length; place += 1) {
      const unit = text.charCodeAt(place)
      if (unit > 127) return false
      buffer[from + place] = unit
    }
    buffer[from - 1] = 0xa0 | length
    this.#at = from + length
    return true
  }

  /** Of a text: Redis' scripts know one kind of text, of bytes. */
  #length(length: number): void {
    const buffer = this.#buffer
    if (length < 32) {
      buffer[this.#at] = 0xa0 | length
      this.#at += 1
    } else if (length < 0x1_00_00) {
      buffer[this.#at] = 0xda
      buffer.writeUInt16BE(length, this.#at + 1)
      this.#at += 3
    } else {
      buffer[this.#at] = 0xdb
      buffer.writeUInt32BE(length, this.#at + 1)
      this.#at += 5
    }
  }

  #many(length: number, few: number, many: number): void {
    this.#grow(5)
    if (length < 16) this.#byte(few | length)
    else {
      this.#buffer[this.#at] = many
      this.#buffer.writeUInt32BE(length, this.#at + 1)
      this.#at += 5
    }
  }

  #map(map: { readonly [name: string]: Packable | undefined }): void {
    const entries = Object.entries(map).filter(([, value]) => value !== undefined)
    this.#many(entries.length, 0x80, 0xdf)
    for (const [name, value] of entries) {
      this.text(name)
      this.write(value)
    }
  }
}

/** How long the head of a text is. */
function headOf(length: number): number {
  return length < 32 ? 1 : length < 0x1_00_00 ? 3 : 5
}

/** One that nobody writes with: a part may pack something of its own meanwhile. */
let spare: Writer | undefined

export function pack(value: Packable): Buffer {
  const writer = spare ?? new Writer()
  spare = undefined
  writer.reset()
  writer.write(value)
  const taken = writer.taken()
  if (!writer.isLarge) spare = writer
  return taken
}

/** Reads what a script has packed, value by value; whoever reads knows what comes. */
export class Reader {
  readonly buffer: Buffer
  /** Where the next value begins, and where all ends. */
  at: number
  readonly end: number

  constructor(bytes: Buffer, at = 0, end = bytes.length) {
    this.buffer = bytes
    this.at = at
    this.end = end
  }

  /** How many values the list has that begins here; an empty map is a list to a script. */
  list(): number {
    const tag = this.#next()
    if ((tag & 0xf0) === 0x90) return tag & 0x0f
    if (tag === 0xdc) return this.#uint(2)
    if (tag === 0xdd) return this.#uint(4)
    throw this.#unexpected(tag)
  }

  /** How many pairs the map has that begins here. */
  map(): number {
    const tag = this.#next()
    if ((tag & 0xf0) === 0x80) return tag & 0x0f
    if (tag === 0xde) return this.#uint(2)
    if (tag === 0xdf) return this.#uint(4)
    throw this.#unexpected(tag)
  }

  number(): number {
    const tag = this.#next()
    if (tag < 0x80) return tag
    if (tag >= 0xe0) return tag - 0x100
    switch (tag) {
      case 0xcc:
        return this.#uint(1)
      case 0xcd:
        return this.#uint(2)
      case 0xce:
        return this.#uint(4)
      case 0xcf:
        return this.#uint(4) * 2 ** 32 + this.#uint(4)
      case 0xd0:
        return (this.#uint(1) << 24) >> 24
      case 0xd1:
        return (this.#uint(2) << 16) >> 16
      case 0xd2:
        return this.#uint(4) | 0
      case 0xd3:
        return (this.#uint(4) | 0) * 2 ** 32 + this.#uint(4)
      case 0xca:
        this.at += 4
        return this.buffer.readFloatBE(this.at - 4)
      case 0xcb:
        this.at += 8
        return this.buffer.readDoubleBE(this.at - 8)
      default:
        throw this.#unexpected(tag)
    }
  }

  /** False, where there is none. */
  numberOr<T>(none: T): number | T {
    return this.skipFalse() ? none : this.number()
  }

  flag(): boolean {
    const tag = this.#next()
    if (tag === 0xc2 || tag === 0xc3) return tag === 0xc3
    throw this.#unexpected(tag)
  }

  /** The length of the text that begins here. What it says is next: nobody has read it yet. */
  length(): number {
    const tag = this.#next()
    if ((tag & 0xe0) === 0xa0) return tag & 0x1f
    if (tag === 0xd9) return this.#uint(1)
    if (tag === 0xda) return this.#uint(2)
    if (tag === 0xdb) return this.#uint(4)
    throw this.#unexpected(tag)
  }

  bytes(): Buffer {
    const length = this.length()
    this.at += length
    return this.buffer.subarray(this.at - length, this.at)
  }

  text(): string {
    const length = this.length()
    this.at += length
    return this.buffer.toString('utf8', this.at - length, this.at)
  }

  textOr<T>(none: T): string | T {
    return this.skipFalse() ? none : this.text()
  }

  /** The number of a job: a text of six bytes, the highest first. */
  key(): number {
    if (this.length() !== 6) throw new Error('the answer of the server has no job where one stands')
    return this.six()
  }

  /** Whether the number of a job stands here. */
  isAtKey(): boolean {
    return this.buffer[this.at] === 0xa6
  }

  // What texts are made of that scripts keep

  /** So many bytes as a number, the highest first. */
  one(): number {
    return this.#uint(1)
  }

  two(): number {
    return this.#uint(2)
  }

  six(): number {
    return this.#uint(2) * 2 ** 32 + this.#uint(4)
  }

  /** The bytes from here to `end`, as a text. */
  textTo(end: number): string {
    const { at } = this
    this.at = end
    return this.buffer.toString('utf8', at, end)
  }

  /** Whether the same bytes stand from here to `end` as elsewhere. */
  isAgain(end: number, from: number, to: number): boolean {
    const { buffer, at } = this
    if (to === from || end - at !== to - from || end > this.end) return false
    for (let place = from, here = at; place < to; place += 1, here += 1) {
      if (buffer[place] !== buffer[here]) return false
    }
    return true
  }

  /** Whether that text stands from here to `end`. Some that do are not seen: what is not ASCII. */
  isText(text: string, end: number): boolean {
    const { buffer, at } = this
    if (end - at !== text.length) return false
    for (let place = 0; place < text.length; place += 1) {
      const unit = text.charCodeAt(place)
      if (unit > 127 || buffer[at + place] !== unit) return false
    }
    return true
  }

  /** Whether a false stands here, which then has been read. */
  skipFalse(): boolean {
    if (this.buffer[this.at] !== 0xc2) return false
    this.at += 1
    return true
  }

  /** A list of texts. */
  texts(): string[] {
    const texts: string[] = []
    for (let left = this.list(); left > 0; left -= 1) texts.push(this.text())
    return texts
  }

  /** Anything: numbers, texts, flags, lists, and maps as plain objects without a prototype. */
  value(): unknown {
    const tag = this.buffer[this.at] as number
    if (tag === 0xc0) {
      this.at += 1
      return null
    }
    if (tag === 0xc2 || tag === 0xc3) return this.flag()
    if ((tag & 0xe0) === 0xa0 || (tag >= 0xd9 && tag <= 0xdb)) return this.text()
    if ((tag & 0xf0) === 0x90 || tag === 0xdc || tag === 0xdd) {
      const list: unknown[] = []
      for (let left = this.list(); left > 0; left -= 1) list.push(this.value())
      return list
    }
    if ((tag & 0xf0) !== 0x80 && tag !== 0xde && tag !== 0xdf) return this.number()
    const map: Record<string, unknown> = Object.create(null)
    for (let left = this.map(); left > 0; left -= 1) map[this.value() as string] = this.value()
    return map
  }

  #next(): number {
    if (this.at >= this.end) throw new Error('the answer of the server ends too early')
    this.at += 1
    return this.buffer[this.at - 1] as number
  }

  #uint(length: 1 | 2 | 4): number {
    if (this.at + length > this.end) throw new Error('the answer of the server ends too early')
    let value = 0
    for (let left = length; left > 0; left -= 1) {
      value = value * 256 + (this.buffer[this.at] as number)
      this.at += 1
    }
    return value
  }

  #unexpected(tag: number): Error {
    return new Error(`the answer of the server has ${tag} at ${this.at - 1}, which is unexpected`)
  }
}

export function unpack(bytes: Buffer): unknown {
  return new Reader(bytes).value()
}
