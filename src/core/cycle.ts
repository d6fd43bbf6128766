// Owns the search for a loop among dependencies.
// May never recurse: a chain of a million jobs must not end the stack.

import type { NewJob } from './job.ts'

/**
 * The first loop reachable from `starts` by following dependencies, as ids in the order in which
 * they would have to run, first and last alike (`B C D B`); null if there is none.
 * Depth-first with three colours and a stack of its own. O(jobs + edges) reached.
 */
export function findCycle(
  starts: Iterable<string>,
  depsOf: (id: string) => readonly string[],
): readonly string[] | null {
  const done = new Set<string>()
  for (const start of starts) {
    const loop = done.has(start) ? null : walk(start, depsOf, done)
    if (loop !== null) return loop
  }
  return null
}

/**
 * At most so many loops, one after the other: whoever has been shown in one is left out of the
 * search for the next. O(loops * (jobs + edges)).
 */
export function findCycles(
  starts: Iterable<string>,
  depsOf: (id: string) => readonly string[],
  most: number,
): readonly (readonly string[])[] {
  const shown = new Set<string>()
  const isLeft = (id: string) => !shown.has(id)
  const within = (id: string) => (shown.has(id) ? [] : depsOf(id).filter(isLeft))
  const cycles: (readonly string[])[] = []
  for (let left = [...starts]; cycles.length < most; left = left.filter(isLeft)) {
    const loop = findCycle(left, within)
    if (loop === null) break
    for (const id of loop) shown.add(id)
    cycles.push(loop)
  }
  return cycles
}

interface Frame {
  readonly id: string
  readonly deps: readonly string[]
  next: number
}

function walk(
  start: string,
  depsOf: (id: string) => readonly string[],
  done: Set<string>,
): readonly string[] | null {
  const path: Frame[] = [{ id: start, deps: depsOf(start), next: 0 }]
  const onPath = new Set([start])
  for (let frame = path.at(-1); frame !== undefined; frame = path.at(-1)) {
    const dep = frame.deps[frame.next]
    frame.next += 1
    if (dep === undefined) {
      path.pop()
      onPath.delete(frame.id)
      done.add(frame.id)
    } else if (onPath.has(dep)) {
      const ids = path.map((each) => each.id)
      return [...ids.slice(ids.indexOf(dep)), dep].reverse()
    } else if (!done.has(dep)) {
      path.push({ id: dep, deps: depsOf(dep), next: 0 })
      onPath.add(dep)
    }
  }
  return null
}

/** Who names whom within a group. */
export function namersOf(
  jobs: readonly Pick<NewJob, 'id' | 'deps'>[],
): ReadonlyMap<string, readonly string[]> {
  const namers = new Map<string, string[]>()
  for (const job of jobs) {
    for (const dep of job.deps) {
      const known = namers.get(dep.id)
      if (known === undefined) namers.set(dep.id, [job.id])
      else known.push(job.id)
    }
  }
  return namers
}

/**
 * Whether anything lies both upwards and downwards of these jobs: without that, none of them is
 * on a loop. One step in each direction in turn, until they meet or one has been everywhere.
 */
export function doMeet(
  starts: readonly string[],
  up: (id: string) => readonly string[],
  down: (id: string) => readonly string[],
): boolean {
  const seen = [new Set<string>(), new Set<string>()] as const
  const walks = [everyFrom(starts, up, seen[0]), everyFrom(starts, down, seen[1])] as const
  for (let side: 0 | 1 = 0; ; side = side === 0 ? 1 : 0) {
    const { value, done } = walks[side].next()
    // Who has been everywhere has come back to a job that is on a loop, met or not.
    if (done === true) return starts.some((id) => seen[side].has(id))
    if (seen[side === 0 ? 1 : 0].has(value)) return true
  }
}

/** Every id that is reached, once; `seen` has those that have been told. */
function* everyFrom(
  starts: readonly string[],
  next: (id: string) => readonly string[],
  seen: Set<string>,
): Generator<string, undefined> {
  const open = [...starts]
  for (let id = open.pop(); id !== undefined; id = open.pop()) {
    for (const reached of next(id)) {
      if (seen.has(reached)) continue
      seen.add(reached)
      open.push(reached)
      yield reached
    }
  }
}
