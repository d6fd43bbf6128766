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
  | { readonly [name: string]: Packable | undefined }

const FIRST_BYTES = 16_384

class Writer {
  #buffer = Buffer.allocUnsafe(FIRST_BYTES)
  #at = 0

  taken(): Buffer {
    return Buffer.from(this.#buffer.subarray(0, this.#at))
  }

  write(value: Packable | undefined): void {
    switch (typeof value) {
      case 'string':
        this.#text(value)
        return
      case 'number':
        this.#number(value)
        return
      case 'boolean':
        this.#byte(value ? 0xc3 : 0xc2)
        return
      default:
        if (value === undefined || value === null) this.#byte(0xc0)
        else if (value instanceof Uint8Array) this.#bytes(value)
        else if (Array.isArray(value)) this.#list(value)
        else this.#map(value as { readonly [name: string]: Packable | undefined })
    }
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

  /** Most texts are ASCII: written once, where their length then is right. */
  #text(text: string): void {
    const { length } = text
    this.#grow(3 * length + 5)
    const head = length < 32 ? 1 : length < 0x1_00_00 ? 3 : 5
    const bytes = this.#buffer.write(text, this.#at + head)
    if (bytes === length) {
      this.#length(bytes)
      this.#at += bytes
      return
    }
    this.#length(bytes)
    this.#at += this.#buffer.write(text, this.#at)
  }

  #bytes(bytes: Uint8Array): void {
    this.#grow(bytes.length + 5)
    this.#length(bytes.length)
    this.#buffer.set(bytes, this.#at)
    this.#at += bytes.length
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

  #number(value: number): void {
    this.#grow(9)
    const buffer = this.#buffer
    if (Number.isInteger(value) && value >= 0 && value < 128) {
      buffer[this.#at] = value
      this.#at += 1
    } else if (Number.isInteger(value) && value >= 0 && value < 0x1_0000_0000) {
      buffer[this.#at] = 0xce
      buffer.writeUInt32BE(value, this.#at + 1)
      this.#at += 5
    } else {
      // A double holds every whole number that is safe; the scripts have no other numbers.
      buffer[this.#at] = 0xcb
      buffer.writeDoubleBE(value, this.#at + 1)
      this.#at += 9
    }
  }

  #list(list: readonly Packable[]): void {
    this.#grow(5)
    if (list.length < 16) this.#byte(0x90 | list.length)
    else {
      this.#buffer[this.#at] = 0xdd
      this.#buffer.writeUInt32BE(list.length, this.#at + 1)
      this.#at += 5
    }
    for (const each of list) this.write(each)
  }

  #map(map: { readonly [name: string]: Packable | undefined }): void {
    const entries = Object.entries(map).filter(([, value]) => value !== undefined)
    this.#grow(5)
    if (entries.length < 16) this.#byte(0x80 | entries.length)
    else {
      this.#buffer[this.#at] = 0xdf
      this.#buffer.writeUInt32BE(entries.length, this.#at + 1)
      this.#at += 5
    }
    for (const [name, value] of entries) {
      this.#text(name)
      this.write(value)
    }
  }
}

export function pack(value: Packable): Buffer {
  const writer = new Writer()
  writer.write(value)
  return writer.taken()
}

/** Reads what a script has packed, value by value; whoever reads knows what comes. */
export class Reader {
  readonly #buffer: Buffer
  #at = 0

  constructor(bytes: Buffer) {
    this.#buffer = bytes
  }

  get isDone(): boolean {
    return this.#at >= this.#buffer.length
  }

  /** What has not been read yet. */
  rest(): Buffer {
    return this.#buffer.subarray(this.#at)
  }

  /** How many values the list has that begins here; an empty map is a list to a script. */
  list(): number {
    const tag = this.#next()
    if ((tag & 0xf0) === 0x90) return tag & 0x0f
    if (tag === 0xdc) return this.#uint(2)
    if (tag === 0xdd) return this.#uint(4)
    throw this.#unexpected(tag)
  }

  number(): number {
    const tag = this.#next()
    if (tag < 0x80) return tag
    if (tag >= 0xe0) return tag - 0x100
    const { [tag]: read } = NUMBERS
    if (read === undefined) throw this.#unexpected(tag)
    const [length, of] = read
    const value = of(this.#buffer, this.#at)
    this.#at += length
    return value
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

  bytes(): Buffer {
    const length = this.#textLength()
    this.#at += length
    return this.#buffer.subarray(this.#at - length, this.#at)
  }

  text(): string {
    const length = this.#textLength()
    this.#at += length
    return this.#buffer.toString('utf8', this.#at - length, this.#at)
  }

  textOr<T>(none: T): string | T {
    return this.skipFalse() ? none : this.text()
  }

  /** Whether a false stands here, which then has been read. */
  skipFalse(): boolean {
    if (this.#buffer[this.#at] !== 0xc2) return false
    this.#at += 1
    return true
  }

  /** Anything: numbers, texts, flags, lists, and maps as plain objects without a prototype. */
  value(): unknown {
    const tag = this.#buffer[this.#at] as number
    if (tag === 0xc0) {
      this.#at += 1
      return null
    }
    if (tag === 0xc2 || tag === 0xc3) return this.flag()
    if ((tag & 0xe0) === 0xa0 || (tag >= 0xd9 && tag <= 0xdb)) return this.text()
    if ((tag & 0xf0) === 0x90 || tag === 0xdc || tag === 0xdd) {
      return Array.from({ length: this.list() }, () => this.value())
    }
    if ((tag & 0xf0) === 0x80 || tag === 0xde || tag === 0xdf) return this.mapWith({})
    return this.number()
  }

  /** A map, some of whose values are read in a way of their own. */
  mapWith(ways: { readonly [name: string]: (reader: Reader) => unknown }): object {
    const tag = this.#next()
    const size = tag === 0xde ? this.#uint(2) : tag === 0xdf ? this.#uint(4) : tag & 0x0f
    const map: Record<string, unknown> = Object.create(null)
    for (let left = size; left > 0; left -= 1) {
      const name = this.value() as string
      const way = ways[name]
      map[name] = way === undefined ? this.value() : way(this)
    }
    return map
  }

  #textLength(): number {
    const tag = this.#next()
    if ((tag & 0xe0) === 0xa0) return tag & 0x1f
    if (tag === 0xd9) return this.#uint(1)
    if (tag === 0xda) return this.#uint(2)
    if (tag === 0xdb) return this.#uint(4)
    throw this.#unexpected(tag)
  }

  #next(): number {
    const tag = this.#buffer[this.#at]
    if (tag === undefined) throw new Error('the answer of the server ends too early')
    this.#at += 1
    return tag
  }

  #uint(length: number): number {
    const value = this.#buffer.readUIntBE(this.#at, length)
    this.#at += length
    return value
  }

  #unexpected(tag: number): Error {
    return new Error(`the answer of the server has ${tag} at ${this.#at - 1}, which is unexpected`)
  }
}

type ReadNumber = readonly [length: number, of: (buffer: Buffer, at: number) => number]

const NUMBERS: Readonly<Record<number, ReadNumber>> = {
  202: [4, (buffer, at) => buffer.readFloatBE(at)],
  203: [8, (buffer, at) => buffer.readDoubleBE(at)],
  204: [1, (buffer, at) => buffer.readUInt8(at)],
  205: [2, (buffer, at) => buffer.readUInt16BE(at)],
  206: [4, (buffer, at) => buffer.readUInt32BE(at)],
  207: [8, (buffer, at) => buffer.readUInt32BE(at) * 2 ** 32 + buffer.readUInt32BE(at + 4)],
  208: [1, (buffer, at) => buffer.readInt8(at)],
  209: [2, (buffer, at) => buffer.readInt16BE(at)],
  210: [4, (buffer, at) => buffer.readInt32BE(at)],
  211: [8, (buffer, at) => buffer.readInt32BE(at) * 2 ** 32 + buffer.readUInt32BE(at + 4)],
}

export function unpack(bytes: Buffer): unknown {
  return new Reader(bytes).value()
}
