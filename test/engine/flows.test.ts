// Owns the runs of real graphs: every edge is respected, every job runs once, and no slot idles
// while a job could run. The graphs lie beside the project where they are at hand.

import { existsSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { JobInput } from '../../src/core/types.ts'
import { takes, watchForLeaks, world } from './helpers.ts'

watchForLeaks()

const GRAPHS = resolve(import.meta.dirname, '../../../shared/dags')

interface Node {
  readonly id: string
  readonly deps: readonly string[]
  readonly durationMs?: number
}

function graphOf(file: string): readonly Node[] {
  const text = readFileSync(resolve(GRAPHS, file), 'utf8')
  return (JSON.parse(text) as { nodes: readonly Node[] }).nodes
}

/** Diamonds on diamonds, with edges that repeat: for when no real graph is at hand. */
function braid(levels: number): readonly Node[] {
  const nodes: Node[] = [{ id: 'n0-0', deps: [] }]
  for (let level = 1; level <= levels; level += 1) {
    const before = level === 1 ? ['n0-0'] : [0, 1, 2].map((n) => `n${level - 1}-${n}`)
    for (const n of [0, 1, 2]) {
      const deps = [...before.slice(0, n + 1), before[0] as string]
      nodes.push({ id: `n${level}-${n}`, deps, durationMs: 10 * (n + 1) })
    }
  }
  return nodes
}

/** The longest way through the graph, by the running times of its jobs. */
function criticalPath(nodes: readonly Node[]): number {
  const byId = new Map(nodes.map((node) => [node.id, node]))
  const ends = new Map<string, number>()
  const endOf = (id: string): number => {
    const known = ends.get(id)
    if (known !== undefined) return known
    const { deps, durationMs = 10 } = byId.get(id) as Node
    const end = Math.max(0, ...deps.map(endOf)) + durationMs
    ends.set(id, end)
    return end
  }
  return Math.max(...nodes.map(({ id }) => endOf(id)))
}

async function check(nodes: readonly Node[], cap: number): Promise<void> {
  const { open, pass, runtime } = world()
  const scheduler = open(cap)
  const ended = new Set<string>()
  const starts: string[] = []
  const jobs: JobInput[] = nodes.map(({ id, deps, durationMs = 10 }) => ({
    id,
    deps,
    execute: async (context) => {
      for (const dep of deps) expect(ended).toContain(dep)
      starts.push(id)
      await takes(runtime, durationMs)(context)
      ended.add(id)
    },
  }))
  await scheduler.addJobs(jobs.reverse())
  await pass(scheduler.idle())
  expect(new Set(starts).size).toBe(nodes.length)
  expect(starts).toHaveLength(nodes.length)
  expect((await scheduler.snapshot()).states.success).toBe(nodes.length)
  const path = criticalPath(nodes)
  const work = nodes.reduce((sum, { durationMs = 10 }) => sum + durationMs, 0)
  const slack = nodes.length
  expect(runtime.monotonic()).toBeGreaterThanOrEqual(Math.max(path, work / cap) - slack)
  // Graham's bound: no schedule that never idles needlessly takes longer.
  expect(runtime.monotonic()).toBeLessThanOrEqual(work / cap + (1 - 1 / cap) * path + slack)
}

describe('a graph', () => {
  for (const cap of [1, 4, 16]) {
    it(`C39: with repeated edges runs each job once, ${cap} at a time`, () => check(braid(20), cap))
  }

  const files = [
    'd01-montage-58.json',
    'd02-epigenomics-41.json',
    'd03-seismology-101.json',
    'd07-airflow-example-complex.json',
  ]
  for (const file of files) {
    it.skipIf(!existsSync(resolve(GRAPHS, file)))(
      `${file} runs, every edge respected`,
      async () => {
        for (const cap of [1, 4, 16]) await check(graphOf(file), cap)
      },
    )
  }

  const complex = 'd07-airflow-example-complex.json'
  it.skipIf(!existsSync(resolve(GRAPHS, complex)))(
    `C39: ${complex} has 58 distinct edges`,
    async () => {
      const nodes = graphOf(complex)
      const { open } = world()
      const scheduler = open({ autoStart: false })
      await scheduler.addJobs(nodes.map(({ id, deps }) => ({ id, deps, type: 't' })))
      let edges = 0
      for await (const { deps } of scheduler.jobs()) edges += deps.length
      expect([nodes.length, edges]).toEqual([36, 58])
      expect((await scheduler.job('delete_entry'))?.deps).toHaveLength(6)
    },
  )
})
