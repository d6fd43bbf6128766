// Owns the promises about several processes at work on one file, on each library that SQLite comes
// in: caps over all of them at every commit, lanes, keys, pauses, one success for each job.

import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { laterNode, REMEDY } from '../../scripts/later-node.mjs'
import type { JobEvent, JobStatus, StoredJob } from '../../src/core/job.ts'
import { newJob } from '../../src/testing/history-commands.ts'
import { runFleet } from './fleets/fleet.ts'
import { judge } from './fleets/verdict.ts'
import { children } from './processes.ts'
import { illsOf } from './reading.ts'

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
    const name = title.replaceAll(/\W+/g, '-')
    const place = join(processes.data, `${name}.db`)
    await runFleet({
      processes,
      place,
      journal: join(processes.data, `${name}.txt`),
      nodes: programs,
      illsOf: (store) => illsOf(store, place),
    })
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
