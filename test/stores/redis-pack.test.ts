// Owns the proof that nothing is lost on the way to the scripts and back.

import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Packable, pack, unpack } from '../../src/stores/redis/pack.ts'
import { startRedis } from '../servers/redis.ts'
import { describeOnRedis } from '../servers/suites.ts'

let client: Redis

/** What a script reads and says again. */
async function echoed(value: Packable): Promise<unknown> {
  const script = 'return cmsgpack.pack(cmsgpack.unpack(ARGV[1]))'
  const answer = await client.callBuffer('eval', script, 0, pack([value]))
  return (unpack(answer as Buffer) as unknown[])[0]
}

const NUMBERS = [
  0,
  1,
  127,
  128,
  255,
  256,
  65_535,
  65_536,
  2 ** 31,
  2 ** 32 - 1,
  2 ** 32,
  2 ** 48,
  2 ** 53 - 1,
]

describeOnRedis('what is packed', () => {
  beforeAll(async () => {
    client = new Redis((await startRedis()).url)
  })
  afterAll(() => client.disconnect())

  it.each([...NUMBERS, ...NUMBERS.slice(1).map((each) => -each), 0.5, -1.25, Infinity])(
    'has the number %d',
    async (number) => {
      expect(unpack(pack(number))).toBe(number)
      expect(await echoed(number)).toBe(number)
    },
  )

  it.each([0, 1, 10, 11, 31, 32, 255, 256, 65_535, 65_536, 100_000])(
    'has texts of %d characters, of whatever kind',
    async (length) => {
      for (const each of ['a', 'é', '€', '\u{1f600}', '\0']) {
        const text = each.repeat(length)
        expect(unpack(pack(text)) === text, `${each} here`).toBe(true)
        expect((await echoed(text)) === text, `${each} there`).toBe(true)
      }
    },
  )

  it('has lists and maps, and leaves out what is undefined', async () => {
    const list = Array.from({ length: 70_000 }, (_, at) => at)
    expect(await echoed(list)).toEqual(list)
    const map = Object.fromEntries(list.slice(0, 40).map((each) => [`n${each}`, [each, true]]))
    expect(await echoed({ ...map, none: undefined })).toEqual(map)
    expect(unpack(pack({ a: null, b: undefined, c: Buffer.from('x') }))).toEqual({
      a: null,
      c: 'x',
    })
  })

  it('is refused where it ends too early', () => {
    expect(() => unpack(pack([1, 2]).subarray(0, 2))).toThrow('ends too early')
  })
})
