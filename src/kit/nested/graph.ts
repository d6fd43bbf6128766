// Owns who waits for whom, as plain data, and which wait could never end.
// May never take a wait that can end for one that cannot, or know what anybody waits for.

/** Somebody who waits for a promise; how that is settled may be replaced as long as it is not. */
export interface Waiter {
  resolve: (value: unknown) => void
  reject: (error: unknown) => void
}

/** Where bodies run, one at a time. */
export interface Holder {
  /** Its mark in a stack trace: see trace.ts. */
  readonly name: string
  /** Whether a body runs there now. */
  readonly busy: boolean
  /** How many it has held: another one is another body. */
  readonly turn: number
  /** Makes traces that are taken in the body show the name. */
  mark(): void
}

/** Something that is not had as long as `enough` of these holders go on. Read when it matters. */
export interface Block {
  readonly holders: Iterable<Holder>
  /** At least 1. */
  readonly enough: number
}

/** One who waits. */
export interface Wait {
  /** Whose promise is asked for who waits. */
  readonly waiter: Waiter
  /** Whether the wait is still on. */
  readonly holds: () => boolean
  /**
   * What it waits for: it could never end if of any of these blocks enough holders are stuck. A
   * call that gives up by itself has none. One object for all who wait for the same is cheaper.
   */
  readonly blocks: readonly Block[]
  /** Ends it with an error; undefined for a wait that cannot be refused, since its body runs. */
  readonly refuse: (() => void) | undefined
}

/** A wait, and the bodies that it keeps: holders, and the turn that each of them had. */
export interface Edge {
  readonly wait: Wait
  readonly by: ReadonlyMap<Holder, number>
}

/** What is known of a block while bodies are struck off. */
interface Tally {
  readonly stuck: Set<Holder>
  readonly enough: number
  readonly edges: Edge[]
}

/**
 * The wait to refuse, if there are some that could never end: one that lies in a ring, so that the
 * thing it waits for waits for its bodies. Whoever only waits for such a ring is left alone; and
 * of two rings the one that the other waits for comes first. Linear in what it is given.
 */
export function victim(all: readonly Edge[]): Wait | undefined {
  const isSame = ([holder, turn]: readonly [Holder, number]) => holder.busy && holder.turn === turn
  const edges = all.filter(({ wait, by }) => wait.holds() && [...by].every(isSame))
  const { hopeless, tallies } = strike(edges)
  const nodes: (Edge | Tally | Holder)[] = [...hopeless]
  const at = new Map<unknown, number>()
  const number = (node: Edge | Tally | Holder) => {
    const known = at.get(node)
    if (known !== undefined) return known
    at.set(node, nodes.length)
    return nodes.push(node) - 1
  }
  for (const [index, edge] of hopeless.entries()) at.set(edge, index)
  const next: number[][] = hopeless.map(() => [])
  const link = (from: number, to: number) => {
    next[from] ??= []
    next[from].push(to)
  }
  for (const tally of tallies) {
    const from = number(tally)
    for (const edge of tally.edges) if (at.has(edge)) link(number(edge), from)
    for (const holder of tally.stuck) link(from, number(holder))
  }
  for (const [index, { by }] of hopeless.entries()) {
    for (const holder of by.keys()) link(number(holder), index)
  }
  const rings = components(nodes.map((_, node) => next[node] ?? []))
  let best: Wait | undefined
  let first = Number.POSITIVE_INFINITY
  for (const [index, { wait }] of hopeless.entries()) {
    const ring = rings[index] as number
    if (ring < 0 || ring >= first || wait.refuse === undefined) continue
    best = wait
    first = ring
  }
  return best
}

/**
 * The greatest set of bodies of which each waits for something hopeless: something of which enough
 * holders have bodies of the set. Starts with everyone who waits for anything, and strikes off.
 */
function strike(edges: readonly Edge[]): { hopeless: Edge[]; tallies: Tally[] } {
  /** How many hopeless waits a body has, and how many hopeless blocks a wait. */
  const waits = new Map<Holder, number>()
  const blocks = new Map<Edge, number>()
  for (const { by } of edges) {
    for (const holder of by.keys()) waits.set(holder, (waits.get(holder) ?? 0) + 1)
  }
  const tallies = new Map<Block, Tally>()
  const within = new Map<Holder, Tally[]>()
  for (const edge of edges) {
    blocks.set(edge, edge.wait.blocks.length)
    for (const block of edge.wait.blocks) {
      const tally = tallies.get(block) ?? count(block, waits, within)
      tallies.set(block, tally)
      tally.edges.push(edge)
    }
  }
  const isHopeless = ({ stuck, enough }: Tally) => stuck.size >= enough
  const ended = [...tallies.values()].filter((tally) => !isHopeless(tally))
  const relieve = (edge: Edge) => {
    const left = (blocks.get(edge) as number) - 1
    blocks.set(edge, left)
    if (left === 0) free(edge)
  }
  const free = ({ by }: Edge) => {
    for (const holder of by.keys()) {
      const left = (waits.get(holder) as number) - 1
      waits.set(holder, left)
      if (left > 0) continue
      for (const tally of within.get(holder) ?? []) {
        const was = isHopeless(tally)
        tally.stuck.delete(holder)
        if (was && !isHopeless(tally)) ended.push(tally)
      }
    }
  }
  for (const edge of edges) if (edge.wait.blocks.length === 0) free(edge)
  for (let tally = ended.pop(); tally !== undefined; tally = ended.pop()) {
    for (const edge of tally.edges) relieve(edge)
  }
  return {
    hopeless: edges.filter((edge) => (blocks.get(edge) as number) > 0),
    tallies: [...tallies.values()].filter(isHopeless),
  }
}

/** Who of a block waits for anything. */
function count(
  { holders, enough }: Block,
  waits: ReadonlyMap<Holder, number>,
  within: Map<Holder, Tally[]>,
): Tally {
  const tally: Tally = { stuck: new Set(), enough, edges: [] }
  for (const holder of holders) {
    if (!waits.has(holder)) continue
    tally.stuck.add(holder)
    const known = within.get(holder)
    if (known === undefined) within.set(holder, [tally])
    else known.push(tally)
  }
  return tally
}

/**
 * The number of the ring of two or more that each node is part of, -1 without one. A ring that
 * leads to another has the larger number. Linear: strongly connected components, by Tarjan (1972),
 * without recursion, which a long chain would be too deep for.
 */
export function components(next: readonly (readonly number[])[]): Int32Array {
  const ring = new Int32Array(next.length).fill(-1)
  const isDone = new Uint8Array(next.length)
  const order = new Int32Array(next.length)
  const low = new Int32Array(next.length)
  const step = new Int32Array(next.length)
  const open: number[] = []
  let seen = 0
  let rings = 0
  const lower = (node: number, value: number) => {
    low[node] = Math.min(low[node] as number, value)
  }
  const close = (root: number) => {
    const members = open.splice(open.lastIndexOf(root))
    for (const node of members) {
      isDone[node] = 1
      if (members.length > 1) ring[node] = rings
    }
    rings += 1
  }
  for (const start of next.keys()) {
    const path = order[start] === 0 ? [start] : []
    while (path.length > 0) {
      const node = path.at(-1) as number
      if (order[node] === 0) {
        seen += 1
        order[node] = seen
        low[node] = seen
        open.push(node)
      }
      const to = next[node]?.[step[node] as number]
      step[node] = (step[node] as number) + 1
      if (to === undefined) {
        path.pop()
        if (low[node] === order[node]) close(node)
        const before = path.at(-1)
        if (before !== undefined) lower(before, low[node] as number)
      } else if (order[to] === 0) path.push(to)
      else if (isDone[to] === 0) lower(node, order[to] as number)
    }
  }
  return ring
}
