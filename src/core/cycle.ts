// Owns the search for a loop among dependencies.
// May never recurse: a chain of a million jobs must not end the stack.

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
