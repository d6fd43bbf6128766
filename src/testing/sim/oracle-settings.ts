// Owns the checks on what is set: it moves no job, it is kept as it was said, and schedules move
// on from instant to instant. May never set anything.

import type { Schedule } from '../../core/settings.ts'
import type { Change, InsertAnswer, InsertGroup } from '../../store/store.ts'
import { typeAfter } from '../model-types.ts'
import { successor } from './books.ts'
import { Instants } from './instants.ts'
import { type Commit, expect, type Watch } from './oracle.ts'

/** 25: what is set moves no job by itself. */
export function judgeConfigure(watch: Watch, commit: Commit): void {
  const changes = commit.call.args as readonly Change[]
  for (const change of changes) takeOver(watch, change, commit.now)
  const quiet = commit.events.length === 0
  expect(watch, 25, quiet, () => `configuring ${JSON.stringify(changes)} moved jobs`)
}

function takeOver(watch: Watch, change: Change, now: number): void {
  const { view, coverage } = watch
  if ('pool' in change) {
    const pool = view.pool(change.pool)
    const { rate } = pool
    pool.configure(change.by, change.terms, now)
    const values = Object.values(change.terms)
    if (values.some((value) => value === null)) coverage.deed('a setting is taken back')
    if (rate !== null && pool.rate !== null && pool.rate !== rate) {
      coverage.deed('a rate is carried on')
    }
  } else if ('type' in change) {
    view.types.set(change.type, typeAfter(view.types.get(change.type), change.setting))
  } else if ('ageing' in change) view.ageing = change.ageing
  else if ('budget' in change) view.budget = successor(view.budget, change.budget, now)
  else setSchedule(watch, change.schedule, change.row)
}

function setSchedule({ view }: Watch, name: string, row: Schedule | null): void {
  const before = view.schedules.get(name)
  const keys = ['cron', 'timeZone'] as const
  const same = before !== undefined && keys.every((key) => before[key] === row?.[key])
  if (row === null) view.schedules.delete(name)
  else view.schedules.set(name, same ? { ...row, nextAt: before.nextAt } : row)
}

/** 25, 39: what the store says is set is what was said. */
export async function checkSettings(watch: Watch): Promise<void> {
  const { raw, view } = watch
  const { pools, types, ageing, budget, schedules } = await raw.settings()
  const same = (invariant: 25 | 27 | 39, what: string, given: unknown, own: unknown) => {
    const [one, other] = [JSON.stringify(given), JSON.stringify(own)]
    expect(watch, invariant, one === other, () => `${what}: ${one} is set, not ${other}`)
  }
  for (const [name, pool] of view.pools) {
    const said = pools[name] ?? { start: {}, operator: {} }
    same(25, `pool ${name}`, sorted(said.start), sorted(pool.start))
    same(25, `pool ${name}`, sorted(said.operator), sorted(pool.operator))
  }
  same(25, 'types', sorted(types), sorted(Object.fromEntries(view.types)))
  same(27, 'ageing', ageing, view.ageing)
  same(25, 'budget', budget, view.budget?.terms ?? null)
  const rows = [...view.schedules.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
  same(39, 'schedules', schedules.map(sorted), rows.map(sorted))
}

function sorted(record: object): object {
  const entries = Object.entries(record).sort(([one], [other]) => (one < other ? -1 : 1))
  return Object.fromEntries(entries)
}

/** 39: an instant that has come gets its job, once, and the schedule goes on to the next. */
export function judgeTick(
  watch: Watch,
  commit: Commit,
  group: InsertGroup,
  given: InsertAnswer,
): void {
  const { tick, jobs } = group
  if (tick === undefined || given.status !== 'done') return
  const { view, coverage } = watch
  const row = view.schedules.get(tick.of.name)
  if (row === undefined) return
  view.schedules.set(row.name, { ...row, nextAt: tick.nextAt })
  coverage.deed(jobs.length === 0 ? 'tick without a job' : 'tick')
  const ids = jobs.map(({ id }) => id)
  const say: Say = (holds, text) => {
    const where = `${row.name} (${row.cron}, ${row.timeZone}, ${row.missed}) at ${iso(tick.at)}`
    expect(watch, 39, holds, () => `${where}: ${text}; ${ids}, next ${iso(tick.nextAt)}`, ids)
  }
  say(tick.at <= commit.now, 'its time has not come')
  say(jobs.length <= 1, 'more than one job')
  const [id] = ids
  if (id === undefined) judgeMissed(watch, row, tick, commit.now, say)
  else judgeInstant(watch, row, tick, commit.now, id, say)
  if (id === undefined || given.jobs[0]?.added !== true) return
  say(!view.ticked.has(id), 'its second job')
  view.ticked.add(id)
}

type Say = (holds: boolean, text: string) => void
type Tick = InsertGroup['tick'] & object

/** An instant goes without a job if it was missed, or if another job has its name. */
function judgeMissed({ view }: Watch, row: Schedule, tick: Tick, now: number, say: Say): void {
  const last = new Instants(row.cron, row.timeZone).before(tick.nextAt)
  const isMissed = row.missed === 'skip' && now - last > 60_000
  const isTaken = view.ever.has(`${row.name}@${iso(last)}`)
  say(isMissed || isTaken, 'no job for an instant that was not missed')
}

function judgeInstant(
  { coverage }: Watch,
  row: Schedule,
  tick: Tick,
  now: number,
  id: string,
  say: Say,
): void {
  const instants = new Instants(row.cron, row.timeZone)
  const instant = Date.parse(id.slice(row.name.length + 1))
  say(id === `${row.name}@${iso(instant)}`, 'its job has another name')
  say(instants.isOne(instant), `${iso(instant)} is no instant`)
  const fits = row.missed === 'all' ? instant === tick.at : instant >= tick.at
  say(fits && instant <= now, 'a job for another instant')
  const next = instants.after(instant)
  say(tick.nextAt === next, `it should go on to ${iso(next)}`)
  const isLate = instant > tick.at || now - tick.at > 60_000
  if (isLate) coverage.deed('missed instants made up for')
  if (instants.isSkipped(instant)) coverage.deed('an instant skipped by a clock')
}

/** 39: at rest, no instant has passed without its job, but for want of room. */
export function checkLate(watch: Watch): void {
  const { view, world } = watch
  for (const row of view.schedules.values()) {
    const { pool = 'default' } = JSON.parse(row.template) as { pool?: string }
    const isBound = [...view.pools.values()].some(({ maxQueue }) => Number.isFinite(maxQueue))
    const late = world.time - row.nextAt
    const text = () =>
      `${row.name} (${pool}): its instant came ${late} ms ago, and nothing happened`
    expect(watch, 39, late < 4_000 || isBound, text)
  }
}

function iso(instant: number): string {
  return instant > 8_000_000_000_000_000 ? 'never' : new Date(instant).toISOString()
}
