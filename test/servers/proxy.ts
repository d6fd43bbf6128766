// Owns a network that fails when a test says so: a TCP proxy before a server.
// May never fail by itself, nor outlive the tests.

import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { afterAll } from 'vitest'

export interface Proxy {
  /** The address of the server, with the port of the proxy. */
  readonly url: string
  readonly port: number
  /** How many connections of clients are open. */
  readonly connections: number
  /** How many bytes have vanished so far, of both ways. */
  readonly lost: number
  /**
   * From now on the server gets what clients send and acts on it, but no answer arrives: at the
   * first byte of one, its client is cut off.
   */
  dropAnswers(): void
  /** From now on bytes vanish both ways. Connections stay open, and new ones are accepted. */
  blackHole(): void
  /** Of the connections that are open now, bytes vanish both ways for ever. New ones are served. */
  freeze(): void
  /** Ends all connections. Whoever connects again is served as before. */
  cut(): void
  /** From now on all is well. Connections that have lost something end: a gap is no protocol. */
  heal(): void
  close(): Promise<void>
}

type Fault = 'none' | 'drop answers' | 'black hole'

interface Link {
  readonly client: Socket
  readonly server: Socket
  isFrozen: boolean
  hasLost: boolean
}

/** What the connections of a proxy have in common. */
interface Network {
  readonly to: { readonly host: string; readonly port: number }
  readonly links: Set<Link>
  fault: Fault
  lost: number
}

const open = new Set<Proxy>()

afterAll(async () => {
  await Promise.all([...open].map((proxy) => proxy.close()))
})

/** `target` is an address such as `redis://127.0.0.1:6400`; the proxy listens on loopback. */
export async function startProxy(target: string): Promise<Proxy> {
  const to = new URL(target)
  const links = new Set<Link>()
  const network: Network = {
    to: { host: to.hostname, port: Number(to.port) },
    links,
    fault: 'none',
    lost: 0,
  }
  const server = createServer((client) => link(network, client))
  const port = await listen(server)
  const address = new URL(target)
  address.port = String(port)
  const proxy: Proxy = {
    url: address.href.replace(/\/$/, ''),
    port,
    get connections() {
      return links.size
    },
    get lost() {
      return network.lost
    },
    dropAnswers() {
      network.fault = 'drop answers'
    },
    blackHole() {
      network.fault = 'black hole'
    },
    freeze() {
      for (const each of links) each.isFrozen = true
    },
    cut() {
      for (const each of [...links]) end(links, each)
    },
    heal() {
      network.fault = 'none'
      for (const each of [...links]) if (each.hasLost) end(links, each)
    },
    async close() {
      open.delete(proxy)
      if (!server.listening) return
      const closed = new Promise((resolve) => server.close(resolve))
      proxy.cut()
      await closed
    },
  }
  open.add(proxy)
  return proxy
}

function listen(server: Server): Promise<number> {
  return new Promise((resolve, reject) => {
    server.on('error', reject)
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port))
  })
}

function link(network: Network, client: Socket): void {
  const { links, to } = network
  const server = connect(to)
  const made: Link = { client, server, isFrozen: false, hasLost: false }
  links.add(made)
  const lose = (bytes: Buffer) => {
    made.hasLost = true
    network.lost += bytes.length
  }
  const isHole = () => made.isFrozen || network.fault === 'black hole'
  client.on('data', (bytes: Buffer) => {
    if (isHole()) lose(bytes)
    else server.write(bytes)
  })
  server.on('data', (bytes: Buffer) => {
    if (isHole()) lose(bytes)
    else if (network.fault === 'none') client.write(bytes)
    else end(links, made)
  })
  for (const socket of [client, server]) {
    socket.setNoDelay(true)
    socket.on('error', () => {})
    socket.on('close', () => end(links, made))
  }
}

/** The server still reads all that was sent to it before it hears of the end. */
function end(links: Set<Link>, made: Link): void {
  links.delete(made)
  made.client.destroy()
  if (made.hasLost || made.server.connecting) made.server.destroy()
  else made.server.end()
}
