// Owns a fleet: three workers, two submitters and an operator at one place, each a process of its
// own, and what has to be true of it afterwards. May never end one but by asking it to.

import { readFileSync } from 'node:fs'
import { expect } from 'vitest'
import type { Store } from '../../../src/store/store.ts'
import type { Child, Children } from '../processes.ts'
import { allEvents, allJobs } from '../reading.ts'
import { storeAt } from './place.ts'
import { judge } from './verdict.ts'

const JOBS = 250

export interface Fleet {
  readonly processes: Children
  readonly place: string
  readonly journal: string
  /** Programs that run the children, in turn. */
  readonly nodes: readonly string[]
  /** What is wrong with the store, to whoever looks closely. */
  readonly illsOf: (store: Store) => Promise<readonly string[]>
}

export async function runFleet({ processes, place, journal, nodes, illsOf }: Fleet): Promise<void> {
  let started = 0
  const start = (role: string, who: string): Child => {
    started += 1
    return processes.start(processes.path('child'), {
      args: [role, who, place, journal, String(JOBS), String(started)],
      node: nodes[started % nodes.length] ?? process.execPath,
    })
  }
  const workers = ['w1', 'w2', 'w3'].map((who) => start('worker', who))
  await Promise.all(workers.map(({ said }) => said('up')))
  const operator = start('operator', 'o')
  const submitters = ['s1', 's2'].map((who) => start('submitter', who))
  const lines = await Promise.all(submitters.map(({ said }) => said('submitted')))
  for (const child of [...workers, operator]) child.process.kill('SIGTERM')
  for (const child of [...workers, ...submitters, operator]) {
    expect(await child.ended, child.output()).toBe(0)
  }

  const store = storeAt(place)
  await store.open()
  const jobs = await allJobs(store)
  const events = await allEvents(store)
  const pauses = operator
    .output()
    .split('\n')
    .flatMap((line) => (line.startsWith('paused ') ? [JSON.parse(line.slice(7))] : []))
  expect(judge(events, jobs, pauses)).toEqual([])
  expect(await illsOf(store)).toEqual([])
  await store.close()

  expect(jobs.size).toBe(lines.reduce((sum, line) => sum + Number(line.split(' ')[1]), 0))
  expect(pauses.length).toBeGreaterThan(2)
  const bodies = readFileSync(journal, 'utf8').trim().split('\n')
  const runs = bodies.map((line) => line.split('\t').slice(0, 2).join(' '))
  expect(new Set(runs).size).toBe(runs.length)
  expect(new Set(bodies.map((line) => line.split('\t')[2])).size).toBe(workers.length)
}
