// Owns what the doctor says of facts. May never accept a finding without a remedy.

import { describe, expect, it } from 'vitest'
import { differences } from '../../src/core/differences.ts'
import { type DoctorFacts, diagnose, FINDINGS } from '../../src/core/doctor.ts'
import { rateTerms } from '../../src/core/gcra.ts'
import type { StoredSettings } from '../../src/core/settings.ts'

const NOW = 1_000_000

const SETTINGS: StoredSettings = {
  pools: { p: { start: { concurrency: 5 }, operator: { concurrency: 9, paused: true } } },
  types: {},
  ageing: null,
  budget: null,
  schedules: [],
}

const HEALTHY: DoctorFacts = {
  now: NOW,
  inspection: { ghosts: [], cycles: [], orphanedKeys: [], expired: [], damage: [] },
  workers: [{ holder: 'w1', zombies: 0, full: false, settings: '{}' }],
  settings: SETTINGS,
  pools: {},
  waiting: { jobs: [], more: false },
  ready: { jobs: [], more: false },
  unserved: [],
  closedTypes: [],
  timeless: [],
}

const POOL = {
  concurrency: 5,
  paused: false,
  ready: 3,
  breakerState: 'closed' as const,
  breakerUntil: 0,
}

function inspected(found: Partial<DoctorFacts['inspection']>): Partial<DoctorFacts> {
  return { inspection: { ...HEALTHY.inspection, ...found } }
}

const WORKER = { holder: 'w1', zombies: 0, full: false, settings: '{}' }

const row = {
  name: 'nightly',
  cron: '0 3 * * *',
  timeZone: null,
  missed: 'one' as const,
  template: '{}',
  nextAt: NOW - 120_000,
}

/** What was found, the kind, words of the text, words of the remedy, the jobs. */
const CASES: readonly [string, Partial<DoctorFacts>, string, string, string, string[]][] = [
  [
    'damage',
    inspected({ damage: ['a is running, without a lease'] }),
    'damage',
    'in 1 place: a is running',
    'Stop all workers',
    [],
  ],
  [
    'a loop',
    inspected({ cycles: [['a', 'b', 'a']] }),
    'cycle',
    '"a" > "b" > "a"',
    'scheduler.cancel("a")',
    ['a', 'b'],
  ],
  [
    'orphaned keys',
    inspected({ orphanedKeys: [{ key: 'k', owner: 'x' }] }),
    'orphaned-key',
    '"k" (job "x")',
    'another key',
    ['x'],
  ],
  [
    'an expired lease',
    inspected({ expired: [{ id: 'a', deadline: NOW - 5_000 }] }),
    'expired-lease',
    '1 lease is past the deadline, the oldest for 5 s: "a"',
    'look at the log',
    ['a'],
  ],
  [
    'expired leases that nobody can reap',
    { ...inspected({ expired: [{ id: 'a', deadline: 0 }] }), workers: [] },
    'expired-lease',
    'the deadline',
    'start one',
    ['a'],
  ],
  [
    'a type without a handler',
    { unserved: [{ type: 'mail', count: 7, jobs: ['a'], more: true }] },
    'no-handler',
    '7 ready jobs of type "mail" wait',
    'scheduler.define("mail", handler)',
    ['a'],
  ],
  [
    'zombies',
    { workers: [{ ...WORKER, zombies: 2, full: true }] },
    'zombies',
    'Worker "w1" has 2 zombies, bodies that ignore their abort, and takes nothing more',
    'scheduler.zombies()',
    [],
  ],
  [
    'an open breaker',
    { pools: { db: { ...POOL, breakerState: 'open', breakerUntil: NOW + 4_000 } } },
    'open-breaker',
    'The breaker of pool "db" is open and lets a probe through in 4 s; 3 ready jobs wait',
    'scheduler.pool("db").configure({ breaker: false })',
    [],
  ],
  [
    'an open breaker of an idle pool, before it is due',
    { pools: { db: { ...POOL, ready: 0, breakerState: 'open', breakerUntil: NOW + 4_000 } } },
    'open-breaker',
    'lets a probe through in 4 s; 0 ready jobs wait',
    'Mend what lies behind',
    [],
  ],
  [
    'a breaker that probes',
    { pools: { db: { ...POOL, breakerState: 'half-open' } } },
    'open-breaker',
    'waits for what its probe shows',
    'Mend what lies behind',
    [],
  ],
  [
    'a paused pool',
    { pools: { db: { ...POOL, paused: true, concurrency: 0 } } },
    'paused-pool',
    'Pool "db" is paused, with 3 ready jobs',
    'scheduler.pool("db").resume()',
    [],
  ],
  [
    'a pool without slots',
    { pools: { db: { ...POOL, concurrency: 0, ready: 1 } } },
    'closed-pool',
    'concurrency of 0, with 1 ready job.',
    'configure({ concurrency: 10 })',
    [],
  ],
  [
    'a type without slots',
    { closedTypes: [{ type: 'mail', count: 2 }] },
    'closed-pool',
    'Type "mail" has a concurrency of 0',
    'in types or in define("mail", ...)',
    [],
  ],
  [
    'ids that nobody has submitted',
    inspected({
      ghosts: [
        { id: 'a', dep: 'x' },
        { id: 'a', dep: 'y' },
        { id: 'b', dep: 'x' },
      ],
    }),
    'unknown-dependency',
    '2 jobs wait for ids that nobody has submitted: "x", "y"',
    'scheduler.cancel("a")',
    ['a', 'b'],
  ],
  [
    'a late schedule',
    { settings: { ...SETTINGS, schedules: [row] } },
    'late-schedule',
    '"nightly" should have added a job 2 m ago',
    'in the logs of the workers',
    [],
  ],
  [
    'a late schedule, and nobody there',
    { settings: { ...SETTINGS, schedules: [row] }, workers: [] },
    'late-schedule',
    '"nightly"',
    'start one',
    [],
  ],
  [
    'jobs that wait long for others',
    { waiting: { jobs: ['a', 'b', 'c', 'd'], more: true } },
    'long-wait',
    'At least 4 jobs submitted more than 5 m ago wait for other jobs: "a", "b", "c" and 1 more',
    'scheduler.explain("a")',
    ['a', 'b', 'c', 'd'],
  ],
  [
    'a job that is ready for long',
    { ready: { jobs: ['a'], more: false } },
    'long-wait',
    '1 job submitted more than 5 m ago waits for a slot: "a"',
    'scheduler.explain("a")',
    ['a'],
  ],
  [
    'a worker with other settings',
    { workers: [{ ...WORKER, settings: '{"pools":{"p":{"concurrency":3}}}' }] },
    'settings-differ',
    'pools.p.concurrency is 3 there, and 5 holds',
    'the same settings',
    [],
  ],
  [
    'types without a timeout',
    {
      timeless: [
        { type: 'mail', job: 'a' },
        { type: 'sync', job: undefined },
      ],
    },
    'no-timeout',
    '2 types have no timeout, and no heartbeat, so',
    'scheduler.advise()',
    ['a'],
  ],
]

describe('the doctor', () => {
  it('has nothing to say of a healthy store', () => {
    expect(diagnose(HEALTHY)).toEqual([])
    const calm = { ...POOL, ready: 0, concurrency: 0 }
    // Its breaker would let a probe through at once, if there were a job.
    const rested = { ...POOL, ready: 0, breakerState: 'open', breakerUntil: NOW - 1 } as const
    const probing = { ...rested, breakerState: 'half-open' } as const
    const fresh = { ...SETTINGS, schedules: [{ ...row, nextAt: NOW - 59_000 }] }
    expect(diagnose({ ...HEALTHY, pools: { calm, rested, probing }, settings: fresh })).toEqual([])
  })

  it.each(CASES)('names %s, and what to type', (_, found, kind, text, remedy, jobs) => {
    const findings = diagnose({ ...HEALTHY, ...found })
    expect(findings).toHaveLength(1)
    expect(findings[0]).toEqual({
      kind,
      jobs,
      text: expect.stringContaining(text),
      remedy: expect.stringContaining(remedy),
    })
    expect(findings[0]?.text).toMatch(/^[A-Z1-9].*\.$/)
  })

  it('knows each kind, and puts the gravest first', () => {
    const all = CASES.map(([, found]) => found)
    const seen = all.flatMap((found) => Object.entries(found.inspection ?? {}))
    const inspection = Object.fromEntries(seen.filter(([, list]) => list.length > 0))
    const pools = Object.fromEntries(
      all.flatMap((found, at) => Object.values(found.pools ?? {}).map((pool) => [`p${at}`, pool])),
    )
    const settings = { ...SETTINGS, schedules: [row] }
    const workers = [{ ...WORKER, zombies: 1, settings: '{"ageing":{"everyMs":1}}' }]
    const facts = { ...Object.assign({}, HEALTHY, ...all), inspection, pools, settings, workers }
    const kinds = diagnose(facts).map(({ kind }) => kind)
    expect([...new Set(kinds)]).toEqual(FINDINGS)
  })

  it('names a job that waits for a ghost once', () => {
    const ghosts = inspected({ ghosts: [{ id: 'a', dep: 'x' }] })
    const waiting = { jobs: ['a', 'b'], more: false }
    const findings = diagnose({ ...HEALTHY, ...ghosts, waiting })
    expect(findings.map(({ kind, jobs }) => [kind, jobs])).toEqual([
      ['unknown-dependency', ['a']],
      ['long-wait', ['b']],
    ])
  })

  it('names a hundred jobs at most', () => {
    const jobs = Array.from({ length: 500 }, (_, n) => `j${n}`)
    const [finding] = diagnose({ ...HEALTHY, ready: { jobs, more: true } })
    expect(finding?.jobs).toHaveLength(100)
    expect(finding?.text).toContain('At least 500 jobs')
  })
})

describe('what a worker was given', () => {
  const rate = rateTerms(100, 60_000)
  const stored: StoredSettings = {
    ...SETTINGS,
    pools: { p: { start: { concurrency: 5, rate }, operator: { paused: true } } },
    ageing: { everyMs: 5, ceiling: 90 },
    budget: rate,
  }
  const said = (given: object) => differences(JSON.stringify(given), stored)

  it('is no difference if it is what holds, in any order of keys', () => {
    const terms = { rate: { ...rate }, concurrency: 5 }
    expect(said({ pools: { p: terms }, budget: rate })).toEqual([])
    expect(said({ ageing: { ceiling: 90, everyMs: 5 } })).toEqual([])
    expect(said({})).toEqual([])
  })

  it('is no difference where it says nothing', () => {
    expect(said({ pools: { p: {} } })).toEqual([])
  })

  it('is named, with what holds instead', () => {
    const other = rateTerms(5, 1_000)
    expect(said({ pools: { p: { rate: other }, q: { concurrency: 1 } } })).toEqual([
      'pools.p.rate.count is 5 there, and 100 holds',
      'pools.p.rate.perMs is 1000 there, and 60000 holds',
      'pools.p.rate.burst is 1 there, and 2 holds',
      'pools.q.concurrency is 1 there, and nothing holds',
    ])
    expect(said({ ageing: null })).toEqual([
      'ageing is null there, and {"everyMs":5,"ceiling":90} holds',
    ])
    const words = '{"count":100,"perMs":60000,"burst":2}'
    expect(said({ budget: null })).toEqual([`retryBudget is null there, and ${words} holds`])
    expect(said({ pools: { q: { rate } } })).toEqual([
      `pools.q.rate is ${words} there, and nothing holds`,
    ])
    expect(said({ pools: { p: { rate: false } } })).toEqual([
      `pools.p.rate is false there, and ${words} holds`,
    ])
    expect(said({ types: { mail: { concurrency: 1 } } })).toHaveLength(1)
  })

  it('may be anything, and is never a reason to fail', () => {
    for (const text of ['', 'null', '5', '[]', '{', '{"pools":null}', '{"pools":{"p":null}}']) {
      expect(differences(text, stored)).toEqual([])
    }
  })
})
