// Owns the look at the file that `doctor` asks for: what should not be, or waits for nobody.
// May never change anything. It is the one place that scans: nobody asks for it in a hurry.

import { findCycles } from '../../core/cycle.ts'
import { type JobStatus, STATUSES } from '../../core/job.ts'
import { LIMITS } from '../../store/limits.ts'
import type { Inspection } from '../../store/store.ts'
import type { Board } from './board.ts'
import { type Tally, zeros } from './pools.ts'
import { viewOf } from './row.ts'
import type { Session } from './session.ts'

type Link = Readonly<Record<'id' | 'dep', string>>

/** O(jobs + edges). */
export function inspect({ session }: Board): Inspection {
  return {
    ghosts: session.all<Link>('ghosts', LIMITS.page).map(({ id, dep }) => ({ id, dep })),
    cycles: cyclesOf(session),
    orphanedKeys: orphansOf(session),
    expired: session.rows('expired', session.now, LIMITS.page).map(viewOf),
    damage: damageOf(session).slice(0, LIMITS.page),
  }
}

function cyclesOf(session: Session): Inspection['cycles'] {
  const deps = new Map<string, string[]>()
  for (const { id, dep } of session.all<Link>('waitingEdges')) {
    const known = deps.get(id)
    if (known === undefined) deps.set(id, [dep])
    else known.push(dep)
  }
  return findCycles(deps.keys(), (id) => deps.get(id) ?? [], LIMITS.page)
}

/** A window that is over is no fault: it is forgotten when somebody takes the key. */
function orphansOf(session: Session): Inspection['orphanedKeys'] {
  const found = session.all<{ key: string; owner: number; id: string | null }>(
    'orphans',
    LIMITS.page,
  )
  return found.map(({ key, owner, id }) => ({ key, owner: id ?? `number ${owner}` }))
}

/** What SQLite says of the file, rows that contradict themselves, counts that are not theirs. */
function damageOf(session: Session): readonly string[] {
  const check = session.all<{ quick_check?: string; integrity_check?: string }>('check')
  const said = check.map((row) => row.quick_check ?? row.integrity_check ?? '')
  return [
    ...said.filter((line) => line !== 'ok').map((line) => `the file: ${line}`),
    ...faultsOf(session),
    ...miscounts(session),
    ...misweighed(session),
  ]
}

function faultsOf(session: Session): readonly string[] {
  const damage: string[] = []
  const leases = session.all<{ id: string; status: JobStatus }>('wrongLease', LIMITS.page)
  for (const { id, status } of leases) {
    const what = status === 'running' ? 'without a lease' : 'with the lease of a running job'
    damage.push(`${id} is ${status}, ${what}`)
  }
  const places = session.all<{ id: string; found: number }>('wrongPlace', LIMITS.page)
  for (const { id, found } of places) {
    damage.push(`${id} is ${found === 0 ? 'in no state' : 'both live and over'}`)
  }
  for (const { seq } of session.all<{ seq: number }>('strays', LIMITS.page)) {
    damage.push(`number ${seq} has a state, but is no job`)
  }
  for (const { id } of session.all<{ id: string }>('wrongLine', LIMITS.page)) {
    damage.push(`${id} stands in two lines`)
  }
  for (const { id } of session.all<{ id: string }>('wrongWait', LIMITS.page)) {
    damage.push(`${id} is waiting, for nothing`)
  }
  const edges = session.all<{ id: string; status: string; open: number; found: number }>(
    'wrongOpen',
    LIMITS.page,
  )
  for (const { id, status, open, found } of edges) {
    damage.push(`${id} is ${status}, with ${open} open edges, of which ${found} are there`)
  }
  return damage
}

function miscounts(session: Session): readonly string[] {
  const found = new Map<number, Record<JobStatus, number>>()
  const rows = session.all<{ line: number; status: JobStatus; count: number }>('recount')
  for (const { line, status, count } of rows) {
    const counts = found.get(line) ?? zeros()
    counts[status] = count
    found.set(line, counts)
  }
  const damage: string[] = []
  for (const tally of session.all<Tally>('tallies')) {
    const counts = found.get(tally.line) ?? zeros()
    found.delete(tally.line)
    for (const status of STATUSES) {
      if (tally[status] === counts[status]) continue
      const what = `jobs of type ${tally.type} in pool ${tally.pool} are counted as ${status}`
      damage.push(`${tally[status]} ${what}: there are ${counts[status]}`)
    }
  }
  return [...damage, ...[...found.keys()].map((line) => `jobs of line ${line}, which there is not`)]
}

function misweighed(session: Session): readonly string[] {
  type Kind = Record<'priority' | 'weight' | 'count', number>
  let unranked = 0
  for (const { priority, weight, count } of session.all<Kind>('reweigh')) {
    if (weight !== session.weightOf(priority)) unranked += count
  }
  const counted = session.state.unranked
  if (counted === unranked) return []
  return [`${counted} jobs are counted as ranked by an older ageing: there are ${unranked}`]
}
