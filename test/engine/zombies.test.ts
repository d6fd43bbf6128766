// Owns the promise about bodies that do not stop: never more zombies than there may be. One for
// whom there is no room keeps its lease, and with it its slot, until there is.

import { describe, expect, it } from 'vitest'
import { body, cluster, codeOf, ignores, watchForLeaks, world } from './helpers.ts'

watchForLeaks()

/** Two jobs whose bodies do not stop, one of them a zombie already, and no room for the other. */
async function crowded(options: object = {}) {
  const it = world()
  const scheduler = it.open({ concurrency: 3, graceMs: 500, maxZombies: 1, ...options })
  const announced: string[] = []
  scheduler.on('job:zombie', ({ job }) => announced.push(job))
  const works = [body<string>(), body<string>()] as const
  const [first, second] = await scheduler.addJobs([
    { id: 'first', timeout: 100, execute: works[0].execute },
    { id: 'second', timeout: 200, execute: works[1].execute },
  ])
  await it.runtime.advance(10_000)
  if (first === undefined || second === undefined) throw new Error('two jobs were added')
  return { ...it, scheduler, announced, works, first, second }
}

const idsOf = (zombies: readonly { readonly id: string }[]) => zombies.map(({ id }) => id)

describe('a body that does not stop when there is no room for a zombie', () => {
  it('keeps its slot, and its job goes on running; people are told', async () => {
    const { scheduler, second, announced, warnings, runtime } = await crowded()
    expect(idsOf(scheduler.zombies())).toEqual(['first'])
    expect(announced).toEqual(['first'])
    expect((await second.job()).status).toBe('running')
    const { pools, zombies } = await scheduler.snapshot()
    expect([pools.default?.running, zombies]).toEqual([1, 1])
    expect(warnings()).toEqual([
      'job second does not stop, and keeps its slot: there is no room for a zombie more ' +
        '(maxZombies 1).',
    ])
    const next = await scheduler.addJob({ execute: () => 1 })
    await runtime.advance(60_000)
    expect((await next.job()).status).toBe('ready')
    const { text } = await scheduler.explain('second')
    expect(text).toContain('is over, at which its worker tells it to stop. It keeps its slot until')
    expect(text).not.toContain('Cancel it')
  })

  it('is a zombie as soon as there is room, and its job ends as it would have', async () => {
    const { scheduler, second, announced, works, runtime, fails, pass } = await crowded()
    const epoch = runtime.now() - runtime.monotonic()
    works[0].end('far too late')
    expect((await fails(second.result())).code).toBe('EXECUTION_TIMEOUT')
    expect(announced).toEqual(['first', 'second'])
    // Its grace was over long ago, and that is what the record says.
    expect(scheduler.zombies()).toMatchObject([{ id: 'second', since: epoch + 700 }])
    const next = await scheduler.addJob({ execute: () => 'at last' })
    await runtime.advance(1_000)
    expect((await next.job()).status).toBe('ready')
    works[1].end('far too late')
    expect(await pass(next.result())).toBe('at last')
    expect(scheduler.zombies()).toEqual([])
    expect((await second.job()).status).toBe('failed')
  })

  it('may still succeed, as in its grace, and leaves the others where they are', async () => {
    const { scheduler, second, works, pass } = await crowded()
    works[1].end('the truth')
    expect(await pass(second.result())).toBe('the truth')
    expect(idsOf(scheduler.zombies())).toEqual(['first'])
  })

  it('delays the next attempt of its job until then', async () => {
    const it = world()
    const scheduler = it.open({ concurrency: 3, graceMs: 0, maxZombies: 1 })
    const blocker = body()
    await scheduler.addJob({ timeout: 100, execute: blocker.execute })
    const starts: number[] = []
    const handle = await scheduler.addJob({
      timeout: 200,
      retries: 1,
      backoff: { type: 'fixed', delay: 0, jitter: false },
      execute: ({ attempt }) => {
        starts.push(it.runtime.monotonic())
        return attempt === 1 ? ignores(it.runtime, 2_000)() : 'second time'
      },
    })
    await it.runtime.advance(1_000)
    expect(starts).toEqual([0])
    blocker.end(undefined)
    // The body goes on as a zombie, in the place of the other: nothing starts before it ends.
    expect(await it.pass(handle.result())).toBe('second time')
    expect(starts).toEqual([0, 2_000])
  })

  it('whose job is cancelled keeps the hold, and there is nothing to retry before', async () => {
    const { scheduler, second, works, runtime } = await crowded()
    expect(await second.cancel()).toBe(true)
    await runtime.advance(60_000)
    expect((await scheduler.explain('second')).reason).toBe('stopping')
    expect(await scheduler.retry('second')).toBe(false)
    works[0].end('late')
    await runtime.advance(1)
    expect(idsOf(scheduler.zombies())).toEqual(['second'])
    expect((await scheduler.snapshot()).pools.default?.running).toBe(0)
    expect(await scheduler.retry('second')).toBe(true)
  })

  it('does not hold up a scheduler that closes, and is not on the list beyond its length', async () => {
    const { scheduler, pass, runtime, works, second } = await crowded()
    const result = codeOf(second.result())
    const at = runtime.monotonic()
    await pass(scheduler.close())
    expect(runtime.monotonic()).toBe(at)
    expect(await result).toBe('EXECUTION_TIMEOUT')
    expect(idsOf(scheduler.zombies())).toEqual(['first'])
    works[1].end('late')
    await runtime.drain()
    expect(idsOf(scheduler.zombies())).toEqual(['first'])
    works[0].end('late')
    await runtime.drain()
    expect(scheduler.zombies()).toEqual([])
  })

  it('that outlives its grace while the scheduler closes does not hold it up either', async () => {
    const it = world()
    const store = it.store()
    const scheduler = it.open({ store, graceMs: '5s', maxZombies: 1 })
    const jobs = [1, 2, 3].map((n) => ({
      id: `j${n}`,
      execute: ignores(it.runtime, 600_000, 'late'),
    }))
    await scheduler.addJobs(jobs)
    await it.runtime.advance(1)
    await it.pass(scheduler.close({ drainMs: 999 }))
    expect(it.runtime.monotonic()).toBe(6_000)
    expect(scheduler.zombies()).toHaveLength(1)
    const other = it.open({ store, autoStart: false })
    expect((await other.snapshot()).states.ready).toBe(3)
  })
})

describe('the lease of a body for which there is no room', () => {
  const LEASE = 3_000

  async function clustered() {
    const it = cluster(['w1', 'w2'], { leaseMs: LEASE, graceMs: 500, maxZombies: 1 })
    const [w1, w2] = it.nodes
    const works = [body<string>(), body<string>()] as const
    w1.scheduler.define('first', { timeout: 100 }, works[0].execute)
    w1.scheduler.define('second', { timeout: 200, retries: 5 }, works[1].execute)
    await w1.scheduler.start()
    await w1.scheduler.addJobs([
      { id: 'first', type: 'first' },
      { id: 'second', type: 'second' },
    ])
    await it.runtime.advance(1_000)
    const elsewhere: number[] = []
    w2.scheduler.define('second', { timeout: 200, retries: 5 }, ({ attempt }) => {
      elsewhere.push(attempt)
      return 'done'
    })
    await w2.scheduler.start()
    return { ...it, w1, w2, works, elsewhere }
  }

  it('is extended for as long as it takes: nobody else starts the job', async () => {
    const { w1, w2, works, elsewhere, runtime } = await clustered()
    await runtime.advance(20 * LEASE)
    expect(elsewhere).toEqual([])
    expect(await w2.scheduler.job('second')).toMatchObject({ status: 'running', lost: 0 })
    works[0].end('late')
    await runtime.advance(60_000)
    expect(idsOf(w1.scheduler.zombies())).toEqual(['second'])
    expect(elsewhere).toEqual([2])
    expect(await w2.scheduler.job('second')).toMatchObject({ status: 'success', lost: 0 })
  })

  it('can be lost like any other: then it has nothing to keep, and the list stays as it is', async () => {
    const { w1, w2, works, elsewhere, runtime } = await clustered()
    w1.stall()
    await runtime.advance(2 * LEASE)
    expect(elsewhere).toEqual([2])
    w1.wake()
    await runtime.advance(LEASE)
    expect(idsOf(w1.scheduler.zombies())).toEqual(['first'])
    expect(await w2.scheduler.job('second')).toMatchObject({ status: 'success', lost: 1 })
    works[0].end('late')
    await runtime.advance(1)
    expect(idsOf(w1.scheduler.zombies())).toEqual(['second'])
    works[1].end('much too late')
    await runtime.advance(1)
    expect(w1.scheduler.zombies()).toEqual([])
    expect(await w2.scheduler.job('second')).toMatchObject({ result: 'done' })
  })
})
