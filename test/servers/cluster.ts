// Owns a Redis cluster for tests: masters with all slots between them, and slots that move.
// May never let a test begin before every node sees the whole cluster.

import { type RedisOptions, type RedisServer, startRedis, until } from './redis.ts'
import { ask, type Reply } from './resp.ts'

export interface Cluster {
  readonly nodes: readonly RedisServer[]
  readonly urls: readonly string[]
  /** The slot of a key. */
  slotOf(key: string): Promise<number>
  /** Who has a slot now. */
  ownerOf(slot: number): Promise<RedisServer>
  /**
   * Moves a slot with its keys. `amid` runs when the keys have moved, or with `leave` all but so
   * many of them, and the slot still is the giver's: keys that are gone are asked for elsewhere.
   */
  moveSlot(slot: number, from: RedisServer, to: RedisServer, amid?: Amid): Promise<void>
}

export interface Amid {
  readonly run: () => Promise<void>
  /** How many keys stay behind until it has run. Default 0. */
  readonly leave?: number
}

const SLOTS = 16_384

/** Words of a call are bounded, and a range can be named only from Redis 7 on. */
const SLOTS_PER_CALL = 2_000

const KEYS_PER_CALL = 100
const MIGRATE_MS = 10_000

/** Nodes that are slow, on a machine that does much else, are not dead. */
const SETTINGS = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '15000']

/** So many masters, each with an equal share of the slots in order; without replicas. */
export async function startCluster(count: number, options: RedisOptions = {}): Promise<Cluster> {
  const args = [...SETTINGS, ...(options.args ?? [])]
  const starts = Array.from({ length: count }, () => startRedis({ ...options, args }))
  const nodes = await Promise.all(starts)
  for (const [at, node] of nodes.entries()) {
    await ask(node.url, 'CLUSTER', 'SET-CONFIG-EPOCH', at + 1)
    await assign(node, Math.ceil((SLOTS * at) / count), Math.ceil((SLOTS * (at + 1)) / count))
  }
  for (const node of nodes) {
    for (const other of nodes) {
      if (other !== node) await ask(node.url, 'CLUSTER', 'MEET', '127.0.0.1', other.port)
    }
  }
  await until('the cluster is whole', async () => {
    const views = await Promise.all(nodes.map((node) => isWhole(node, count)))
    return views.every((whole) => whole)
  })
  return clusterOf(nodes)
}

async function assign(node: RedisServer, from: number, to: number): Promise<void> {
  for (let at = from; at < to; at += SLOTS_PER_CALL) {
    const length = Math.min(SLOTS_PER_CALL, to - at)
    const slots = Array.from({ length }, (_, more) => at + more)
    await ask(node.url, 'CLUSTER', 'ADDSLOTS', ...slots)
  }
}

/** Whether it knows all nodes, all slots, and that they work. */
async function isWhole({ url }: RedisServer, count: number): Promise<boolean> {
  const info = String(await ask(url, 'CLUSTER', 'INFO'))
  const wanted = [
    'cluster_state:ok',
    `cluster_slots_ok:${SLOTS}`,
    `cluster_known_nodes:${count}`,
    `cluster_size:${count}`,
  ]
  if (!wanted.every((line) => info.includes(`${line}\r\n`))) return false
  return !/handshake|fail|noaddr/.test(String(await ask(url, 'CLUSTER', 'NODES')))
}

function clusterOf(nodes: readonly RedisServer[]): Cluster {
  const [first] = nodes as [RedisServer]
  return {
    nodes,
    urls: nodes.map(({ url }) => url),
    slotOf: async (key) => Number(await ask(first.url, 'CLUSTER', 'KEYSLOT', key)),
    async ownerOf(slot) {
      const port = await portOfSlot(first, slot)
      const owner = nodes.find((node) => node.port === port)
      if (owner === undefined) throw new Error(`Nobody has slot ${slot}.`)
      return owner
    },
    async moveSlot(slot, from, to, amid) {
      const [giver, taker] = await Promise.all([idOf(from), idOf(to)])
      await ask(to.url, 'CLUSTER', 'SETSLOT', slot, 'IMPORTING', giver)
      await ask(from.url, 'CLUSTER', 'SETSLOT', slot, 'MIGRATING', taker)
      await moveKeys(slot, from, to, amid?.leave ?? 0)
      await amid?.run()
      await moveKeys(slot, from, to, 0)
      // The taker first: nobody may be told to ask one who does not know of it.
      for (const node of new Set([to, from, ...nodes])) {
        await ask(node.url, 'CLUSTER', 'SETSLOT', slot, 'NODE', taker)
      }
    },
  }
}

async function idOf({ url }: RedisServer): Promise<string> {
  return String(await ask(url, 'CLUSTER', 'MYID'))
}

async function portOfSlot({ url }: RedisServer, slot: number): Promise<number | undefined> {
  const ranges = (await ask(url, 'CLUSTER', 'SLOTS')) as readonly (readonly Reply[])[]
  const range = ranges.find(([from, to]) => Number(from) <= slot && slot <= Number(to))
  return range === undefined ? undefined : Number((range[2] as readonly Reply[])[1])
}

async function moveKeys(
  slot: number,
  from: RedisServer,
  to: RedisServer,
  leave: number,
): Promise<void> {
  for (;;) {
    const there = Number(await ask(from.url, 'CLUSTER', 'COUNTKEYSINSLOT', slot))
    const count = Math.min(KEYS_PER_CALL, there - leave)
    if (count <= 0) return
    const keys = (await ask(from.url, 'CLUSTER', 'GETKEYSINSLOT', slot, count)) as string[]
    const where = ['127.0.0.1', to.port, '', 0, MIGRATE_MS]
    const { password } = new URL(to.url)
    const login = password === '' ? [] : ['AUTH', decodeURIComponent(password)]
    await ask(from.url, 'MIGRATE', ...where, ...login, 'KEYS', ...keys)
  }
}
