// Owns the kills: processes on a file of their own, one of which is killed, and after each kill
// the account of the file. Half of the kills are at random moments, half at named points.

import { copyFileSync, existsSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import type { Store } from '../../../src/store/store.ts'
import { sqliteStore } from '../../../src/stores/sqlite/index.ts'
import { numbersFrom } from '../../../src/testing/history-commands.ts'
import type { Child, Children } from '../processes.ts'
import { illsOf, letGo } from '../reading.ts'
import { Account } from './account.ts'
import { POINTS } from './faults.ts'
import { Ledger, readLedger } from './ledger.ts'
import { workerOn } from './work.ts'

/** Kills on one file. */
const PER_FILE = 10

/** A point that nobody comes to in so long is not there. */
const POINT_MS = 20_000

/** What the next process may take to go on; a lease would take 60 s. */
const BOUND_MS = 20_000

/** Later than any delay of a job that was lost again and again, and before any is forgotten. */
const LATER_MS = 1_800_000

const RANDOM = 'at a random moment'
const EARLY = 'as it starts'

export interface Campaign {
  readonly kills: number
  readonly seed: number
  /** Programs that run the children, in turn. */
  readonly nodes: readonly string[]
  /** Files that are worked on at the same time. */
  readonly abreast: number
}

export interface Toll {
  /** Kills by point. */
  readonly kills: ReadonlyMap<string, number>
  readonly files: number
  readonly jobs: number
  /** Starts of bodies, and those that a kill has made necessary again. */
  readonly bodies: number
  readonly libraries: ReadonlySet<string>
  /** From the start of the next process until nothing is held by the dead, milliseconds. */
  readonly recoveries: readonly number[]
}

interface Books {
  readonly kills: Map<string, number>
  readonly recoveries: number[]
  readonly libraries: Set<string>
  files: number
  jobs: number
  bodies: number
  points: number
}

export async function runCampaign(processes: Children, campaign: Campaign): Promise<Toll> {
  const books: Books = {
    kills: new Map(POINTS.map((point) => [point, 0])),
    recoveries: [],
    libraries: new Set(),
    files: 0,
    jobs: 0,
    bodies: 0,
    points: 0,
  }
  let left = campaign.kills
  const work = async () => {
    while (left > 0) {
      const kills = Math.min(PER_FILE, left)
      left -= kills
      books.files += 1
      await new Site(processes, campaign, books, books.files).run(kills)
    }
  }
  await Promise.all(Array.from({ length: campaign.abreast }, work))
  return books
}

/** A child, and what it is called: the holder of its leases begins so. */
interface Named {
  readonly name: string
  readonly child: Child
  readonly startedAt: number
}

/** One file, and the crew that works on it. */
class Site {
  readonly #processes: Children
  readonly #books: Books
  readonly #seed: number
  readonly #random: () => number
  readonly #file: string
  readonly #ledger: string
  readonly #node: string
  readonly #crewSize: number
  readonly #crew: Named[] = []
  /** Names of those that were killed and may still hold something. */
  #dead: string[] = []
  #names = 0

  constructor(processes: Children, { seed, nodes }: Campaign, books: Books, number: number) {
    this.#processes = processes
    this.#books = books
    this.#seed = seed * 1_000 + number
    this.#random = numbersFrom(this.#seed)
    this.#file = join(processes.data, `${seed}-${number}.db`)
    this.#ledger = join(processes.data, `${seed}-${number}.txt`)
    this.#node = nodes[number % nodes.length] ?? process.execPath
    this.#crewSize = 1 + (Math.floor(number / nodes.length) % 3)
  }

  async run(kills: number): Promise<void> {
    for (let kill = 0; kill < kills; kill += 1) {
      while (this.#crew.length < this.#crewSize) this.#start()
      await this.#killOne(kill)
      const next = this.#start()
      await this.#isUp(next)
      await this.#using(async (store) => {
        await this.#recover(store, next)
        await this.#check(store, 'after a kill')
      })
    }
    await this.#finish()
  }

  #start(): Named {
    this.#names += 1
    const name = `p${this.#names}`
    const child = this.#processes.start(this.#processes.path('child'), {
      args: [this.#file, this.#ledger, name],
      node: this.#node,
    })
    const named = { name, child, startedAt: performance.now() }
    this.#crew.push(named)
    return named
  }

  async #isUp({ child }: Named): Promise<void> {
    this.#books.libraries.add(await child.said('up'))
  }

  /** Every other kill is at a point, each in its turn; one random kill in ten as it starts. */
  async #killOne(kill: number): Promise<void> {
    const at = Math.floor(this.#random() * this.#crew.length)
    const [victim] = this.#crew.splice(at, 1) as [Named]
    if (this.#crew.length === 0) await letGo()
    const { child, name, startedAt } = victim
    this.#dead.push(name)
    if (kill % 2 === 1) {
      await this.#isUp(victim)
      await this.#atPoint(victim)
      return
    }
    const isEarly = this.#random() < 0.1
    if (isEarly) await sleep(startedAt + this.#random() * 200 - performance.now())
    else {
      await this.#isUp(victim)
      child.tell('hurry')
      await sleep(this.#random() * 100)
    }
    child.process.kill('SIGKILL')
    await this.#ended(victim)
    this.#count(isEarly ? EARLY : RANDOM)
  }

  async #atPoint(victim: Named): Promise<void> {
    const point = POINTS[this.#books.points % POINTS.length] as string
    this.#books.points += 1
    const countdown = 1 + Math.floor(this.#random() * 6)
    victim.child.tell(`arm\t${countdown}\t${point}`)
    const code = await within(POINT_MS, victim.child.ended)
    if (code === undefined) this.#fail(`nobody came to the point: ${point}`, [])
    const last = readLedger(this.#ledger)
      .filter(([kind]) => kind === 'death')
      .at(-1)
    if (code !== null || last?.[1] !== point) {
      this.#fail(`a process ended by itself, ${point}:`, [victim.child.output()])
    }
    this.#count(point)
  }

  async #ended({ child }: Named): Promise<void> {
    const code = await child.ended
    if (code !== null) this.#fail('a process ended before it was killed:', [child.output()])
  }

  #count(point: string): void {
    this.#books.kills.set(point, (this.#books.kills.get(point) ?? 0) + 1)
  }

  /** The next process goes on at once: nothing is held by the dead, long before a lease is over. */
  async #recover(store: Store, next: Named): Promise<void> {
    const isFree = async () => {
      const { held } = await store.count()
      const holders = new Set(held.map(({ lease }) => lease?.holder.split(':')[0]))
      return !this.#dead.some((name) => holders.has(name))
    }
    while (!(await isFree())) {
      const ms = performance.now() - next.startedAt
      if (ms > BOUND_MS) this.#fail(`after ${ms} ms the dead still hold jobs`, this.#dead)
      await sleep(10)
    }
    this.#books.recoveries.push(performance.now() - next.startedAt)
    this.#dead = []
  }

  async #check(store: Store, when: string): Promise<Account> {
    const account = new Account(store, this.#ledger)
    const faults = [...(await account.faults()), ...(await illsOf(store, this.#file))]
    if (faults.length > 0) this.#fail(when, faults)
    return account
  }

  /** Who is left stops in good order; then everything that is in the file is run to its end. */
  async #finish(): Promise<void> {
    for (const { child } of this.#crew) child.process.kill('SIGTERM')
    for (const { child } of this.#crew) {
      if ((await child.ended) !== 0) this.#fail('a process did not stop well:', [child.output()])
    }
    const ledger = new Ledger(this.#ledger)
    const store = sqliteStore(this.#file, { now: () => Date.now() + LATER_MS })
    const scheduler = workerOn(store, 'last', ledger)
    await scheduler.start()
    await scheduler.idle()
    await scheduler.close()
    await store.close()
    ledger.close()
    await this.#using(async (last) => {
      const { unfinished } = await this.#check(last, 'in the end')
      if (unfinished.length > 0) this.#fail('some never came to an end', unfinished)
      await this.#sum(last)
    })
  }

  async #sum(store: Store): Promise<void> {
    const { types } = await store.count()
    const entries = readLedger(this.#ledger)
    for (const each of Object.values(types)) this.#books.jobs += each.success
    this.#books.bodies += entries.filter(([kind]) => kind === 'start').length
  }

  /** Opened and closed again, so that the next process may be the first that opens the file. */
  async #using(act: (store: Store) => Promise<void>): Promise<void> {
    const store = sqliteStore(this.#file)
    await store.open()
    try {
      await act(store)
    } finally {
      await store.close()
    }
  }

  /** What there is by now is kept, for whoever wants to see why. */
  #fail(what: string, faults: readonly string[]): never {
    const place = mkdtempSync(join(tmpdir(), 'ax-crash-kept-'))
    for (const path of [this.#file, `${this.#file}-wal`, this.#ledger]) {
      if (existsSync(path)) copyFileSync(path, join(place, basename(path)))
    }
    const some = faults.slice(0, 20).join('\n')
    throw new Error(`Seed ${this.#seed}, kept in ${place}: ${what}\n${some}`)
  }
}

/** Undefined if it takes longer. */
function within<T>(ms: number, promise: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<undefined>((done) => {
    timer = setTimeout(() => done(undefined), ms)
  })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}

const sleep = (ms: number) => new Promise((done) => setTimeout(done, Math.max(0, ms)))

/** The toll as a table for people. */
export function tableOf({ kills, files, jobs, bodies, libraries, recoveries }: Toll): string {
  const rows = [...kills].map(([point, count]) => `${String(count).padStart(6)}  ${point}`)
  const sum = [...kills.values()].reduce((all, count) => all + count, 0)
  const sorted = [...recoveries].sort((a, b) => a - b)
  const at = (share: number) => Math.round(sorted[Math.floor(sorted.length * share)] ?? 0)
  const longest = Math.round(sorted.at(-1) ?? 0)
  return [
    ...rows,
    `${String(sum).padStart(6)}  kills, on ${files} files, ${[...libraries].sort().join(', ')}`,
    `${jobs} jobs succeeded in ${bodies} runs of a body. The next process had freed the jobs of ` +
      `the dead ${at(0.5)} ms after its start (median; 95 %: ${at(0.95)}, longest: ${longest}).`,
  ].join('\n')
}
