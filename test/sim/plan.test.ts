// Owns the checks of what is drawn and how it is made smaller. May never run the engine.

import { describe, expect, it } from 'vitest'
import { Coverage } from '../../src/testing/sim/coverage.ts'
import { INVARIANTS } from '../../src/testing/sim/invariants.ts'
import type { Plan } from '../../src/testing/sim/plan.ts'
import { shrink } from '../../src/testing/sim/shrink.ts'
import { drawPlan } from '../../src/testing/sim/workload.ts'

describe('a plan', () => {
  it('is fixed by its seed', () => {
    expect(JSON.stringify(drawPlan(7))).toBe(JSON.stringify(drawPlan(7)))
    expect(JSON.stringify(drawPlan(7))).not.toBe(JSON.stringify(drawPlan(8)))
  })

  it('has at least 300 operations, in order of time, within its phase', () => {
    for (let seed = 1; seed <= 40; seed += 1) {
      const { ops, settings, nodes } = drawPlan(seed)
      expect(ops.length).toBeGreaterThanOrEqual(300)
      const names = nodes.map(({ name }) => name)
      expect(ops.every(({ node }) => names.includes(node))).toBe(true)
      expect(ops.every(({ at }) => at < settings.phaseMs + 100)).toBe(true)
      expect(new Set(ops.map(({ index }) => index)).size).toBe(ops.length)
    }
  })

  it('asks for every kind of thing in some seed', () => {
    const kinds = new Set<string>()
    for (let seed = 1; seed <= 40; seed += 1) {
      const { ops, faults } = drawPlan(seed)
      for (const { kind } of [...ops, ...faults]) kinds.add(kind)
    }
    const wanted = [
      ...['add', 'invalid', 'cancel', 'explain', 'job', 'result', 'retry', 'pause', 'resume'],
      ...['configure', 'snapshot', 'zombies', 'events', 'jobs', 'crash', 'stall', 'jump'],
      ...['partition', 'deploy', 'drain', 'store restart'],
      ...['set', 'schedule', 'unschedule', 'retryWhere', 'doctor', 'advise'],
    ]
    expect([...kinds].sort()).toEqual(wanted.sort())
  })

  it('does without what the swarm has switched off', () => {
    for (let seed = 1; seed <= 40; seed += 1) {
      const { features, ops, settings } = drawPlan(seed)
      const jobs = ops.flatMap((op) => (op.kind === 'add' ? op.jobs : []))
      if (!features.includes('lanes')) expect(jobs.some((job) => job.exclusive)).toBe(false)
      if (!features.includes('keys')) expect(jobs.some((job) => job.key)).toBe(false)
      if (!features.includes('cancel'))
        expect(ops.some(({ kind }) => kind === 'cancel')).toBe(false)
      if (!features.includes('lost answers')) expect(settings.link.loseAnswer).toBe(0)
      const brought = JSON.stringify(settings.brought)
      for (const [feature, name] of Object.entries(POLICIES)) {
        if (!features.includes(feature)) expect(brought).not.toContain(`"${name}"`)
      }
      if (!features.includes('schedules'))
        expect(ops.some(({ kind }) => kind === 'schedule')).toBe(false)
    }
  })
})

/** What each feature brings to a pool, or to the whole store. */
const POLICIES = {
  ...{ shares: 'perWorker', rates: 'rate', elastic: 'elastic', preemption: 'preempt' },
  ...{ breakers: 'breaker', 'bounded queues': 'maxQueue', ageing: 'ageing' },
  ...{ 'retry budget': 'retryBudget', 'type caps': 'capped' },
}

describe('shrinking', () => {
  const has = (plan: Plan, index: number) => plan.ops.some((op) => op.index === index)

  it('finds the operations that matter, and nothing else', async () => {
    const plan = drawPlan(5)
    const wanted = [plan.ops[40], plan.ops[200]].map((op) => op?.index ?? -1)
    const small = await shrink(plan, async (each) => wanted.every((index) => has(each, index)))
    expect(small.ops.map(({ index }) => index).sort()).toEqual([...wanted].sort())
    expect(small.faults).toEqual([])
    expect(small.nodes).toHaveLength(1)
    expect(small.settings.link.loseAnswer).toBe(0)
  })

  it('stops after so many runs, with the best that it has', async () => {
    let runs = 0
    const plan = drawPlan(5)
    const small = await shrink(
      plan,
      async () => {
        runs += 1
        return runs % 2 === 0
      },
      10,
    )
    expect(runs).toBe(10)
    expect(small.ops.length).toBeLessThan(plan.ops.length)
  })
})

describe('coverage', () => {
  it('names what has never happened, and no longer once it has', () => {
    const coverage = new Coverage()
    expect(coverage.holes()).toContain('fault: crash')
    expect(coverage.holes()).toContain('deed: gives way')
    expect(coverage.holes()).toContain('reason: budget')
    expect(coverage.holes().filter((hole) => hole.startsWith('invariant'))).toHaveLength(
      INVARIANTS.length,
    )
    coverage.fault('crash')
    coverage.checked(7)
    coverage.move('cancel', 'running')
    coverage.features(['keys', 'crash'])
    coverage.deed('gives way')
    coverage.reason('budget')
    const holes = coverage.holes()
    const more = ['deed: gives way', 'reason: budget']
    for (const cell of ['fault: crash', 'invariant: 7', 'fact: cancel x running', ...more]) {
      expect(holes).not.toContain(cell)
    }
    expect(holes).not.toContain('pair: crash + keys')
    expect(coverage.report()).toContain('Holes: ')
  })

  it('adds up over processes', () => {
    const one = new Coverage()
    one.checked(9)
    const sum = new Coverage()
    sum.merge(one.counts)
    sum.merge(one.counts)
    expect(sum.of('invariant', '9')).toBe(2)
  })
})
