// Owns the look at the store that `doctor` asks for: parts and pages, put together here.
// May never stop the server for long: each question is bounded, so others write meanwhile.

import { findCycles } from '../../core/cycle.ts'
import { STATUSES, type StoredJob } from '../../core/job.ts'
import { type Ageing, weightOf } from '../../core/rank.ts'
import { LIMITS } from '../../store/limits.ts'
import type { Inspection } from '../../store/store.ts'
import type { Line } from './connection.ts'

/** One page of a part; `at` changes whenever somebody has written to a job meanwhile. */
export interface Page {
  readonly found: unknown
  readonly next: string | false
  readonly at: string
}

type Part = 'missing' | 'waiting' | 'keys' | 'jobs' | 'schedules' | 'counts'

/** How the parts are asked for. */
export interface Looking {
  page(part: Part, cursor: string): Promise<Page>
  expired(): Promise<readonly StoredJob[]>
  ageing(): Promise<Ageing | null>
  /** Undefined for a line that there is not. */
  lineOf(line: number): Line | undefined
}

type Waiting = readonly [id: string, open: readonly (readonly [dep: string, isGhost: boolean])[]]
type Orphan = readonly [key: string, owner: string | false, number: number]
type Counts = Readonly<Record<string, number>>
type Jobs = readonly [faults: readonly string[], counts: Counts, weights: Counts]

/** As often as somebody writes during the count, it begins anew; then nothing is said of it. */
const TRIES = 3

export async function inspect(looking: Looking): Promise<Inspection> {
  const { found: missing } = await looking.page('missing', '0')
  const damage = missing as readonly string[]
  if (damage.length > 0) return { ghosts: [], cycles: [], orphanedKeys: [], expired: [], damage }
  const waiting = await all<Waiting>(looking, 'waiting')
  const orphans = await all<Orphan>(looking, 'keys')
  return {
    ghosts: ghostsOf(waiting).slice(0, LIMITS.page),
    cycles: cyclesOf(waiting),
    orphanedKeys: orphans.slice(0, LIMITS.page).map(([key, owner, number]) => {
      return { key, owner: owner === false ? `number ${number}` : owner }
    }),
    expired: await looking.expired(),
    damage: (await damageOf(looking)).slice(0, LIMITS.page),
  }
}

async function all<T>(looking: Looking, part: 'waiting' | 'keys'): Promise<T[]> {
  const found: T[] = []
  for (let cursor: string | false = '0'; cursor !== false; ) {
    const page = await looking.page(part, cursor)
    found.push(...(page.found as T[]))
    cursor = page.next
  }
  return found
}

function ghostsOf(waiting: readonly Waiting[]): { id: string; dep: string }[] {
  return waiting.flatMap(([id, open]) =>
    open.flatMap(([dep, isGhost]) => (isGhost ? { id, dep } : [])),
  )
}

function cyclesOf(waiting: readonly Waiting[]): Inspection['cycles'] {
  const deps = new Map(waiting.map(([id, open]) => [id, open.map(([dep]) => dep)]))
  return findCycles(deps.keys(), (id) => deps.get(id) ?? [], LIMITS.page)
}

async function damageOf(looking: Looking): Promise<readonly string[]> {
  for (let left = TRIES; left > 0; left -= 1) {
    const counted = await looking.page('counts', '0')
    const faults: string[] = []
    const counts = new Map<string, number>()
    const weights = new Map<string, number>()
    let isStill = true
    for (let cursor: string | false = '0'; cursor !== false && isStill; ) {
      const page = await looking.page('jobs', cursor)
      const [more, byState, byWeight] = page.found as Jobs
      faults.push(...more)
      add(counts, byState)
      add(weights, byWeight)
      cursor = page.next
      isStill = page.at === counted.at
    }
    if (!isStill) continue
    const { found: schedules } = await looking.page('schedules', '0')
    const [tally, weigh] = counted.found as readonly (readonly string[])[]
    return [
      ...faults,
      ...(schedules as readonly string[]),
      ...miscounts(pairsOf(tally), counts, looking),
      ...misweighed(pairsOf(weigh), weights, await looking.ageing()),
    ]
  }
  return []
}

function add(sums: Map<string, number>, more: Counts): void {
  for (const [name, count] of Object.entries(more)) sums.set(name, (sums.get(name) ?? 0) + count)
}

function pairsOf(flat: readonly string[] = []): ReadonlyMap<string, number> {
  const pairs = new Map<string, number>()
  for (let at = 0; at < flat.length; at += 2) pairs.set(flat[at] as string, Number(flat[at + 1]))
  return pairs
}

function miscounts(
  kept: ReadonlyMap<string, number>,
  found: ReadonlyMap<string, number>,
  looking: Looking,
): string[] {
  return differing(kept, found).map((name) => {
    const [line, number] = name.split(':').map(Number) as [number, number]
    const named = looking.lineOf(line)
    const of = named === undefined ? `line ${line}` : `type ${named.type} in pool ${named.pool}`
    const what = `jobs of ${of} are counted as ${STATUSES[number - 1]}`
    return `${kept.get(name) ?? 0} ${what}: there are ${found.get(name) ?? 0}`
  })
}

function misweighed(
  kept: ReadonlyMap<string, number>,
  found: ReadonlyMap<string, number>,
  ageing: Ageing | null,
): string[] {
  return differing(kept, found).map((name) => {
    const [priority, weight] = name.split(' ').map(Number) as [number, number]
    const is = weight === weightOf(priority, ageing) ? 'the ageing that is set' : 'an older ageing'
    const what = `jobs of priority ${priority} are counted as ranked by ${is}`
    return `${kept.get(name) ?? 0} ${what}: there are ${found.get(name) ?? 0}`
  })
}

function differing(a: ReadonlyMap<string, number>, b: ReadonlyMap<string, number>): string[] {
  const names = new Set([...a.keys(), ...b.keys()])
  return [...names].filter((name) => (a.get(name) ?? 0) !== (b.get(name) ?? 0))
}
