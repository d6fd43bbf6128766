// Owns the comparison with p-graph on one large graph: layers of 100, each node depending on
// three of the layer before. May never let a contender run a node before its dependencies.

import { AxScheduler } from './lib/ax.mjs'
import { Checks } from './lib/checks.mjs'
import { answer, assignment, takeTurns, watched } from './lib/fresh.mjs'
import { median, seeded, spread } from './lib/numbers.mjs'
import { readOptions } from './lib/options.mjs'
import { print, printMachine, printTable, printTarget, show } from './lib/report.mjs'

/**
 * `deps` has FAN_IN entries per node; those of the first layer do not count.
 *
 * @typedef {{ contender: string, nodes: number }} Task
 * @typedef {{ nodes: number, deps: Int32Array, run: (node: number) => Promise<void> }} Graph
 */

const LAYER = 100
const FAN_IN = 3
const CONCURRENCY = 10
const BATCH = 10_000
const PEER = 'p-graph'

/**
 * Each builds the graph from numbers and runs it to its end.
 *
 * @type {Record<string, (graph: Graph) => Promise<void>>}
 */
const CONTENDERS = {
  [PEER]: runOnGraph,
  'ax-execute': (graph) => runOnAx(graph, { ownBodies: true, listens: true }),
  'ax-handler': (graph) => runOnAx(graph, { ownBodies: false, listens: true }),
  'ax-unheard': (graph) => runOnAx(graph, { ownBodies: false, listens: false }),
}

const task = /** @type {Task | undefined} */ (assignment())
if (task === undefined) await main()
else answer(await measureOne(task))

async function main() {
  const options = readOptions({
    nodes: 100_000,
    repeats: 5,
    only: /** @type {readonly string[]} */ (Object.keys(CONTENDERS)),
  })
  printMachine()
  const checks = new Checks()
  for (const name of options.only) {
    checks.expect(name in CONTENDERS, () => `There is no contender '${name}'.`)
  }
  if (checks.faults.length === 0) {
    await compare(options.nodes, options.only, options.repeats, checks)
    print('Medians of fresh processes that took turns; ratios are those of the medians.')
  }
  checks.conclude()
}

/**
 * @param {number} nodes
 * @param {readonly string[]} contenders
 * @param {number} repeats
 * @param {Checks} checks
 */
async function compare(nodes, contenders, repeats, checks) {
  const tasks = contenders.map((contender) => ({ contender, nodes }))
  const measured = await takeTurns(import.meta.url, tasks, repeats)
  const results = tasks.map((each) => {
    const figures = measured.get(each) ?? []
    const { contender } = each
    for (const { ran, tooEarly } of figures) {
      checks.expect(ran === nodes, () => `${contender}: ${ran} of ${nodes} nodes ran.`)
      checks.expect(tooEarly === 0, () => `${contender}: ${tooEarly} nodes ran too early.`)
    }
    const times = figures.map(({ ms }) => ms ?? Number.NaN)
    const of = (/** @type {string} */ name) => median(figures.map((one) => one[name] ?? NaN))
    return { contender, ms: of('ms'), cpuMs: of('cpuMs'), rssMb: of('rssMb'), off: spread(times) }
  })
  const peer = results.find(({ contender }) => contender === PEER)
  const rows = results.map(({ contender, ms, cpuMs, rssMb, off }) => {
    const ratios = [show((peer?.ms ?? NaN) / ms, 2), show((peer?.cpuMs ?? NaN) / cpuMs, 2)]
    const rates = [show((1000 * nodes) / ms), show(ms), show(cpuMs)]
    return [contender, show(nodes), ...rates, ...ratios, show(rssMb), `${show(100 * off)} %`]
  })
  const units = ['nodes/s', 'ms', 'cpu ms', 'x rate', 'x cpu', 'rss MB', 'spread']
  printTable(['contender', 'nodes', ...units], rows)
  for (const { contender, ms, rssMb } of results) {
    if (peer === undefined || contender === PEER) continue
    const ratio = peer.ms / ms
    printTarget(`${contender}, rate`, `${show(ratio, 2)} x p-graph`, '>= 2 x', ratio >= 2)
    const peak = `${show(rssMb)} MB`
    printTarget(`${contender}, peak RSS`, peak, `<= ${show(peer.rssMb)} MB`, rssMb <= peer.rssMb)
  }
}

// In a process of its own

/** @param {Task} task */
async function measureOne({ contender, nodes }) {
  const run = CONTENDERS[contender]
  if (run === undefined) throw new Error(`There is no contender '${contender}'.`)
  // What is loaded on the way must not count.
  if (contender === PEER) await import('p-graph')
  const deps = layered(nodes)
  const done = new Uint8Array(nodes)
  let ran = 0
  let tooEarly = 0
  const body = async (/** @type {number} */ node) => {
    for (let at = node * FAN_IN; at < (node + 1) * FAN_IN; at += 1) {
      if (node >= LAYER && done[deps[at] ?? 0] === 0) tooEarly += 1
    }
    await undefined
    done[node] = 1
    ran += 1
  }
  const figures = await watched(() => run({ nodes, deps, run: body }))
  return { ...figures, ran, tooEarly }
}

/**
 * Three distinct nodes of the layer before, for each node.
 *
 * @param {number} nodes
 */
function layered(nodes) {
  const random = seeded(11)
  const deps = new Int32Array(nodes * FAN_IN)
  for (let node = LAYER; node < nodes; node += 1) {
    const layer = LAYER * (Math.floor(node / LAYER) - 1)
    const step = 1 + Math.floor(random() * (LAYER / FAN_IN - 1))
    const first = Math.floor(random() * LAYER)
    for (let each = 0; each < FAN_IN; each += 1) {
      deps[node * FAN_IN + each] = layer + ((first + each * step) % LAYER)
    }
  }
  return deps
}

/**
 * @param {Graph} graph
 * @param {number} node
 * @returns {string[]}
 */
function depsOf({ deps }, node) {
  if (node < LAYER) return []
  return Array.from(deps.subarray(node * FAN_IN, (node + 1) * FAN_IN), (dep) => `n${dep}`)
}

/** @param {Graph} graph */
async function runOnGraph(graph) {
  const { PGraph } = await import('p-graph')
  /** @type {Map<string, { run: () => Promise<void> }>} */
  const map = new Map()
  /** @type {[string, string][]} */
  const edges = []
  for (let node = 0; node < graph.nodes; node += 1) {
    const id = `n${node}`
    map.set(id, { run: () => graph.run(node) })
    for (const dep of depsOf(graph, node)) edges.push([dep, id])
  }
  await new PGraph(map, edges).run({ concurrency: CONCURRENCY })
}

/**
 * The whole scheduler: every job is a record with a log, and, unless nobody listens, events.
 *
 * @param {Graph} graph
 * @param {{ ownBodies: boolean, listens: boolean }} manner
 */
async function runOnAx(graph, { ownBodies, listens }) {
  const scheduler = new AxScheduler(CONCURRENCY)
  scheduler.define('node', (/** @type {{ payload: number }} */ { payload }) => graph.run(payload))
  let heard = 0
  if (listens) {
    scheduler.on('job:success', () => {
      heard += 1
    })
  }
  for (let at = 0; at < graph.nodes; at += BATCH) {
    const jobs = Array.from({ length: Math.min(BATCH, graph.nodes - at) }, (_, index) => {
      const node = at + index
      const common = { id: `n${node}`, deps: depsOf(graph, node) }
      if (!ownBodies) return { ...common, type: 'node', payload: node }
      return { ...common, execute: () => graph.run(node) }
    })
    await scheduler.addJobs(jobs)
  }
  await scheduler.idle()
  const { states } = await scheduler.snapshot()
  if (states.success !== graph.nodes) throw new Error(`${states.success} jobs succeeded.`)
  if (listens && heard !== graph.nodes) throw new Error(`${heard} successes were heard of.`)
}
