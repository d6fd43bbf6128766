// Owns the named cases, one promise of the port each, and those about keys, lanes, groups, reads.
// May never test a store's insides.

import { Live } from '../core/job.ts'
import type { Hint } from '../store/store.ts'
import {
  CANCEL,
  type Case,
  FAILED,
  FAILED_ONCE,
  KEEP,
  OVERDUE,
  on,
  PATIENT,
  RETRY,
  SETTLED,
  SUCCEEDED,
} from './cases-bench.ts'
import { BREAKER_CASES } from './cases-breaker.ts'
import { FLOW_CASES } from './cases-flow.ts'
import { GRAPH_CASES } from './cases-graph.ts'
import { LEASE_CASES } from './cases-leases.ts'
import { POOL_CASES } from './cases-pools.ts'
import { PREEMPT_CASES } from './cases-preempt.ts'
import { ROOM_CASES } from './cases-room.ts'
import { SELF_AND_SCHEDULE_CASES } from './cases-self.ts'
import { STORM_CASES } from './cases-storm.ts'
import { SUSPECT_CASES } from './cases-suspects.ts'
import { TEXT_CASES } from './cases-texts.ts'
import { TIME_CASES } from './cases-time.ts'
import { newJob } from './history-commands.ts'

const KEY_CASES: readonly Case[] = [
  {
    name: 'answers a taken key with its owner, or refuses a job that brings its own id',
    run: async ({ add, statuses, expect }) => {
      await add({ id: 'a', key: 'k' })
      const minted = await add({ id: 'm', key: 'k', minted: true })
      expect(minted).toMatchObject({ status: 'done', jobs: [{ added: false, job: { id: 'a' } }] })
      expect(await add({ id: 'b', key: 'k' })).toEqual({
        status: 'refused',
        refusals: [{ index: 0, reason: 'key', key: 'k', owner: 'a' }],
      })
      expect(await statuses('m', 'b')).toEqual(['nobody', 'nobody'])
    },
  },
  {
    name: 'lets jobs of one group share a key only as one job',
    run: async ({ add, statuses, expect }) => {
      const answer = await add({ id: 'a', key: 'k' }, { id: 'm', key: 'k', minted: true })
      const jobs = answer.status === 'done' ? answer.jobs : []
      expect(jobs.map(({ added, job }) => [added, job.id])).toEqual([
        [true, 'a'],
        [false, 'a'],
      ])
      expect((await add({ id: 'b', key: 'l' }, { id: 'c', key: 'l' })).status).toBe('refused')
      expect(await statuses('a', 'm', 'b', 'c')).toEqual(['ready', 'nobody', 'nobody', 'nobody'])
    },
  },
  {
    name: 'frees the key of a failed or cancelled job at once, that of a success after its window',
    run: async ({ add, take, tell, clock, expect }) => {
      await add({ id: 'a', key: 'k', keyForMs: 100 })
      await tell('a', CANCEL)
      expect((await add({ id: 'b', key: 'k', keyForMs: 100 })).status).toBe('done')
      await take()
      await tell('b', SUCCEEDED)
      clock.advance(99)
      expect((await add({ id: 'c', key: 'k' })).status).toBe('refused')
      clock.advance(1)
      expect((await add({ id: 'c', key: 'k' })).status).toBe('done')
      await take()
      await tell('c', SUCCEEDED)
      expect((await add({ id: 'd', key: 'k' })).status).toBe('done')
    },
  },
  {
    name: 'lets an older job never free the key of a newer one (DQ-09)',
    run: async ({ store, add, take, tell, clock, expect }) => {
      await add({ id: 'old', key: 'k', keyForMs: 10 })
      await take()
      await tell('old', SUCCEEDED, { ...KEEP, successMs: 20 })
      clock.advance(20)
      await add({ id: 'new', key: 'k' })
      expect((await tell('old', OVERDUE))?.status).toBe('moved')
      expect((await store.get(['old']))[0]).toBe(null)
      expect(await add({ id: 'third', key: 'k' })).toMatchObject({
        refusals: [{ reason: 'key', owner: 'new' }],
      })
    },
  },
  {
    name: 'lets a key go with the record of its owner (DQ-08)',
    run: async ({ add, take, tell, tidy, clock, expect }) => {
      await add({ id: 'a', key: 'k', keyForMs: KEEP.successMs })
      await take()
      await tell('a', SUCCEEDED)
      clock.advance(KEEP.successMs)
      await tidy()
      expect((await add({ id: 'b', key: 'k' })).status).toBe('done')
    },
  },
  {
    name: 'refuses to revive a job whose key has another owner by now, naming it',
    run: async ({ add, take, tell, job, expect }) => {
      await add({ id: 'a', key: 'k' })
      await take()
      await tell('a', FAILED)
      await add({ id: 'b', key: 'k' })
      const refused = { status: 'refused', why: { reason: 'key', owner: 'b' } }
      expect(await tell('a', RETRY)).toMatchObject(refused)
      await tell('b', CANCEL)
      expect((await tell('a', RETRY))?.status).toBe('moved')
      expect((await add({ id: 'c', key: 'k' })).status).toBe('refused')
      expect((await job('a')).status).toBe('ready')
    },
  },
]

const LANE_CASES: readonly Case[] = [
  {
    name: 'runs the jobs of a lane one at a time, best rank next, retries included',
    run: async ({ add, take, tell, statuses, expect }) => {
      await add({ id: 'a', exclusive: 'l', ...PATIENT })
      await take()
      await add({ id: 'b', exclusive: 'l' }, { id: 'c', exclusive: 'l', priority: 60 })
      expect(await take(9)).toEqual([])
      await tell('a', FAILED_ONCE)
      expect(await statuses('a', 'b', 'c')).toEqual(['ready', 'waiting', 'waiting'])
      await take(9)
      await tell('a', SUCCEEDED)
      expect(await statuses('b', 'c')).toEqual(['waiting', 'ready'])
    },
  },
  {
    name: 'lets the holder of a lane yield to a better-ranked arrival until its first start',
    run: async ({ store, add, take, statuses, expect }) => {
      await add({ id: 'a', exclusive: 'l', enqueueTimeoutMs: 50 })
      await add({ id: 'equal', exclusive: 'l' })
      await add({ id: 'better', exclusive: 'l', priority: 60 })
      expect(await statuses('a', 'equal', 'better')).toEqual(['waiting', 'waiting', 'ready'])
      expect((await store.standing('a')).laneHolder).toBe('better')
      expect((await store.get(['a']))[0]?.deadline).toBe(0)
      const { events } = await store.events(0, 10)
      expect(events.slice(-2).map(({ job, event }) => `${job} ${event}`)).toEqual([
        'a job:waiting',
        'better job:added',
      ])
      await take()
      await add({ id: 'best', exclusive: 'l', priority: 70 })
      expect(await statuses('better', 'best')).toEqual(['running', 'waiting'])
    },
  },
  {
    name: 'keeps waiters in the order in which they asked, not in that of their release',
    run: async ({ add, take, tell, clock, statuses, expect }) => {
      await add({ id: 'a', exclusive: 'l' }, { id: 'p' })
      await take(9)
      await add({ id: 'late', exclusive: 'l', ...on('p') })
      clock.advance(1)
      await add({ id: 'early', exclusive: 'l' })
      clock.advance(1)
      await tell('p', SUCCEEDED)
      expect(await statuses('late', 'early')).toEqual(['waiting', 'waiting'])
      await tell('a', SUCCEEDED)
      expect(await statuses('late', 'early')).toEqual(['waiting', 'ready'])
    },
  },
  {
    name: 'admits nobody when a waiter is cancelled, nor before a hold is settled',
    run: async ({ add, take, tell, statuses, expect }) => {
      await add(...['a', 'b', 'c'].map((id) => ({ id, exclusive: 'l' })))
      await take(9)
      await tell('b', CANCEL)
      expect(await statuses('a', 'c')).toEqual(['running', 'waiting'])
      await tell('a', CANCEL)
      expect(await statuses('a', 'c')).toEqual(['cancelled', 'waiting'])
      await tell('a', SETTLED)
      expect(await statuses('c')).toEqual(['ready'])
    },
  },
]

const GROUP_CASES: readonly Case[] = [
  {
    name: 'stores a group whole or not at all, naming the place of each offender (C67)',
    run: async ({ store, add, expect }) => {
      await add({ id: 'there', key: 'k' })
      const answer = await add(
        { id: 'a' },
        { id: 'there', payload: '"other"' },
        { id: 'b', key: 'k' },
        { id: 'a' },
        { id: 'c' },
      )
      expect(answer).toEqual({
        status: 'refused',
        refusals: [
          { index: 1, reason: 'duplicate', id: 'there' },
          { index: 2, reason: 'key', key: 'k', owner: 'there' },
          { index: 3, reason: 'duplicate', id: 'a' },
        ],
      })
      const { jobs } = await store.list({ after: 0, limit: 10 })
      expect(jobs.map(({ id }) => id)).toEqual(['there'])
    },
  },
  {
    name: 'adds nothing when a submission is repeated, and still refuses an id twice in a group',
    run: async ({ store, add, expect }) => {
      const jobs = ['a', 'b', 'c'].map((id) => ({ id }))
      await add(...jobs)
      const again = await add(...jobs, { id: 'd' })
      const answers = again.status === 'done' ? again.jobs : []
      expect(answers.map(({ added }) => added)).toEqual([false, false, false, true])
      expect((await store.list({ after: 0, limit: 10 })).jobs.length).toBe(4)
      expect(await add({ id: 'a' }, { id: 'a' })).toEqual({
        status: 'refused',
        refusals: [{ index: 1, reason: 'duplicate', id: 'a' }],
      })
    },
  },
  {
    name: 'lets one refused group leave the others of the call alone',
    run: async ({ store, statuses, expect }) => {
      const group = (...ids: string[]) => ({
        jobs: ids.map((id) => newJob(id)),
        unknownDeps: 'wait' as const,
      })
      const { answer } = await store.insert([group('a'), group('b', 'b'), group('a', 'c')], false)
      expect(answer.map(({ status }) => status)).toEqual(['done', 'refused', 'done'])
      expect(await statuses('a', 'b', 'c')).toEqual(['ready', 'nobody', 'ready'])
    },
  },
  {
    name: 'keeps references, and takes the same one for the same payload',
    live: true,
    run: async ({ add, take, expect }) => {
      const value = { self: () => value }
      const body = () => value
      const payload = new Live(value)
      await add({ id: 'a', type: 'unserved', payload, body })
      const again = await add({ id: 'a', type: 'unserved', payload: new Live(value), body })
      expect(again.status).toBe('done')
      expect((await add({ id: 'a', type: 'unserved', payload: new Live({}) })).status).toBe(
        'refused',
      )
      const [job] = await take()
      expect([job?.id, job?.body === body]).toEqual(['a', true])
      expect(job?.payload instanceof Live && job.payload.value === value).toBe(true)
    },
  },
]

const READ_CASES: readonly Case[] = [
  {
    name: 'pages through jobs without losing or doubling one while they move',
    run: async ({ store, add, take, tell, expect }) => {
      const ids = Array.from({ length: 25 }, (_, index) => `j${index}`)
      await add(...ids.map((id) => ({ id })))
      const seen: string[] = []
      for (let after: number | null = 0; after !== null; ) {
        const page = await store.list({ after, limit: 4 })
        seen.push(...page.jobs.map(({ id }) => id))
        after = page.after
        for (const job of await take(2)) await tell(job.id, SUCCEEDED)
        await add({ id: `new${seen.length}` })
      }
      expect(seen.slice(0, 25)).toEqual(ids)
      expect(new Set(seen).size).toBe(seen.length)
    },
  },
  {
    name: 'writes one record per transition; folding them gives the states',
    run: async ({ store, add, take, tell, tidy, clock, expect }) => {
      await add({ id: 'a', ...PATIENT }, { id: 'b', ...on('a') }, { id: 'c', exclusive: 'l' })
      await add({ id: 'd', exclusive: 'l', priority: 60 }, { id: 'e', delayMs: 5 })
      await take(2)
      await tell('a', FAILED_ONCE)
      await tell('d', CANCEL)
      await tell('d', SETTLED)
      clock.advance(5)
      await take(9)
      await tell('a', FAILED)
      await tidy()
      await tell('a', RETRY)
      const { events, oldest, last } = await store.events(0, 1_000)
      expect([oldest <= (events[0]?.seq ?? 0), last]).toEqual([true, events.at(-1)?.seq])
      const states = new Map<string, string>()
      for (const { job, from, to } of events) {
        expect(from).toBe(states.get(job) ?? null)
        states.set(job, to)
      }
      const { jobs } = await store.list({ after: 0, limit: 10 })
      expect(jobs.map(({ id, status }) => [id, status])).toEqual([...states])
    },
  },
  {
    name: 'says with each record who, which attempt, and why',
    run: async ({ store, add, take, tell, tidy, expect }) => {
      await add({ id: 'a' }, { id: 'b', ...on('a') })
      await take(1, 'w1')
      await tell('a', FAILED)
      await tidy()
      const { events } = await store.events(0, 10)
      expect(events.map(({ seq: _, at: __, type: ___, pool: ____, ...rest }) => rest)).toEqual([
        { job: 'a', from: null, to: 'ready', attempt: 0, event: 'job:added' },
        { job: 'b', from: null, to: 'waiting', attempt: 0, event: 'job:added' },
        { job: 'a', from: 'ready', to: 'running', attempt: 1, event: 'job:running', worker: 'w1' },
        {
          job: 'a',
          from: 'running',
          to: 'failed',
          attempt: 1,
          event: 'job:failed',
          code: 'E_NO',
          worker: 'w1',
        },
        {
          job: 'b',
          from: 'waiting',
          to: 'cancelled',
          attempt: 0,
          event: 'job:cancelled',
          code: 'DEPENDENCY_FAILED',
          cause: 'a',
        },
      ])
    },
  },
  {
    name: 'drops log records when their time is over, and names the oldest that is left',
    run: async ({ store, add, clock, expect }) => {
      await add({ id: 'a' }, { id: 'b' })
      clock.advance(100)
      await add({ id: 'c' })
      await store.overdue({ limit: 1, keepLogMs: 100 }, false)
      expect((await store.events(0, 10)).events.length).toBe(3)
      await store.overdue({ limit: 1, keepLogMs: 99 }, false)
      const { events, oldest } = await store.events(0, 10)
      expect(events.map(({ job, seq }) => [job, seq === oldest])).toEqual([['c', true]])
    },
  },
  {
    name: 'drops no log record that is written beside the sweep, when all others are too old',
    run: async ({ store, add, clock, expect }) => {
      await add({ id: 'a' })
      clock.advance(100)
      const [, { answer }] = await Promise.all([
        add({ id: 'b' }),
        store.overdue({ limit: 1, keepLogMs: 50 }, false),
      ])
      expect((await store.events(0, 10)).events.map(({ job }) => job)).toEqual(['b'])
      expect(answer.nextQuietAt).toBe(clock.now() + 51)
    },
  },
  {
    name: 'hands over what a call wrote to the log, if it was asked to tell',
    run: async ({ store, add, take, expect }) => {
      await add({ id: 'a' })
      const ask = { holder: 'w', leaseMs: 1, max: 1, types: ['alpha'] }
      const told = await store.lease(ask, true)
      const { events } = await store.events(0, 10)
      expect(told.events).toEqual(events.slice(1))
      await add({ id: 'b' })
      expect((await store.lease(ask, false)).events).toEqual([])
      expect(await take()).toEqual([])
    },
  },
  {
    name: 'counts by type, pool, failure and slot what a listing would count',
    run: async ({ store, add, take, tell, expect }) => {
      await add({ id: 'a' }, { id: 'b', type: 'beta' }, { id: 'c', pool: 'io' })
      await add({ id: 'd', delayMs: 9 }, { id: 'e', ...on('nobody') })
      await take(9)
      await tell('a', FAILED)
      await tell('b', CANCEL)
      const { types, pools, failures, held } = await store.count()
      expect(types.alpha).toMatchObject({ failed: 1, running: 1, pending: 1, waiting: 1 })
      expect(types.beta).toMatchObject({ cancelled: 1, running: 0 })
      expect([pools.default?.running, pools.io?.running]).toEqual([1, 1])
      expect({ ...failures }).toEqual({ E_NO: 1 })
      expect(held.map(({ id }) => id).sort()).toEqual(['b', 'c'])
    },
  },
  {
    name: 'says whether a live worker serves a type',
    run: async ({ store, add, clock, expect }) => {
      await add({ id: 'a' }, { id: 'b', type: 'beta' })
      const served = async () => {
        const [a, b] = [await store.standing('a'), await store.standing('b')]
        return [a.served, b.served]
      }
      const beat = { holder: 'w', name: 'w', types: ['alpha'], zombies: 0, settings: '' }
      await store.beat({ ...beat, full: false, ttlMs: 100 })
      expect(await served()).toEqual([true, false])
      clock.advance(100)
      expect(await served()).toEqual([false, false])
      await store.beat({ ...beat, full: false, ttlMs: 100 })
      await store.beat({ ...beat, full: false, ttlMs: 0 })
      expect(await served()).toEqual([false, false])
    },
  },
  {
    name: 'hints at ready jobs, at ends, and at holders of what was cancelled',
    hints: true,
    run: async ({ store, add, take, tell, expect }) => {
      const hints: Hint[] = []
      const stop = await store.watch((hint) => hints.push(hint))
      await add({ id: 'a' })
      expect(hints.some((hint) => hint.ready)).toBe(true)
      await take()
      await tell('a', CANCEL)
      expect(hints.some((hint) => hint.ended.includes('a'))).toBe(true)
      expect(hints.some((hint) => hint.holders.includes('worker'))).toBe(true)
      await stop()
      const before = hints.length
      await add({ id: 'b' })
      expect(hints.length).toBe(before)
    },
  },
]

export const CASES: readonly Case[] = [
  ...LEASE_CASES,
  ...POOL_CASES,
  ...PREEMPT_CASES,
  ...BREAKER_CASES,
  ...GRAPH_CASES,
  ...FLOW_CASES,
  ...KEY_CASES,
  ...LANE_CASES,
  ...GROUP_CASES,
  ...READ_CASES,
  ...STORM_CASES,
  ...SUSPECT_CASES,
  ...TIME_CASES,
  ...TEXT_CASES,
  ...ROOM_CASES,
  ...SELF_AND_SCHEDULE_CASES,
]
