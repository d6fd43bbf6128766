// Owns the faults: a crew of processes on one server, each behind a network of its own, and what is
// done to them, drawn from a seed; afterwards the account of the prefix.
// May never let a fault go on: each is over before the next, so that what is judged has to end.

import { mkdtempSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { hasEnded } from '../../../src/core/job.ts'
import { redisStore } from '../../../src/stores/redis/index.ts'
import { numbersFrom } from '../../../src/testing/history-commands.ts'
import { startCluster } from '../../servers/cluster.ts'
import { type Proxy as Network, startProxy } from '../../servers/proxy.ts'
import { type RedisServer, startRedis, until } from '../../servers/redis.ts'
import { ask } from '../../servers/resp.ts'
import { Account } from '../crash/account.ts'
import { Ledger, readLedger } from '../crash/ledger.ts'
import { workerOn } from '../crash/work.ts'
import type { Child, Children } from '../processes.ts'
import { allEvents, findingsOf } from '../reading.ts'
import { overlapsIn } from './overlaps.ts'
import { LEASE_MS, PREFIX, RETRIES } from './terms.ts'

/** What is done, and how often among all of it. */
const FAULTS = {
  'kill a process': 4,
  'stop a process past its lease': 3,
  'kill all connections': 3,
  'kill the server': 3,
  'stop the server past all leases': 1,
  'forget all functions and scripts': 1,
  'drop answers': 4,
  'cut a network': 2,
  'black hole': 2,
} as const

export type Fault = keyof typeof FAULTS

export const KINDS = Object.keys(FAULTS) as readonly Fault[]

const CREW = 3

/** Faults between two looks at the account. */
const LOOK = 8

/** Later than any delay of a job that was lost again and again, and before any is forgotten. */
const LATER_MS = 1_800_000

export interface Toll {
  readonly faults: ReadonlyMap<Fault, number>
  readonly jobs: number
  /** Starts of bodies. */
  readonly bodies: number
  /** Starts that were lost, and bodies that went on after that and ended. */
  readonly lost: number
  readonly late: number
}

interface Member {
  readonly child: Child
  readonly proxy: Network
}

export interface Chaos {
  readonly faults: number
  readonly seed: number
  /** Whether the server is the one node of a cluster, and the processes have clients of that. */
  readonly isCluster: boolean
}

const DURABLE = { appendonly: true, appendfsync: 'always' } as const

export async function runChaos(
  processes: Children,
  { faults, seed, isCluster }: Chaos,
): Promise<Toll> {
  const server = isCluster ? await oneOfCluster() : await startRedis(DURABLE)
  const node = isCluster ? `127.0.0.1:${server.port}` : ''
  const site = new Site(processes, server, node, seed)
  try {
    return await site.run(faults)
  } finally {
    await server.kill()
  }
}

/** A node that has met no other does not know its address. */
async function oneOfCluster(): Promise<RedisServer> {
  const args = ['--cluster-announce-ip', '127.0.0.1']
  const { nodes } = await startCluster(1, { ...DURABLE, args })
  return nodes[0] as RedisServer
}

class Site {
  readonly #processes: Children
  readonly #server: RedisServer
  /** How the server is called in its cluster; empty if it is in none. */
  readonly #node: string
  readonly #seed: number
  readonly #random: () => number
  readonly #ledger: string
  readonly #crew: Member[] = []
  readonly #counts = new Map<Fault, number>(KINDS.map((kind) => [kind, 0]))
  #names = 0

  constructor(processes: Children, server: RedisServer, node: string, seed: number) {
    this.#processes = processes
    this.#server = server
    this.#node = node
    this.#seed = seed
    this.#random = numbersFrom(seed)
    this.#ledger = join(mkdtempSync(join(processes.data, 'chaos-')), 'ledger.txt')
  }

  async run(faults: number): Promise<Toll> {
    for (let number = 0; number < CREW; number += 1) await this.#start()
    for (let number = 1; number <= faults; number += 1) {
      await sleep(50 + this.#random() * 250)
      const fault = this.#draw(number)
      await this.#strike(fault)
      this.#counts.set(fault, (this.#counts.get(fault) ?? 0) + 1)
      for (const { child } of this.#crew) this.#isAlive(child)
      if (number % LOOK === 0) await this.#check('amid the faults')
    }
    await this.#finish()
    return this.#sum()
  }

  /** Each kind once, in order; then at random, by weight. */
  #draw(number: number): Fault {
    const first = KINDS[number - 1]
    if (first !== undefined) return first
    const bag = KINDS.flatMap((kind) => Array.from({ length: FAULTS[kind] }, () => kind))
    return bag[Math.floor(this.#random() * bag.length)] as Fault
  }

  async #start(): Promise<void> {
    this.#names += 1
    const proxy = await startProxy(this.#server.url)
    const child = this.#processes.start(this.#processes.path('child'), {
      args: [proxy.url, this.#ledger, `p${this.#names}`, this.#node],
    })
    this.#crew.push({ child, proxy })
    await child.said('up')
  }

  #isAlive(child: Child): void {
    const { exitCode, signalCode } = child.process
    if (exitCode === null && signalCode === null) return
    this.#fail('a process ended by itself:', [child.output()])
  }

  async #strike(fault: Fault): Promise<void> {
    const at = Math.floor(this.#random() * this.#crew.length)
    const { child, proxy } = this.#crew[at] as Member
    const chance = this.#random()
    if (fault === 'kill a process') {
      this.#crew.splice(at, 1)
      child.process.kill('SIGKILL')
      await child.ended
      await proxy.close()
      await this.#start()
    } else if (fault === 'stop a process past its lease') {
      child.process.kill('SIGSTOP')
      await sleep(LEASE_MS * (1.2 + chance / 2))
      child.process.kill('SIGCONT')
    } else if (fault === 'kill all connections') {
      for (const type of ['pubsub', 'normal']) {
        await ask(this.#server.url, 'CLIENT', 'KILL', 'TYPE', type).catch(() => {})
      }
    } else if (fault === 'kill the server') {
      // Half of the time it is about to write its log anew.
      if (chance < 0.5) await ask(this.#server.url, 'BGREWRITEAOF').catch(() => {})
      await this.#server.kill()
      await sleep(chance * 500)
      await this.#server.restart()
      await this.#isServing()
    } else if (fault === 'stop the server past all leases') {
      await this.#server.pause()
      await sleep(LEASE_MS * (1.1 + chance / 2))
      this.#server.resume()
    } else if (fault === 'forget all functions and scripts') {
      for (const kind of ['FUNCTION', 'SCRIPT']) await ask(this.#server.url, kind, 'FLUSH')
    } else if (fault === 'cut a network') proxy.cut()
    else {
      if (fault === 'drop answers') proxy.dropAnswers()
      else proxy.blackHole()
      await sleep(fault === 'drop answers' ? chance * 400 : LEASE_MS * (0.5 + chance))
      proxy.heal()
    }
  }

  /** A node of a cluster that comes back refuses everybody for two seconds. */
  async #isServing(): Promise<void> {
    if (this.#node === '') return
    await until('the cluster is whole again', async () => {
      return String(await ask(this.#server.url, 'CLUSTER', 'INFO')).includes('cluster_state:ok')
    })
  }

  /** Who is left stops in good order; then everything that is stored is run to its end. */
  async #finish(): Promise<void> {
    for (const { child } of this.#crew) child.process.kill('SIGTERM')
    for (const { child, proxy } of this.#crew) {
      if ((await child.ended) !== 0) this.#fail('a process did not stop well:', [child.output()])
      await proxy.close()
    }
    const ledger = new Ledger(this.#ledger)
    const store = redisStore(this.#server.url, {
      prefix: PREFIX,
      now: () => Date.now() + LATER_MS,
    })
    const scheduler = workerOn(store, 'last', ledger, { leaseMs: LEASE_MS, retries: RETRIES })
    await scheduler.start()
    await scheduler.idle()
    await scheduler.close()
    await store.close()
    ledger.close()
  }

  async #check(when: string): Promise<void> {
    const store = redisStore(this.#server.url, { prefix: PREFIX })
    const faults = await new Account(store, this.#ledger).faults()
    await store.close()
    if (faults.length > 0) this.#fail(when, faults)
  }

  async #sum(): Promise<Toll> {
    const store = redisStore(this.#server.url, { prefix: PREFIX })
    const account = new Account(store, this.#ledger)
    const faults = [...(await account.faults()), ...(await findingsOf(store))]
    const events = await allEvents(store)
    const entries = readLedger(this.#ledger)
    const { faults: overlaps, late } = overlapsIn(entries, events)
    const { types } = await store.count()
    await store.close()
    const left = account.unfinished.map((id) => `${id} never came to an end`)
    const all = [...faults, ...overlaps, ...left]
    if (all.length > 0) this.#fail('in the end', all)
    return {
      faults: this.#counts,
      jobs: Object.values(types).reduce((sum, each) => sum + each.success, 0),
      bodies: entries.filter(([kind]) => kind === 'start').length,
      lost: events.filter(({ event, to }) => event === 'job:lost' && !hasEnded(to)).length,
      late,
    }
  }

  #fail(when: string, faults: readonly string[]): never {
    const struck = [...this.#counts].map(([kind, count]) => `${count} times: ${kind}`).join(', ')
    const some = faults.slice(0, 20).join('\n  ')
    throw new Error(`seed ${this.#seed} (${struck}), ${when}:\n  ${some}`)
  }
}
