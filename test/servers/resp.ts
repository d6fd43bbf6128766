// Owns a plain conversation with a Redis server: one command after the other over one connection.
// May never connect again by itself, nor hide an error that the server answers.

import { connect as connectTo, type Socket } from 'node:net'

/** Bytes are read as UTF-8. An error within a list is an Error in it. */
export type Reply = string | number | null | Error | readonly Reply[]

export interface Conversation {
  /** Rejects with what the server answers as an error, and when the connection ends. */
  call(...args: readonly (string | number | Buffer)[]): Promise<Reply>
  /** Settles when the connection has ended, from whichever side. */
  readonly ended: Promise<void>
  close(): void
}

interface Waiting {
  resolve(reply: Reply): void
  reject(error: Error): void
}

/** Connects to an address such as `redis://:password@127.0.0.1:6400`, and says the password. */
export async function converse(url: string): Promise<Conversation> {
  const { hostname, port, password } = new URL(url)
  const socket = connectTo({ host: hostname, port: Number(port) })
  const waiting: Waiting[] = []
  const ended = hear(socket, waiting)
  await new Promise<void>((resolve, reject) => {
    socket.once('connect', resolve)
    socket.once('error', reject)
  })
  const call: Conversation['call'] = (...args) =>
    new Promise((resolve, reject) => {
      if (socket.destroyed) return reject(new Error('The connection has ended.'))
      waiting.push({ resolve, reject })
      socket.write(toRequest(args))
    })
  if (password !== '') await call('AUTH', decodeURIComponent(password))
  return { call, ended, close: () => socket.destroy() }
}

/** One call over a connection of its own. */
export async function ask(url: string, ...args: readonly (string | number)[]): Promise<Reply> {
  const conversation = await converse(url)
  try {
    return await conversation.call(...args)
  } finally {
    conversation.close()
  }
}

/** One field of what INFO says; undefined if it says nothing of it. */
export async function infoOf(url: string, field: string): Promise<string | undefined> {
  const text = String(await ask(url, 'INFO', 'ALL'))
  return new RegExp(`^${field}:(.*?)\\r?$`, 'm').exec(text)?.[1]
}

function hear(socket: Socket, waiting: Waiting[]): Promise<void> {
  let bytes: Buffer = Buffer.alloc(0)
  socket.setNoDelay(true)
  socket.on('data', (chunk: Buffer) => {
    bytes = Buffer.concat([bytes, chunk])
    for (;;) {
      const read = readReply(bytes, 0)
      if (read === undefined) return
      bytes = bytes.subarray(read.end)
      const next = waiting.shift()
      if (read.reply instanceof Error) next?.reject(read.reply)
      else next?.resolve(read.reply)
    }
  })
  // The end that follows says it to whoever waits.
  socket.on('error', () => {})
  return new Promise((resolve) => {
    socket.on('close', () => {
      for (const { reject } of waiting.splice(0)) reject(new Error('The connection has ended.'))
      resolve()
    })
  })
}

function toRequest(args: readonly (string | number | Buffer)[]): Buffer {
  const parts = args.flatMap((arg) => {
    const value = Buffer.isBuffer(arg) ? arg : Buffer.from(String(arg))
    return [Buffer.from(`$${value.length}\r\n`), value, Buffer.from('\r\n')]
  })
  return Buffer.concat([Buffer.from(`*${args.length}\r\n`), ...parts])
}

interface Read {
  readonly reply: Reply
  readonly end: number
}

/** The reply that begins at `start`; undefined while some of it has not come yet. */
function readReply(bytes: Buffer, start: number): Read | undefined {
  const line = bytes.indexOf('\r\n', start)
  if (line < 0) return undefined
  const kind = String.fromCharCode(bytes[start] ?? 0)
  const text = bytes.toString('utf8', start + 1, line)
  const end = line + 2
  if (kind === '+') return { reply: text, end }
  if (kind === '-') return { reply: new Error(text), end }
  if (kind === ':') return { reply: Number(text), end }
  if (kind === '$') return readText(bytes, Number(text), end)
  if (kind === '*') return readList(bytes, Number(text), end)
  throw new Error(`This is no reply of Redis: ${JSON.stringify(kind + text)}`)
}

function readText(bytes: Buffer, length: number, start: number): Read | undefined {
  if (length < 0) return { reply: null, end: start }
  const end = start + length + 2
  if (bytes.length < end) return undefined
  return { reply: bytes.toString('utf8', start, end - 2), end }
}

function readList(bytes: Buffer, length: number, start: number): Read | undefined {
  if (length < 0) return { reply: null, end: start }
  const replies: Reply[] = []
  let end = start
  while (replies.length < length) {
    const read = readReply(bytes, end)
    if (read === undefined) return undefined
    replies.push(read.reply)
    end = read.end
  }
  return { reply: replies, end }
}
