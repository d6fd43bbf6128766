// Owns the promises about several processes at work on one file, on each library that SQLite comes
// in: caps over all of them at every commit, lanes, keys, pauses, one success for each job.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { laterNode, REMEDY } from '../../scripts/later-node.mjs'
import type { JobEvent, JobStatus, StoredJob } from '../../src/core/job.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { newJob } from '../../src/testing/history-commands.ts'
import { judge } from './fleets/verdict.ts'
import { type Child, children } from './processes.ts'
import { allEvents, allJobs, illsOf } from './reading.ts'

const JOBS = 250

const processes = children('fleets', { child: 'test/stores/fleets/child.ts' })

const LATER = laterNode()

const FLEETS: readonly (readonly [title: string, nodes: readonly (string | undefined)[]])[] = [
  [`of Node ${process.versions.node.split('.')[0]}`, [process.execPath]],
  ['of Node 24 with node:sqlite', [LATER]],
  ['of both at once', [process.execPath, LATER]],
]

describe('processes on one file keep all caps, lanes, keys and pauses between them', () => {
  it.for(FLEETS)('a fleet %s', async ([title, nodes], { skip }) => {
    const programs = nodes.filter((node) => node !== undefined)
    if (programs.length < nodes.length) skip(`It needs Node 24: ${REMEDY}.`)
    await fleet(title.replaceAll(/\W+/g, '-'), programs)
  })
})

describe('the verdict on them', () => {
  const record = (job: string, from: JobStatus | null, to: JobStatus, more = {}): JobEvent => {
    const { pool = 'wide', attempt = 1, worker = 'w' } = more as Partial<JobEvent>
    return { seq: 0, at: 0, job, type: 'common', pool, from, to, attempt, worker, event: '' }
  }
  const starts = (ids: readonly string[], worker: (index: number) => string, pool = 'wide') =>
    ids.map((id, index) => record(id, 'ready', 'running', { worker: worker(index), pool }))
  const adds = (ids: readonly string[], pool = 'wide') =>
    ids.map((id) => record(id, null, 'ready', { pool, attempt: 0 }))
  const six = ['a', 'b', 'c', 'd', 'e', 'f']
  const eleven = [...six, 'g', 'h', 'i', 'j', 'k']

  const faults: readonly (readonly [what: string, events: readonly JobEvent[], more?: object])[] = [
    ['6 run in wide: 5 may', [...adds(six), ...starts(six, String)]],
    ['3 run in wide of w: 2 may', [...adds(six), ...starts(six.slice(3), () => 'w')]],
    [
      '3 run in narrow: 2 may',
      [...adds(six, 'narrow'), ...starts(six.slice(3), () => 'w', 'narrow')],
    ],
    [
      '4 of the scarce type run',
      [...adds(six), ...starts(six.slice(2), String)],
      { type: 'scarce' },
    ],
    ['b runs in the lane of a', [...adds(six), ...starts(six, String)], { exclusive: 'lane' }],
    ['a and b share key', adds(six), { key: 'key' }],
    ['a starts in wide while that is paused', [...adds(['a']), ...starts(['a'], String)]],
    ['11 jobs start in rated within 0 ms', starts(eleven, String, 'rated')],
    [
      'a had ended, and goes to ready',
      [...adds(['a']), record('a', 'running', 'success')].concat(record('a', 'success', 'ready')),
    ],
  ]

  it.for(faults)('sees that %s', ([what, events, more]) => {
    const jobs = new Map(events.map((event) => [event.job, jobFrom(event, more)]))
    const pauses = [{ pool: 'wide', after: -1, until: 0 }]
    expect(judge(events, jobs, pauses).join('\n')).toContain(what)
  })

  function jobFrom({ job, type, pool }: JobEvent, more: object = {}): StoredJob {
    const made = { ...newJob(job, { type, pool, ...more }), status: 'ready', starts: 0 }
    return made as Partial<StoredJob> as StoredJob
  }
})

async function fleet(name: string, nodes: readonly string[]): Promise<void> {
  const file = join(processes.data, `${name}.db`)
  const journal = join(processes.data, `${name}.txt`)
  let started = 0
  const start = (role: string, who: string): Child => {
    started += 1
    return processes.start(processes.path('child'), {
      args: [role, who, file, journal, String(JOBS), String(started)],
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

  const store = sqliteStore(file)
  await store.open()
  const jobs = await allJobs(store)
  const events = await allEvents(store)
  const pauses = operator
    .output()
    .split('\n')
    .flatMap((line) => (line.startsWith('paused ') ? [JSON.parse(line.slice(7))] : []))
  expect(judge(events, jobs, pauses)).toEqual([])
  expect(await illsOf(store, file)).toEqual([])
  await store.close()

  expect(jobs.size).toBe(lines.reduce((sum, line) => sum + Number(line.split(' ')[1]), 0))
  expect(pauses.length).toBeGreaterThan(2)
  const bodies = readFileSync(journal, 'utf8').trim().split('\n')
  const runs = bodies.map((line) => line.split('\t').slice(0, 2).join(' '))
  expect(new Set(runs).size).toBe(runs.length)
  expect(new Set(bodies.map((line) => line.split('\t')[2])).size).toBe(workers.length)
}
