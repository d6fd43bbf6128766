// Owns the named cases about dependencies: quorum, ghosts, loops, doom, revival, retention.
// May never look at how a store keeps its edges.

import {
  CANCEL,
  type Case,
  edge,
  FAILED,
  KEEP,
  OVERDUE,
  on,
  RETRY,
  SUCCEEDED,
} from './cases-bench.ts'
import { newJob } from './history-commands.ts'

export const GRAPH_CASES: readonly Case[] = [
  {
    name: 'releases a job when all its dependencies have succeeded, in any order of submission',
    run: async ({ add, take, tell, statuses, expect }) => {
      await add({ id: 'child', ...on('a', 'b') }, { id: 'a' }, { id: 'b' })
      await take(9)
      await tell('b', SUCCEEDED)
      expect(await statuses('child')).toEqual(['waiting'])
      await tell('a', SUCCEEDED)
      expect(await statuses('child')).toEqual(['ready'])
    },
  },
  {
    name: 'releases once, however many dependencies end in one batch',
    run: async ({ store, add, take, tellAll, job, expect }) => {
      await add({ id: 'a' }, { id: 'b' }, { id: 'c' }, { id: 'child', ...on('a', 'b'), depMode: 1 })
      await take(9)
      await tellAll(['a', 'b', 'c'].map((id) => [id, SUCCEEDED] as const))
      expect(await job('child')).toMatchObject({ status: 'ready', needs: 0, open: 0, rev: 2 })
      const { events } = await store.events(0, 100)
      expect(events.filter((event) => event.job === 'child' && event.to === 'ready').length).toBe(1)
    },
  },
  {
    name: 'is content with any one, or with k, and dooms when too few are left',
    run: async ({ add, take, tell, job, statuses, expect }) => {
      await add({ id: 'a' }, { id: 'b' }, { id: 'c' })
      await add({ id: 'any', ...on('a', 'b', 'c'), depMode: 'any' })
      await add({ id: 'two', ...on('a', 'b', 'c'), depMode: 2 })
      await take(9)
      await tell('a', FAILED)
      expect(await job('two')).toMatchObject({ status: 'waiting', needs: 2, open: 2, deadline: 0 })
      await tell('b', SUCCEEDED)
      expect(await statuses('any', 'two')).toEqual(['ready', 'waiting'])
      await tell('c', CANCEL)
      expect(await job('two')).toMatchObject({ needs: 1, open: 0, cause: 'c' })
    },
  },
  {
    name: 'takes any end for an answer where the edge says so',
    run: async ({ add, take, tell, job, expect }) => {
      await add({ id: 'a' }, { id: 'b', deps: [edge('a', 'end')] }, { id: 'c', ...on('a') })
      await take(9)
      await tell('a', FAILED)
      expect((await job('b')).status).toBe('ready')
      expect(await job('c')).toMatchObject({ status: 'waiting', cause: 'a', open: 0 })
    },
  },
  {
    name: 'lets a job wait for an id that nobody has submitted, and run once it has succeeded',
    run: async ({ store, add, take, tell, statuses, expect }) => {
      await add({ id: 'child', ...on('later') })
      expect((await store.standing('child')).deps).toEqual([
        { ...edge('later', 'success'), status: 'unknown' },
      ])
      await add({ id: 'later' })
      expect(await statuses('child', 'later')).toEqual(['waiting', 'ready'])
      await take()
      await tell('later', SUCCEEDED)
      expect(await statuses('child')).toEqual(['ready'])
    },
  },
  {
    name: 'refuses an unknown dependency where the group asks for it, naming place and id',
    run: async ({ store, add, statuses, expect }) => {
      await add({ id: 'known' })
      const jobs = [
        { id: 'x', ...on('known', 'y') },
        { id: 'y', ...on('nobody') },
      ]
      const group = { jobs: jobs.map((job) => newJob(job.id, job)), unknownDeps: 'reject' as const }
      const { answer } = await store.insert([group], false)
      expect(answer).toEqual([
        { status: 'refused', refusals: [{ index: 1, reason: 'unknown', dep: 'nobody' }] },
      ])
      expect(await statuses('x', 'y')).toEqual(['nobody', 'nobody'])
    },
  },
  {
    name: 'refuses a loop within a group, showing its members only (C43)',
    run: async ({ store, add, expect }) => {
      const answer = await add(
        { id: 'a', ...on('b') },
        { id: 'b', ...on('c') },
        { id: 'c', ...on('d') },
        { id: 'd', ...on('b') },
        ...['e', 'f', 'g'].map((id) => ({ id })),
      )
      const [refusal] = answer.status === 'refused' ? answer.refusals : []
      expect(refusal).toMatchObject({ reason: 'cycle', index: 1 })
      const path = refusal?.reason === 'cycle' ? refusal.path : []
      expect([path.length, path[0] === path.at(-1)]).toEqual([4, true])
      expect([...new Set(path)].sort()).toEqual(['b', 'c', 'd'])
      expect((await store.list({ after: 0, limit: 10 })).jobs).toEqual([])
    },
  },
  {
    name: 'refuses a loop that is closed by a later insertion, and changes nothing (C43)',
    run: async ({ add, take, tell, statuses, expect }) => {
      await add({ id: 'a', ...on('b') })
      expect((await add({ id: 'b', ...on('a') })).status).toBe('refused')
      expect((await add({ id: 'x', ...on('a') }, { id: 'b', ...on('x') })).status).toBe('refused')
      expect((await add({ id: 'self', ...on('self') })).status).toBe('refused')
      expect(await statuses('a', 'b', 'x', 'self')).toEqual([
        'waiting',
        'nobody',
        'nobody',
        'nobody',
      ])
      await add({ id: 'b' })
      await take()
      await tell('b', SUCCEEDED)
      expect(await statuses('a')).toEqual(['ready'])
    },
  },
  {
    name: 'refuses a loop whose way up is longer than its way down, past ghosts (C43)',
    run: async ({ add, statuses, expect }) => {
      const ghosts = ['g1', 'g2', 'g3', 'g4', 'g5', 'g6', 'g7', 'g8', 'g9']
      await add({ id: 'x', ...on('other') }, { id: 'y', ...on('x', 'filler') })
      const group = [
        { id: 'filler', ...on('g0', 'y') },
        { id: 'other', ...on(...ghosts) },
      ]
      expect((await add(...group)).status).toBe('refused')
      expect((await add(...group.reverse())).status).toBe('refused')
      expect(await statuses('filler', 'other')).toEqual(['nobody', 'nobody'])
    },
  },
  {
    name: 'counts failed jobs as part of the graph: they may be revived',
    run: async ({ add, tell, expect }) => {
      await add({ id: 'a', ...on('b') })
      await tell('a', CANCEL)
      expect((await add({ id: 'b', ...on('a') })).status).toBe('refused')
      expect((await add({ id: 'b', deps: [edge('a', 'end')] })).status).toBe('done')
    },
  },
  {
    name: 'dooms at once a job that is submitted after its dependency has failed',
    run: async ({ add, take, tell, tidy, clock, job, statuses, expect }) => {
      await add({ id: 'a' })
      await take()
      await tell('a', FAILED)
      await add({ id: 'b', ...on('a') }, { id: 'c', ...on('b') })
      expect(await job('b')).toMatchObject({ status: 'waiting', cause: 'a', deadline: clock.now() })
      await tidy()
      expect(await statuses('b', 'c')).toEqual(['cancelled', 'cancelled'])
    },
  },
  {
    name: 'cancels a whole branch, each job naming the root of it, and nobody beside it',
    run: async ({ store, add, take, tell, tidy, job, statuses, expect }) => {
      await add({ id: 'root' }, { id: 'b', ...on('root') }, { id: 'c', ...on('b') })
      await add({ id: 'd', ...on('c', 'root') }, { id: 'free', ...on('other') }, { id: 'other' })
      await take(9)
      await tell('root', FAILED)
      expect((await store.count()).doomed).toBe(2)
      await tidy()
      expect(await statuses('b', 'c', 'd', 'free')).toEqual([
        'cancelled',
        'cancelled',
        'cancelled',
        'waiting',
      ])
      for (const id of ['b', 'c', 'd']) {
        expect(await job(id)).toMatchObject({ cause: 'root', code: 'DEPENDENCY_FAILED' })
      }
      expect((await store.count()).doomed).toBe(0)
    },
  },
  {
    name: 'shows a dead dependency as dead, whoever has its id now',
    run: async ({ store, add, take, tell, tidy, clock, job, expect }) => {
      await add({ id: 'a' })
      await take()
      await tell('a', FAILED)
      clock.advance(KEEP.failedMs)
      await tidy()
      await add({ id: 'any', ...on('a', 'ghost'), depMode: 'any' })
      const shown = async () => (await store.standing('any')).deps.map(({ status }) => status)
      expect(await shown()).toEqual(['failed', 'unknown'])
      await add({ id: 'a' })
      expect(await shown()).toEqual(['failed', 'unknown'])
      await take()
      await tell('a', SUCCEEDED)
      expect(await shown()).toEqual(['failed', 'unknown'])
      expect(await job('any')).toMatchObject({ needs: 1, open: 1 })
    },
  },
  {
    name: 'opens the edges of those that still hope when a job is revived',
    run: async ({ add, take, tell, job, statuses, expect }) => {
      await add({ id: 'a' }, { id: 'b' }, { id: 'any', ...on('a', 'b'), depMode: 'any' })
      await take(1)
      await tell('a', FAILED)
      expect(await job('any')).toMatchObject({ needs: 1, open: 1 })
      await tell('a', RETRY)
      expect(await job('any')).toMatchObject({ needs: 1, open: 2 })
      await take(9)
      await tell('b', FAILED)
      expect((await job('any')).cause).toBe(undefined)
      await tell('a', SUCCEEDED)
      expect(await statuses('any')).toEqual(['ready'])
    },
  },
  {
    name: 'revives a cancelled branch from above, and refuses to begin below',
    run: async ({ add, take, tell, tidy, job, expect }) => {
      await add({ id: 'a' }, { id: 'good' }, { id: 'b', ...on('good', 'a') })
      await take(9)
      await tell('good', SUCCEEDED)
      await tell('a', FAILED)
      await tidy()
      const before = await job('b')
      expect(await tell('b', RETRY)).toMatchObject({
        status: 'refused',
        why: { reason: 'doomed', dep: 'a' },
      })
      expect(await job('b')).toEqual(before)
      await tell('a', RETRY)
      expect((await tell('b', RETRY))?.status).toBe('moved')
      expect(await job('b')).toMatchObject({
        status: 'waiting',
        needs: 1,
        open: 1,
        code: undefined,
      })
      await take(9)
      await tell('a', SUCCEEDED)
      expect((await job('b')).status).toBe('ready')
    },
  },
  {
    name: 'changes nothing in a job whose revival is refused, however many edges it looked at',
    run: async ({ add, take, tell, job, expect }) => {
      await add({ id: 'a' }, { id: 'b' }, { id: 'child', ...on('a', 'b') })
      await take(9)
      await tell('a', FAILED)
      await tell('b', FAILED)
      await tell('a', RETRY)
      const before = await job('child')
      expect((await tell('child', RETRY))?.status).toBe('refused')
      expect(await job('child')).toEqual(before)
    },
  },
  {
    name: 'gives a revived job a fresh allowance, and goes on numbering its starts',
    run: async ({ add, take, tell, job, expect }) => {
      await add({ id: 'a' })
      await take()
      await tell('a', FAILED)
      await tell('a', RETRY)
      expect(await job('a')).toMatchObject({
        status: 'ready',
        attempts: 1,
        attemptsBefore: 1,
        finishedAt: 0,
        error: undefined,
      })
      expect(await take()).toMatchObject([{ starts: 2, attempts: 2 }])
    },
  },
  {
    name: 'forgets no job while a live, failed or cancelled one names it',
    run: async ({ add, take, tell, tidy, clock, job, statuses, expect }) => {
      await add({ id: 'a' }, { id: 'b', ...on('a') })
      await take()
      await tell('a', SUCCEEDED)
      clock.advance(KEEP.successMs)
      expect(await tell('a', OVERDUE)).toMatchObject({
        status: 'refused',
        why: { reason: 'named' },
      })
      expect((await job('a')).deadline).toBe(0)
      await take()
      await tell('b', FAILED)
      await tidy()
      expect(await statuses('a', 'b')).toEqual(['success', 'failed'])
      await tell('b', RETRY)
      await take()
      await tell('b', SUCCEEDED)
      expect((await job('a')).deadline).toBe(clock.now())
      await tidy()
      expect(await statuses('a', 'b')).toEqual(['nobody', 'success'])
    },
  },
  {
    name: 'resolves late dependents by the outcome of a forgotten job, for as long as it is kept',
    run: async ({ store, add, take, tell, tidy, clock, job, expect }) => {
      await add({ id: 'good' }, { id: 'bad' })
      await take(9)
      await tell('good', SUCCEEDED)
      await tell('bad', FAILED)
      clock.advance(KEEP.successMs)
      await tidy()
      expect((await store.count()).forgotten).toBe(2)
      await add({ id: 'x', ...on('good') }, { id: 'y', ...on('bad') })
      expect((await job('x')).status).toBe('ready')
      expect(await job('y')).toMatchObject({ status: 'waiting', cause: 'bad', open: 0 })
      clock.advance(KEEP.outcomesMs)
      await add({ id: 'z', ...on('good') })
      expect(await job('z')).toMatchObject({ status: 'waiting', needs: 1, open: 1 })
    },
  },
  {
    name: 'frees an id once it is forgotten; a new job under it inherits nothing (DQ-11)',
    run: async ({ store, add, take, tell, tidy, clock, job, expect }) => {
      await add({ id: 'a' }, { id: 'b', ...on('a') })
      await take()
      await tell('a', SUCCEEDED)
      await take()
      await tell('b', SUCCEEDED, { ...KEEP, successMs: 10 * KEEP.successMs })
      expect((await add({ id: 'a' })).status).toBe('done')
      clock.advance(KEEP.successMs)
      await tidy()
      expect((await add({ id: 'a', payload: '"other"' })).status).toBe('done')
      expect(await job('a')).toMatchObject({ status: 'ready', starts: 0, payload: '"other"' })
      expect(await store.dependents('a', 0, 10)).toEqual([])
    },
  },
  {
    name: 'keeps what waits for a forgotten id apart from those that named it before',
    run: async ({ add, take, tell, clock, statuses, expect }) => {
      const forgetful = { ...KEEP, outcomesMs: 0 }
      const forget = (id: string) => tell(id, OVERDUE, forgetful)
      await add({ id: 'a' }, ...['n1', 'n2', 'n3'].map((id) => ({ id, ...on('a') })))
      for (const id of ['a', 'n1', 'n2', 'n3']) {
        await take()
        await tell(id, SUCCEEDED)
      }
      clock.advance(KEEP.successMs)
      await forget('n1')
      await forget('a')
      await add({ id: 'late', ...on('a') })
      await forget('n2')
      await forget('n3')
      await add({ id: 'a' })
      expect(await statuses('a', 'late')).toEqual(['ready', 'waiting'])
      await take()
      await tell('a', SUCCEEDED)
      expect(await statuses('late')).toEqual(['ready'])
    },
  },
  {
    name: 'starts a job once that names a dependency twice (C39)',
    run: async ({ add, take, tell, statuses, expect }) => {
      await add({ id: 'a' }, { id: 'b' }, { id: 'x', ...on('a', 'a', 'b') })
      await take(9)
      await tell('a', SUCCEEDED)
      expect(await statuses('x')).toEqual(['waiting'])
      await tell('b', SUCCEEDED)
      expect(await statuses('x')).toEqual(['ready'])
      expect((await take(9)).length).toBe(1)
    },
  },
  {
    name: 'tells more dependents than one call may, in the calls that follow',
    run: async ({ store, add, take, tell, expect }) => {
      const children = Array.from({ length: 2_500 }, (_, index) => `c${index}`)
      await add({ id: 'a' }, ...children.map((id) => ({ id, ...on('a') })))
      await take()
      await tell('a', SUCCEEDED)
      for (let more = true; more; ) {
        more = (await store.overdue({ limit: 10, keepLogMs: 1_000_000 }, false)).answer.more
      }
      const { pools, fanOuts } = await store.count()
      expect([pools.default?.ready, fanOuts]).toEqual([2_500, 0])
      expect((await take(3)).length).toBe(3)
    },
  },
  {
    name: 'ends a parent and cancels its child in one batch, each on its own terms',
    run: async ({ add, take, tellAll, job, expect }) => {
      await add({ id: 'a' }, { id: 'b', ...on('a') }, { id: 'c', ...on('a') })
      await take()
      const moved = await tellAll([
        ['a', FAILED],
        ['b', CANCEL],
      ])
      expect(moved.map(({ status }) => status)).toEqual(['moved', 'moved'])
      expect(await job('b')).toMatchObject({
        status: 'cancelled',
        code: 'CANCELLED',
        cause: undefined,
      })
      expect(await job('c')).toMatchObject({ status: 'waiting', cause: 'a' })
    },
  },
]
