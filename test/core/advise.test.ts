// Owns what a stretch of the log is taken to show. May never accept advice without its figures.

import { describe, expect, it } from 'vitest'
import { ADVICE, type AdviceSettings, adviseOn } from '../../src/core/advise.ts'
import { type Digest, Digester } from '../../src/core/digest.ts'
import type { JobEvent, JobStatus } from '../../src/core/job.ts'
import type { Advice } from '../../src/core/types.ts'

/** A log that is written by hand: jobs come, run and end at given instants. */
class Story {
  readonly #events: Omit<JobEvent, 'seq'>[] = []
  #jobs = 0

  #add(at: number, job: string, from: JobStatus | null, to: JobStatus, more: object): void {
    const rest = { type: 't', pool: 'p', attempt: 1, event: `job:${to}` }
    this.#events.push({ at, job, from, to, ...rest, ...more })
  }

  /** A job that is added, started and ended then; an end that is not given is not there yet. */
  job(added: number, started?: number, ended?: number, more: object = {}, code?: string): this {
    this.#jobs += 1
    const id = `j${this.#jobs}`
    this.#add(added, id, null, 'ready', { event: 'job:added', ...more })
    if (started !== undefined) this.#add(started, id, 'ready', 'running', more)
    if (ended === undefined) return this
    const end = code === undefined ? {} : { code }
    const to = code === undefined ? 'success' : 'failed'
    this.#add(ended, id, started === undefined ? 'ready' : 'running', to, { ...end, ...more })
    return this
  }

  /** A job whose first attempt ended by this event, and that then ran once more, to an end. */
  again(at: number, event: string, code?: string): this {
    this.#jobs += 1
    const id = `j${this.#jobs}`
    this.#add(at, id, null, 'ready', { event: 'job:added', attempt: 0 })
    this.#add(at, id, 'ready', 'running', {})
    const isEnd = event === 'job:failed'
    this.#add(at + 1, id, 'running', isEnd ? 'failed' : 'pending', { event })
    if (isEnd) this.#add(at + 2, id, 'failed', 'ready', { event: 'job:revived' })
    else this.#add(at + 2, id, 'pending', 'ready', {})
    this.#add(at + 2, id, 'ready', 'running', { attempt: 2 })
    const end = code === undefined ? {} : { code }
    this.#add(at + 3, id, 'running', code === undefined ? 'success' : 'failed', {
      ...{ attempt: 2 },
      ...end,
    })
    return this
  }

  /** A job that is added for later, and is not due yet. */
  later(at: number): this {
    this.#jobs += 1
    this.#add(at, `j${this.#jobs}`, null, 'pending', { event: 'job:added', attempt: 0 })
    return this
  }

  digest(): Digest {
    const digester = new Digester()
    const sorted = this.#events.toSorted((a, b) => a.at - b.at)
    for (const [seq, event] of sorted.entries()) digester.add({ seq, ...event })
    return digester.digest()
  }
}

const NONE: AdviceSettings = { timeouts: {}, concurrency: { p: 100 } }

function of(kind: string, story: Story, settings: AdviceSettings = NONE): Advice | undefined {
  return adviseOn(story.digest(), settings).find((each) => each.kind === kind)
}

/** So many runs, one after the other, with a pause, each as long as is said. */
function runs(count: number, ms: (n: number) => number, more: object = {}): Story {
  const story = new Story()
  let at = 0
  for (let n = 0; n < count; n += 1) {
    story.job(at, at, at + ms(n), more)
    at += ms(n) + 1_000
  }
  return story
}

describe('a digest of the log', () => {
  it('knows how long each run took, and how full the pool was for how long', () => {
    const story = new Story().job(0, 0, 30).job(0, 10, 30).job(5, 30, 40)
    const { types, pools, entries, from, to } = story.digest()
    expect([entries, from, to]).toEqual([9, 0, 40])
    expect(types.t).toMatchObject({ starts: 3, retries: 0, runs: [30, 20, 10] })
    const { levels, queue, arrived, left, runs } = pools.p as Digest['pools'][string]
    expect([arrived, left]).toEqual([3, 3])
    expect(levels.map(({ running, ms }) => [running, ms])).toEqual([
      [0, 0],
      [1, 20],
      [2, 20],
    ])
    expect(queue).toBe((10 + 25) / 40)
    expect(runs).toEqual([
      { ms: 30, running: 50 / 30 },
      { ms: 20, running: 2 },
      { ms: 10, running: 1 },
    ])
  })

  it('that begins in the middle of things has nobody run before it began to count', () => {
    const digester = new Digester()
    const common = { type: 't', pool: 'p', attempt: 1, event: 'job:success' }
    for (const [seq, job] of ['a', 'b', 'c'].entries()) {
      const at = 100 + seq
      digester.add({ seq, at, job, from: 'running', to: 'success', ...common })
    }
    const { pools, types } = digester.digest()
    expect(types.t?.runs).toEqual([])
    expect(pools.p?.levels.map(({ running }) => running)).toEqual([0, 1, 2, 3])
    expect(pools.p).toMatchObject({ arrived: 0, left: 3 })
  })

  it('of nothing is nothing', () => {
    expect(adviseOn(new Digester().digest(), NONE)).toEqual([])
  })
})

describe('advice on timeouts', () => {
  const typical = () => runs(100, (n) => (n === 99 ? 5_000 : n >= 98 ? 420 : 100))

  it('gives two to three times the p99 where there is none', () => {
    const advice = of('timeout', typical())
    expect(advice?.figures).toEqual({
      runs: 100,
      p50Ms: 100,
      p99Ms: 420,
      timeoutMs: 0,
      timeouts: 0,
      suggestedMs: 1_000,
    })
    expect(advice).toMatchObject({ kind: 'timeout', type: 't' })
    expect(advice?.text).toContain('100 ms (half of them) to 420 ms (99 in 100)')
    expect(advice?.text).toContain('Give it a timeout of 1 s.')
  })

  it.each([1, 3, 7, 10, 42, 99, 1_234, 86_400_000])('always suggests that of %d ms', (ms) => {
    const suggested =
      of(
        'timeout',
        runs(30, () => ms),
      )?.figures.suggestedMs ?? 0
    expect(suggested).toBeGreaterThanOrEqual(2 * ms)
    expect(suggested).toBeLessThanOrEqual(3 * ms)
  })

  it('has nothing to say of one that fits, or of a few runs', () => {
    const set = (ms: number) => ({ ...NONE, timeouts: { t: ms } })
    expect(of('timeout', typical(), { ...NONE, timeouts: { t: null } })).toBe(undefined)
    for (const ms of [1_000, 2_000, 5_000])
      expect(of('timeout', typical(), set(ms))).toBe(undefined)
    expect(
      of(
        'timeout',
        runs(19, () => 100),
      ),
    ).toBe(undefined)
  })

  it('says that one is far too long, or leaves no room', () => {
    const set = (ms: number) => ({ ...NONE, timeouts: { t: ms } })
    expect(of('timeout', typical(), set(60_000))?.text).toContain('keep its slot for long')
    expect(of('timeout', typical(), set(430))?.text).toContain('hardly any room')
  })

  it('says that one cuts off what might have succeeded', () => {
    const story = typical()
    const late = { event: 'job:timeout' }
    for (let n = 0; n < 5; n += 1) story.job(0, 0, 500, late, 'EXECUTION_TIMEOUT')
    const advice = of('timeout', story, { ...NONE, timeouts: { t: 500 } })
    expect(advice?.text).toContain('cut off 5 of 105 attempts')
    expect(advice?.figures.suggestedMs).toBe(1_000)
  })
})

describe('advice on queues', () => {
  /** One job arrives each so many ms, one is done each so many. */
  function flow(arriveMs: number, leaveMs: number, count = 200): Story {
    const story = new Story()
    for (let n = 0; n < count; n += 1) {
      const at = n * arriveMs
      const start = Math.max(at, n * leaveMs)
      const isSeen = start + leaveMs <= count * arriveMs
      story.job(at, isSeen ? start : undefined, isSeen ? start + leaveMs : undefined)
    }
    return story
  }

  it('says that more arrives than leaves, with both rates', () => {
    const advice = of('queue-grows', flow(100, 200))
    expect(advice).toMatchObject({ pool: 'p', figures: { arrived: 200, left: 100 } })
    expect(advice?.figures.arrivedPerSecond).toBeCloseTo(10, 0)
    expect(advice?.figures.leftPerSecond).toBeCloseTo(5, 0)
  })

  it('counts no job as come before it could start, and each once', () => {
    const story = flow(100, 100)
    for (let n = 0; n < 200; n += 1) story.later(n * 100)
    expect(of('queue-grows', story)).toBe(undefined)
    const { arrived, left } = new Story().again(0, 'job:retry').later(0).digest().pools.p ?? {}
    expect([arrived, left]).toEqual([1, 1])
    const revived = new Story().again(0, 'job:failed').digest().pools.p
    expect([revived?.arrived, revived?.left]).toEqual([2, 2])
  })

  it('has nothing to say of a balance, or of a burst that is worked off', () => {
    expect(of('queue-grows', flow(100, 100))).toBe(undefined)
    const burst = new Story()
    for (let n = 0; n < 200; n += 1) burst.job(0, n * 10, n * 10 + 10)
    expect(of('queue-grows', burst)).toBe(undefined)
  })
})

describe('advice on what lies behind', () => {
  /** Rounds of so many side by side, each taking what is said. */
  function rounds(story: Story, from: number, width: number, ms: number, count: number): number {
    let at = from
    for (let round = 0; round < count; round += 1) {
      for (let n = 0; n < width; n += 1) story.job(at, at, at + ms)
      at += ms
    }
    return at
  }

  it('says that runs get longer with concurrency, and no more are done', () => {
    const story = new Story()
    const end = rounds(story, 0, 5, 100, 50)
    rounds(story, end, 20, 400, 13)
    const advice = of('downstream', story)
    expect(advice?.figures).toMatchObject({
      lowRunning: 5.29,
      highRunning: 20,
      lowRunMs: 105.88,
      highRunMs: 400,
      lowPerSecond: 50,
      highPerSecond: 50,
    })
    expect(advice?.text).toContain('More concurrency will not help')
  })

  it('has nothing to say where more at once are more in all', () => {
    const story = new Story()
    const end = rounds(story, 0, 5, 100, 50)
    rounds(story, end, 20, 110, 47)
    expect(of('downstream', story)).toBe(undefined)
  })

  it('says so of full slots and a short queue', () => {
    const story = new Story()
    rounds(story, 0, 4, 100, 20)
    const four = { ...NONE, concurrency: { p: 4 } }
    const advice = of('downstream', story, four)
    expect(advice?.figures).toEqual({ concurrency: 4, fullShare: 1, queue: 0 })
    expect(advice?.text).toContain('are full 100 % of the time')
    expect(of('downstream', story, { ...NONE, concurrency: { p: 5 } })).toBe(undefined)
  })

  it('does not, where the queue is long: there more slots would be of use', () => {
    const story = new Story()
    for (let n = 0; n < 100; n += 1) story.job(0, n * 10, n * 10 + 10)
    expect(of('downstream', story, { ...NONE, concurrency: { p: 1 } })).toBe(undefined)
  })
})

describe('advice on attempts', () => {
  const times = (count: number, act: (n: number) => void) => {
    for (let n = 0; n < count; n += 1) act(n)
  }

  it('names retries that never succeed', () => {
    const story = new Story()
    times(10, (n) => story.again(n * 10, 'job:retry', 'BROKEN'))
    times(10, (n) => story.again(n * 10, 'job:timeout', 'BROKEN'))
    expect(of('futile-retries', story)).toMatchObject({
      type: 't',
      figures: { retries: 20, succeeded: 0 },
    })
    story.again(200, 'job:retry')
    expect(of('futile-retries', story)).toBe(undefined)
  })

  it.each(['job:failed', 'job:preempted', 'job:returned', 'job:lost'])(
    'takes a start after %s for no retry: nobody has asked for any',
    (event) => {
      const story = new Story()
      times(40, (n) => story.again(n * 10, event, 'BROKEN'))
      expect(story.digest().types.t).toMatchObject({ starts: 80, retries: 0 })
      expect(of('futile-retries', story)).toBe(undefined)
    },
  )

  it('names losses and silences, where they are many', () => {
    const story = new Story()
    times(50, (n) => story.job(n, n, n + 1))
    times(3, () => story.job(0, 0, 1, { event: 'job:lost' }, 'LOST'))
    times(3, () => story.job(0, 0, 1, { event: 'job:timeout' }, 'HEARTBEAT_LOST'))
    expect(of('lost', story)?.figures).toEqual({ lost: 3, starts: 56 })
    expect(of('silent', story)?.figures).toEqual({ silent: 3, starts: 56 })
    times(50, (n) => story.job(n, n, n + 1))
    expect([of('lost', story), of('silent', story)]).toEqual([undefined, undefined])
  })

  it('names jobs that waited too long for a slot', () => {
    const story = new Story()
    times(50, (n) => story.job(n, n, n + 1))
    times(3, () => story.job(0, undefined, 5, {}, 'ENQUEUE_TIMEOUT'))
    expect(of('enqueue-timeouts', story)).toMatchObject({
      pool: 'p',
      figures: { expired: 3, arrived: 53 },
    })
  })

  it('has a name for each kind, and figures with each', () => {
    const all = new Story()
    times(40, (n) => all.job(n * 10, n * 10, n * 10 + 9))
    times(20, (n) => all.again(n * 10, 'job:retry', 'BROKEN'))
    for (const { kind, figures, text } of adviseOn(all.digest(), NONE)) {
      expect(ADVICE).toContain(kind)
      expect(Object.values(figures).every(Number.isFinite)).toBe(true)
      expect(text).toMatch(/^[A-Z0-9].*\.$/)
    }
  })
})
