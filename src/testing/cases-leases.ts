// Owns the named cases about leases: who may write, who is next, what time does.
// May never need a real clock.

import type { Move } from '../core/job.ts'
import { decide } from '../core/machine.ts'
import {
  CANCEL,
  type Case,
  FAILED,
  FAILED_ONCE,
  KEEP,
  LEASE_MS,
  OVERDUE,
  on,
  PATIENT,
  RETRY,
  SETTLED,
  SUCCEEDED,
} from './cases-bench.ts'

export const LEASE_CASES: readonly Case[] = [
  {
    name: 'grants a job to one worker, under numbers that are never used twice',
    run: async ({ add, take, tell, expect }) => {
      await add({ id: 'a', ...PATIENT })
      const [first] = await take(5)
      expect(await take(5)).toEqual([])
      await tell('a', FAILED_ONCE)
      const [second] = await take(5)
      expect([first?.lease?.number, second?.lease?.number]).toEqual([1, 2])
      expect([first?.starts, second?.starts]).toEqual([1, 2])
    },
  },
  {
    name: 'refuses a recovery that was decided on before the worker finished (DQ-05)',
    run: async ({ store, add, take, say, clock, job, expect }) => {
      await add({ id: 'a', ...PATIENT })
      const [held] = await take()
      clock.advance(LEASE_MS)
      const { answer } = await store.overdue({ limit: 10, keepLogMs: 1_000_000 }, false)
      const recovery = decide(answer.jobs[0] ?? (await job('a')), OVERDUE, KEEP) as Move
      if (held !== undefined) await say(held, SUCCEEDED)
      expect((await store.apply([recovery], false)).answer[0]?.status).toBe('stale')
      expect(await job('a')).toMatchObject({ status: 'success', lost: 0, starts: 1 })
    },
  },
  {
    name: 'refuses a recovery once the lease has been prolonged',
    run: async ({ store, add, take, clock, job, expect }) => {
      await add({ id: 'a', ...PATIENT })
      await take()
      clock.advance(LEASE_MS)
      const recovery = decide(await job('a'), OVERDUE, KEEP) as Move
      const ask = { holder: 'worker', held: [{ id: 'a', lease: 1 }], leaseMs: LEASE_MS, upTo: 0 }
      expect((await store.extend(ask, false)).answer.leases).toEqual([{ status: 'held' }])
      expect((await store.apply([recovery], false)).answer[0]?.status).toBe('stale')
      expect((await job('a')).status).toBe('running')
    },
  },
  {
    name: 'refuses what an old worker says of a job that runs elsewhere (DQ-06)',
    run: async ({ add, take, say, tell, clock, job, expect }) => {
      await add({ id: 'a', ...PATIENT })
      const [old] = await take(1, 'w1')
      clock.advance(LEASE_MS)
      await tell('a', OVERDUE)
      const [current] = await take(1, 'w2')
      if (old === undefined || current === undefined) throw new Error('Nothing was granted.')
      expect((await say(old, SUCCEEDED))?.status).toBe('stale')
      expect((await say(old, FAILED))?.status).toBe('stale')
      expect(await job('a')).toMatchObject({ status: 'running', lease: { holder: 'w2' } })
      expect((await say(current, SUCCEEDED))?.status).toBe('moved')
      expect((await say(current, SUCCEEDED))?.status).toBe('stale')
    },
  },
  {
    name: 'stores what a running job submits only while its lease is its own',
    run: async ({ addTo, add, take, tell, clock, statuses, expect }) => {
      await add({ id: 'a', ...PATIENT }, { id: 'c' })
      const [held] = await take(2)
      const fence = { id: 'a', lease: held?.lease?.number ?? 0 }
      expect((await addTo({ fence }, { id: 'child' })).status).toBe('done')
      await tell('c', CANCEL)
      expect((await addTo({ fence: { id: 'c', lease: 3 } }, { id: 'x' })).status).toBe('stale')
      clock.advance(LEASE_MS)
      await tell('a', OVERDUE)
      await take(2)
      expect((await addTo({ fence }, { id: 'late' }, { id: 'too' })).status).toBe('stale')
      expect(await statuses('child', 'late', 'too', 'x')).toEqual([
        'running',
        'nobody',
        'nobody',
        'nobody',
      ])
    },
  },
  {
    name: 'turns the lease of a cancelled job into a hold: new number, same slot and deadline',
    run: async ({ store, add, take, say, tell, job, expect }) => {
      await store.configure({ pool: 'default', by: 'operator', terms: { concurrency: 1 } })
      await add({ id: 'a' }, { id: 'b' })
      const [held] = await take()
      await tell('a', CANCEL)
      const { lease, deadline } = await job('a')
      expect(lease).toEqual({ holder: 'worker', number: 2, hold: true })
      expect(deadline).toBe(held?.deadline)
      expect(await take(5)).toEqual([])
      if (held !== undefined) expect((await say(held, SUCCEEDED))?.status).toBe('stale')
      expect(await tell('a', RETRY)).toBe(null)
      await tell('a', SETTLED)
      expect(await job('a')).toMatchObject({ status: 'cancelled', lease: undefined })
      expect((await take(5)).map(({ id }) => id)).toEqual(['b'])
    },
  },
  {
    name: 'keeps a hold alive by heartbeats, and frees its slot at its deadline without a re-run',
    run: async ({ store, add, take, tell, tidy, clock, job, expect }) => {
      await add({ id: 'a', ...PATIENT })
      await take()
      await tell('a', CANCEL)
      clock.advance(LEASE_MS - 1)
      const ask = { holder: 'worker', held: [{ id: 'a', lease: 1 }], leaseMs: LEASE_MS, upTo: 9 }
      const { answer } = await store.extend(ask, false)
      expect(answer.leases).toEqual([
        { status: 'cancelled', lease: { holder: 'worker', number: 2, hold: true } },
      ])
      clock.advance(LEASE_MS - 1)
      await tidy()
      expect((await job('a')).lease?.hold).toBe(true)
      clock.advance(1)
      await tidy()
      expect(await job('a')).toMatchObject({ status: 'cancelled', lease: undefined, starts: 1 })
      expect(await take(5)).toEqual([])
    },
  },
  {
    name: 'gives back, uncharged and in its old place, a lease that its worker never heard of',
    run: async ({ store, add, take, job, clock, expect }) => {
      await add({ id: 'a' }, { id: 'b' })
      await take()
      clock.advance(5)
      const ask = { holder: 'worker', held: [], leaseMs: LEASE_MS }
      const early = await store.extend({ ...ask, upTo: 0 }, true)
      expect(early).toEqual({ answer: { leases: [], mark: 1 }, events: [] })
      const late = await store.extend({ ...ask, upTo: early.answer.mark }, true)
      expect(late.events.map(({ event, worker }) => [event, worker])).toEqual([
        ['job:returned', 'worker'],
      ])
      expect(await job('a')).toMatchObject({ status: 'ready', attempts: 0, starts: 1 })
      expect((await job('a')).log[0]).toMatchObject({ outcome: 'returned', callMs: 5 })
      expect((await take()).map(({ id }) => id)).toEqual(['a'])
    },
  },
  {
    name: 'settles a hold that its worker does not list',
    run: async ({ store, add, take, tell, job, expect }) => {
      await add({ id: 'a' })
      await take()
      await tell('a', CANCEL)
      await store.extend({ holder: 'other', held: [], leaseMs: 1, upTo: 9 }, false)
      expect((await job('a')).lease?.hold).toBe(true)
      await store.extend({ holder: 'worker', held: [], leaseMs: 1, upTo: 9 }, false)
      expect((await job('a')).lease).toBe(undefined)
    },
  },
  {
    name: 'answers lost for a lease that is another worker’s by now',
    run: async ({ store, add, take, tell, clock, expect }) => {
      await add({ id: 'a', ...PATIENT })
      await take(1, 'w1')
      clock.advance(LEASE_MS)
      await tell('a', OVERDUE)
      await take(1, 'w2')
      const ask = { held: [{ id: 'a', lease: 1 }], leaseMs: 1, upTo: 0 }
      const answers = []
      for (const holder of ['w1', 'w2']) {
        answers.push((await store.extend({ ...ask, holder }, false)).answer.leases[0]?.status)
      }
      expect(answers).toEqual(['lost', 'lost'])
    },
  },
  {
    name: 'puts a failed job at the tail of its priority, and a lost one in its old place (C01)',
    run: async ({ store, add, take, tell, clock, expect }) => {
      await store.configure({ pool: 'default', by: 'start', terms: { concurrency: 1 } })
      const urgent = { priority: 90, ...PATIENT }
      await add({ id: 'a1', ...urgent }, { id: 'b1', ...urgent }, { id: 'a2' }, { id: 'b2' })
      const order: string[] = []
      for (let start = 0; start < 6; start += 1) {
        clock.advance(1)
        const [job] = await take()
        order.push(job?.id ?? 'nobody')
        const isFirst = job?.starts === 1 && job.priority === 90
        await tell(job?.id ?? '', isFirst ? FAILED_ONCE : SUCCEEDED)
      }
      expect(order).toEqual(['a1', 'b1', 'a1', 'b1', 'a2', 'b2'])
      await add({ id: 'c', ...urgent }, { id: 'd', ...urgent })
      await take()
      clock.advance(LEASE_MS)
      await tell('c', OVERDUE)
      expect((await take()).map(({ id }) => id)).toEqual(['c'])
    },
  },
  {
    name: 'grants the larger priority first, and first come first served among equals',
    run: async ({ add, take, clock, expect }) => {
      await add({ id: 'a' }, { id: 'b' })
      clock.advance(1_000_000)
      await add({ id: 'c', priority: 51 }, { id: 'd' }, { id: 'e', priority: 49 })
      expect((await take(9)).map(({ id }) => id)).toEqual(['c', 'a', 'b', 'd', 'e'])
    },
  },
  {
    name: 'ranks by readiness minus weight, so that ageing is a constant',
    run: async ({ store, add, take, clock, expect }) => {
      await store.configure({ ageing: { everyMs: 1_000, ceiling: 90 } })
      await add({ id: 'old', priority: 10 })
      clock.advance(5_000)
      await add({ id: 'below', priority: 14 }, { id: 'equal', priority: 15 })
      await add({ id: 'above', priority: 16 }, { id: 'urgent', priority: 91 })
      expect((await take(9)).map(({ id }) => id)).toEqual([
        'urgent',
        'above',
        'old',
        'equal',
        'below',
      ])
    },
  },
  ...[1, 32, 1_000].map(
    (max): Case => ({
      name: `lets a full pool hide nobody, when asked for ${max} at a time (C10)`,
      run: async ({ store, add, take, expect }) => {
        for (const pool of ['p1', 'p2']) {
          await store.configure({ pool, by: 'start', terms: { concurrency: 20 } })
        }
        const priority = 60
        const jobs = (pool: string, count: number) =>
          Array.from({ length: count }, (_, index) => ({ id: `${pool}-${index}`, pool, priority }))
        await add(...jobs('p1', 19))
        await take(19)
        await add(...jobs('p1', 1_019).slice(19), ...jobs('p2', 100))
        for (let granted = -1; granted !== 0; ) granted = (await take(max)).length
        const { pools } = await store.count()
        expect([pools.p1?.running, pools.p2?.running]).toEqual([20, 20])
        expect([pools.p1?.ready, pools.p2?.ready]).toEqual([999, 80])
      },
    }),
  ),
  {
    name: 'does not start above a cap that was lowered, and starts work when it is raised',
    run: async ({ store, add, take, tell, expect }) => {
      const cap = (concurrency: number) =>
        store.configure({ pool: 'default', by: 'operator', terms: { concurrency } })
      await add(...['a', 'b', 'c', 'd'].map((id) => ({ id })))
      await cap(3)
      expect((await take(9)).length).toBe(3)
      await cap(1)
      await tell('a', SUCCEEDED)
      await tell('b', SUCCEEDED)
      expect((await take(9)).length).toBe(0)
      await cap(2)
      expect((await take(9)).length).toBe(1)
    },
  },
  {
    name: 'starts nothing in a paused pool, and lets the operator win over a process',
    run: async ({ store, add, take, tell, job, expect }) => {
      await add({ id: 'a' }, { id: 'b' })
      await take()
      await store.configure({ pool: 'default', by: 'operator', terms: { paused: true } })
      await store.configure({
        pool: 'default',
        by: 'start',
        terms: { paused: false, concurrency: 7 },
      })
      expect(await take(9)).toEqual([])
      await tell('a', SUCCEEDED)
      expect((await job('a')).status).toBe('success')
      expect((await store.count()).pools.default).toMatchObject({ paused: true, concurrency: 7 })
      await store.configure({ pool: 'default', by: 'operator', terms: { paused: false } })
      expect((await take(9)).length).toBe(1)
    },
  },
  {
    name: 'grants only types that are served, and lets the others hide nobody',
    run: async ({ store, add, expect }) => {
      await add({ id: 'a', type: 'alpha' }, { id: 'b', type: 'beta' }, { id: 'c', type: 'gamma' })
      const ask = { holder: 'w', leaseMs: 1, max: 9, types: ['beta'] }
      const { answer } = await store.lease(ask, false)
      expect(answer.jobs.map(({ id }) => id)).toEqual(['b'])
    },
  },
  {
    name: 'grants a delayed job when its time has come, not before (C69)',
    run: async ({ store, add, take, clock, job, expect }) => {
      const hours = 3_600_000
      await add({ id: 'a', delayMs: 6 * hours })
      expect(await job('a')).toMatchObject({
        status: 'pending',
        availableAt: clock.now() + 6 * hours,
      })
      const ask = { holder: 'w', leaseMs: hours, max: 9, types: ['alpha'] }
      const { answer } = await store.lease(ask, false)
      expect(answer).toEqual({ jobs: [], nextAt: clock.now() + 6 * hours })
      clock.advance(6 * hours - 1)
      expect(await take()).toEqual([])
      clock.advance(1)
      expect(await take()).toMatchObject([{ id: 'a', starts: 1 }])
      expect(await take()).toEqual([])
    },
  },
  {
    name: 'counts the enqueue timeout anew each time that a job becomes ready, paused or not',
    run: async ({ store, add, take, tell, tidy, clock, job, expect }) => {
      await add({ id: 'a', enqueueTimeoutMs: 100, ...PATIENT })
      clock.advance(99)
      await take()
      clock.advance(50)
      await tell('a', FAILED_ONCE)
      expect((await job('a')).deadline).toBe(clock.now() + 100)
      await store.configure({ pool: 'default', by: 'operator', terms: { paused: true } })
      clock.advance(99)
      await tidy()
      expect((await job('a')).status).toBe('ready')
      clock.advance(1)
      await tidy()
      expect(await job('a')).toMatchObject({
        status: 'failed',
        code: 'ENQUEUE_TIMEOUT',
        attempts: 1,
      })
    },
  },
  {
    name: 'keeps one closed record for each start, with what it waited and what it took',
    run: async ({ add, take, tell, clock, job, expect }) => {
      await add({ id: 'a', ...PATIENT })
      clock.advance(7)
      await take()
      clock.advance(11)
      await tell('a', FAILED_ONCE)
      clock.advance(13)
      await take(1, 'w2')
      clock.advance(17)
      await tell('a', SUCCEEDED)
      const { log } = await job('a')
      expect(log.map(({ startedAt: _, ...rest }) => rest)).toEqual([
        { attempt: 1, queuedMs: 7, worker: 'worker', callMs: 11, outcome: 'failure', code: 'E_NO' },
        { attempt: 2, queuedMs: 13, worker: 'w2', callMs: 17, outcome: 'success' },
      ])
    },
  },
  {
    name: 'does not do to a new job what was decided about an older one of the same id',
    run: async ({ store, add, tell, tidy, clock, job, expect }) => {
      await add({ id: 'a' })
      const old = decide(await job('a'), CANCEL, KEEP) as Move
      await tell('a', CANCEL)
      clock.advance(KEEP.cancelledMs)
      await tidy()
      await add({ id: 'a' })
      expect((await store.apply([old], false)).answer[0]?.status).toBe('stale')
      expect((await job('a')).status).toBe('ready')
    },
  },
  {
    name: 'answers stale to a step that leads nowhere from here, and changes nothing',
    run: async ({ store, add, take, tell, job, statuses, expect }) => {
      await add({ id: 'a' }, { id: 'b', ...on('a') }, { id: 'c' })
      const before = await job('a')
      const { code: _, ...cancel } = decide(before, CANCEL, KEEP) as Move
      const lose: Move = { ...cancel, step: 'lose', to: 'failed', code: 'LOST' }
      const also = decide(await job('c'), CANCEL, KEEP) as Move
      const { answer } = await store.apply([lose, also], false)
      expect(answer.map(({ status }) => status)).toEqual(['stale', 'moved'])
      expect(await job('a')).toEqual(before)
      await take()
      await tell('a', SUCCEEDED)
      expect(await statuses('a', 'b', 'c')).toEqual(['success', 'ready', 'cancelled'])
    },
  },
  {
    name: 'says that work is left when more is overdue than one answer holds',
    run: async ({ store, add, tell, clock, expect }) => {
      const ids = Array.from({ length: 1_001 }, (_, index) => `j${index}`)
      await add(...ids.map((id) => ({ id, enqueueTimeoutMs: 1 })))
      clock.advance(1)
      for (const limit of [3, 1_000, 5_000]) {
        const { answer } = await store.overdue({ limit, keepLogMs: 1_000_000 }, false)
        expect([answer.jobs.length, answer.more]).toEqual([Math.min(limit, 1_000), true])
      }
      await tell('j0', OVERDUE)
      await tell('j1', OVERDUE)
      const { answer } = await store.overdue({ limit: 1_000, keepLogMs: 1_000_000 }, false)
      expect([answer.jobs.length, answer.more]).toEqual([999, false])
    },
  },
]
