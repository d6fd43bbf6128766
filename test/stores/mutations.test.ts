// Owns the proof that the conformance suite can fail: stores with one wrong rule each, all of
// which must be found out. May never plant a mutation that only one part of the suite could see.

import { describe, expect, it } from 'vitest'
import { CASES } from '../../src/testing/cases.ts'
import { runCase } from '../../src/testing/cases-bench.ts'
import { crowdFaults } from '../../src/testing/conformance-crowd.ts'
import { START } from '../../src/testing/history-commands.ts'
import {
  type Difference,
  describeDifference,
  type OpenStore,
  replay,
} from '../../src/testing/history-replay.ts'
import { manualClock } from '../../src/testing/history-side.ts'
import { modelStore, type Rules } from '../../src/testing/model.ts'

const isLive = (status: string) => !['success', 'failed', 'cancelled'].includes(status)

const MUTATIONS: Readonly<Record<string, Partial<Rules>>> = {
  'last come, first served': {
    comesBefore: (a, b) => a.rank < b.rank || (a.rank === b.rank && a.seq > b.seq),
  },
  'lanes never yield': { yields: () => false },
  'every edge wants a success': { satisfies: (_, end) => end === 'success' },
  'a success frees its key at once': { keyIsHeld: (row) => isLive(row.status) },
  'holds take no slot': { slotIsUsed: (row) => row.status === 'running' },
  'any lease will do': { leaseIsCurrent: (row) => row.lease !== undefined },
  'failed jobs name nobody': {
    names: (namer, id) => isLive(namer.status) && namer.edges.some(({ dep }) => dep.id === id),
  },
  'a failed head lets its flow go': { keepsFlow: (head) => isLive(head.status) },
  'flows keep nothing': { keepsFlow: () => false },
  'what runs may be replaced': { mayBeReplaced: (row) => row.status !== 'success' },
  'a failure keeps its place': { rankAfterRetry: (row) => row.rank },
  'holds are nobody’s share': {
    isShared: (row, holder) => row.lease?.holder === holder && row.status === 'running',
  },
  'a full type hides the others': { capHidesOthers: true },
  'urgent begins above the priority given': {
    isUrgent: (row, least) => row.job.priority > least,
  },
  'a raise is the cap once more': { raise: (cap) => cap },
  'another rate forgives all debts': { owed: () => 0 },
  'anybody may be displaced': { mayGiveWay: () => true },
  'the earliest start gives way': { givesWayBefore: (a, b) => a.startedAt < b.startedAt },
  'a hold is not about to be free': { isAboutToBeFree: (row) => row.evictor !== undefined },
  'a stuck body is waited for': { isStuck: () => false },
  'an urgent job starts beside its victim': { waitsForVictim: () => false },
  'nobody is a suspect': { isSuspect: () => false },
  'one loss makes a suspect': { isSuspect: (row) => row.lost > row.lostBefore },
  'old losses make a suspect': { isSuspect: (row) => row.lost >= 2 },
  'the hold of a suspect bars nobody': { bars: (row) => row.status === 'running' },
  'a loss speaks against the downstream': {
    shows: (move) => (move.step === 'lose' ? 'failure' : move.verdict),
  },
  'two may probe at once': { probes: 2 },
  'timeouts are free': { isCharged: (step) => step === 'retry' },
  'lost jobs are charged': {
    isCharged: (step) => ['retry', 'timeout', 'lose'].includes(step),
  },
  'who fails first is retried first': {
    goesFirst: (a, b) =>
      a.availableAt < b.availableAt || (a.availableAt === b.availableAt && a.seq < b.seq),
  },
  'a new budget begins empty': { carries: () => 0 },
  'an old budget stays to the microsecond': { carries: (fillUs) => fillUs },
  'only the queue is ranked anew': { isRankedAnew: (row) => row.status === 'ready' },
  'waiting jobs take room': {
    takesRoom: (row) => ['pending', 'ready', 'waiting'].includes(row.status),
  },
  'delayed jobs take no room': { takesRoom: (row) => row.status === 'ready' },
  'ghosts need room': { fillsForFree: () => false },
  'those in line are passed': { passesBy: true },
  'a schedule set again begins anew': { keepsInstant: () => false },
  'an instant comes twice': { stands: (row, { at }) => at <= row.nextAt },
  'an instant of what was said before counts': { stands: (row, { at }) => at === row.nextAt },
}

const WORSE: Readonly<Record<string, Partial<Rules>>> = {
  'there are no caps': { slotIsUsed: () => false },
  'there are no keys': { keyIsHeld: () => false },
  'lanes yield to anybody': { yields: () => true },
  'any lease will do': { leaseIsCurrent: (row) => row.lease !== undefined },
}

const opener =
  (rules: Partial<Rules>): OpenStore =>
  async (clock) =>
    modelStore({ now: () => clock.now(), rules })

/** Histories tried until one shows a difference: every other one has the subject for it. */
const SEEDS = 400

async function firstDifference(rules: Partial<Rules>): Promise<number | null> {
  for (let seed = 1; seed <= SEEDS; seed += 1) {
    const found = await replay(opener(rules), { seed, commands: 300, mixed: true, shrink: false })
    if (found !== null) return seed
  }
  return null
}

async function failedCases(rules: Partial<Rules>): Promise<readonly string[]> {
  const names: string[] = []
  for (const each of CASES) {
    const failed = await runCase(each, opener(rules), expect).then(
      () => false,
      () => true,
    )
    if (failed) names.push(each.name)
  }
  return names
}

async function faultyCrowds(rules: Partial<Rules>): Promise<number> {
  let faulty = 0
  for (let seed = 1; seed <= 5; seed += 1) {
    const clock = manualClock(START)
    const found = await crowdFaults(await opener(rules)(clock), clock, seed).catch(() => ['threw'])
    if (found.length > 0) faulty += 1
  }
  return faulty
}

/** Hundreds of cases, each on a model that does nothing cleverly. */
const SLOW_MS = 120_000

describe('the conformance suite', () => {
  it('finds nothing wrong with the model itself', async () => {
    expect(await failedCases({})).toEqual([])
    expect(await faultyCrowds({})).toBe(0)
    expect(await replay(opener({}), { seed: 1, commands: 300, mixed: true })).toBe(null)
  })

  it.each(Object.entries(MUTATIONS))(
    'sees in a history that %s',
    async (_, rules) => {
      expect(await firstDifference(rules)).not.toBe(null)
    },
    SLOW_MS,
  )

  it.each(Object.entries(MUTATIONS))(
    'sees in a named case that %s',
    async (_, rules) => {
      expect(await failedCases(rules)).not.toEqual([])
    },
    SLOW_MS,
  )

  it.each(Object.entries(WORSE))(
    'sees in a crowd that %s',
    async (_, rules) => {
      expect(await faultyCrowds(rules)).toBeGreaterThan(0)
    },
    SLOW_MS,
  )

  it('makes a failing history short, and tells it', async () => {
    const rules = MUTATIONS['lanes never yield'] as Partial<Rules>
    const seed = (await firstDifference(rules)) as number
    const found = await replay(opener(rules), { seed, commands: 300, mixed: true })
    expect(found?.shortest.length).toBeLessThanOrEqual(10)
    expect(describeDifference(found as Difference)).toContain(`Seed ${seed}: `)
  })
})
