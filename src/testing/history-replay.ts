// Owns the replay of histories on a store and the model side by side, and the search for the
// shortest one that still shows a difference. May never know what a store should answer.

import { isDeepStrictEqual } from 'node:util'
import type { Store } from '../store/store.ts'
import { historyFrom } from './history.ts'
import { type Command, newJob, type PlannedGroup, START } from './history-commands.ts'
import { dumpOf, follow, manualClock, sideOf, tryTo } from './history-side.ts'
import { type ModelDump, modelStore } from './model.ts'

/** Opens an empty store on a clock that the suite moves. */
export type OpenStore = (clock: { now(): number }) => Promise<Store>

export interface ReplayOptions {
  readonly seed: number
  readonly commands: number
  /** True: quorum, ghosts, lanes, keys and retention are on whatever the seed says. */
  readonly mixed: boolean
  /** False: the first difference will do, in the history as it was drawn. Default true. */
  readonly shrink?: boolean
}

/** The point at which a store and the model part ways, in the shortest history found. */
export interface Difference {
  readonly seed: number
  readonly number: number
  readonly command: Command
  readonly where: string
  readonly expected: unknown
  readonly actual: unknown
  /** What the model knows at that point, also beyond the port. */
  readonly model: ModelDump
  readonly shortest: readonly Command[]
}

/** Everything is compared after so many commands, and at the end. */
const DUMP_EVERY = 25

/** Replays allowed for making a failing history shorter. */
const SHRINK_RUNS = 1_000

/** Replays one seed on a store and on the model. Null if they answer alike throughout. */
export async function replay(open: OpenStore, options: ReplayOptions): Promise<Difference | null> {
  const next = historyFrom(options.seed, options.mixed)
  const commands: Command[] = []
  const found = await compare(open, (index, peek) => {
    if (index >= options.commands) return undefined
    const command = next(peek)
    commands.push(command)
    return command
  })
  if (found === null) return null
  if (options.shrink === false) return { ...found, seed: options.seed, shortest: commands }
  const shortest = await shrink(open, commands)
  const rerun = (every: number) => compare(open, (index) => shortest[index], every)
  const again = (await rerun(1)) ?? (await rerun(Infinity))
  return { ...(again ?? found), seed: options.seed, shortest }
}

type Found = Omit<Difference, 'seed' | 'shortest'>
type Peek = ReturnType<ReturnType<typeof modelStore>['peek']>

async function compare(
  open: OpenStore,
  next: (index: number, peek: Peek) => Command | undefined,
  dumpEvery = DUMP_EVERY,
): Promise<Found | null> {
  const clock = manualClock(START)
  const model = modelStore({ now: clock.now })
  const store = await open(clock)
  const sides = [sideOf(model), sideOf(store)] as const
  try {
    await store.open()
    let last: Command | undefined
    for (let number = 0; ; number += 1) {
      const command = next(number, model.peek())
      const isDump = command === undefined || (number + 1) % dumpEvery === 0
      if (command !== undefined) {
        last = command
        if (command.do === 'clock') clock.advance(command.ms)
        const expected = await follow(sides[0], command, clock)
        const actual = await tryTo(sides[1], command, clock)
        const difference = differenceOf(expected, actual)
        if (difference !== null) return { number, command, ...difference, model: model.dump() }
      }
      if (isDump && last !== undefined) {
        const difference = differenceOf(await dumpOf(sides[0]), await dumpOf(sides[1]))
        if (difference !== null)
          return { number, command: last, ...difference, model: model.dump() }
      }
      if (command === undefined) return null
    }
  } finally {
    await store.close()
  }
}

/** Drops commands, then jobs and moves of those left, as long as some difference is left. */
async function shrink(open: OpenStore, commands: readonly Command[]): Promise<readonly Command[]> {
  let runs = 0
  const differs = async (list: readonly Command[]) => {
    runs += 1
    if (runs > SHRINK_RUNS) return false
    return (await compare(open, (index) => list[index], Infinity)) !== null
  }
  if (!(await differs(commands))) return commands
  let list = commands
  for (let before = list.length + 1; list.length < before; ) {
    before = list.length
    list = await fewest(list, differs)
  }
  for (const [at, command] of list.entries()) {
    const change = (changed: Command) => list.map((each, index) => (index === at ? changed : each))
    const smaller = await smallest(command, (changed) => differs(change(changed)))
    list = change(smaller)
  }
  return list
}

/** The same command with as few moves, groups and jobs as still do. */
async function smallest(
  command: Command,
  stillDoes: (command: Command) => Promise<boolean>,
): Promise<Command> {
  if (command.do === 'apply') {
    const moves = await fewest(command.moves, (fewer) => stillDoes({ ...command, moves: fewer }))
    return { ...command, moves }
  }
  if (command.do !== 'insert') return command
  let groups = await fewest(command.groups, (fewer) => stillDoes({ ...command, groups: fewer }))
  for (const [at, { fence, ...group }] of groups.entries()) {
    const change = (changed: PlannedGroup) => groups.with(at, changed)
    const stillFails = (changed: PlannedGroup) => stillDoes({ ...command, groups: change(changed) })
    const isFenced = fence !== undefined && !(await stillFails(group))
    const rest = isFenced ? { ...group, fence } : group
    const jobs = await fewest(group.jobs, (fewer) => stillFails({ ...rest, jobs: fewer }))
    groups = change({ ...rest, jobs })
  }
  return { ...command, groups }
}

/** Leaves out pieces of a list, ever smaller ones, where what is left still does. */
async function fewest<T>(
  all: readonly T[],
  stillDoes: (list: readonly T[]) => Promise<boolean>,
): Promise<readonly T[]> {
  let list = all
  for (let size = Math.ceil(list.length / 2); size >= 1; size = Math.floor(size / 2)) {
    for (let at = 0; at < list.length; ) {
      const shorter = [...list.slice(0, at), ...list.slice(at + size)]
      if (await stillDoes(shorter)) list = shorter
      else at += size
    }
  }
  return list
}

/** The first place at which two answers differ, with what stands there. */
export function differenceOf(
  expected: unknown,
  actual: unknown,
  path = 'answer',
): Pick<Difference, 'where' | 'expected' | 'actual'> | null {
  if (isDeepStrictEqual(expected, actual)) return null
  const bothObjects = [expected, actual].every((each) => typeof each === 'object' && each !== null)
  if (!bothObjects || Array.isArray(expected) !== Array.isArray(actual)) {
    return { where: path, expected, actual }
  }
  const left = expected as Readonly<Record<string, unknown>>
  const right = actual as Readonly<Record<string, unknown>>
  for (const key of new Set([...Object.keys(left), ...Object.keys(right)])) {
    const found = differenceOf(left[key], right[key], `${path}.${key}`)
    if (found !== null) return found
  }
  return { where: path, expected, actual }
}

/** A difference as a person wants to read it. */
export function describeDifference(difference: Difference): string {
  const { seed, number, command, where, expected, actual, model, shortest } = difference
  const { lanes, keys, ghosts, outcomes } = model
  return [
    `Seed ${seed}: the store does not answer as the model does. The shortest history found:`,
    ...shortest.map((each, index) => `${index + 1}. ${show(each)}`),
    `After command ${number + 1}, ${command.do}, at ${where}:`,
    `expected: ${show(expected)}`,
    `actual:   ${show(actual)}`,
    `The model at this point: ${show({ lanes, keys, ghosts, outcomes })}`,
  ].join('\n')
}

const LONGEST = 6_000

/** Without what every plain job has: a reader looks for what is special. */
function show(value: unknown): string {
  const usual: Readonly<Record<string, unknown>> = { ...newJob('') }
  const text = JSON.stringify(value, (key, part) => {
    if (key === 'terms') return undefined
    return key in usual && isDeepStrictEqual(part, usual[key]) ? undefined : part
  })
  return (text ?? 'nothing').slice(0, LONGEST)
}
