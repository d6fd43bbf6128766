// Owns how pieces of Lua become a library: what is made once, and what in each call.
// May never know a piece of the store: it has pieces of its own.

import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { assemble } from '../../src/stores/redis/assembly.ts'
import { startRedis } from '../servers/redis.ts'
import { describeOnRedis } from '../servers/suites.ts'

const COUNTER = `
-- What a call begins with, and functions that another piece asks for.
local LIMIT_OF = { most = 3 }
local Counter = {}
local count, seen = 0, {
  'one of a call',
}
local last

function Counter.add()
  count = count + 1
  seen[#seen + 1] = count
  last = count
end

local function told()
  return table.concat(seen, ' ') .. ' ' .. tostring(last)
end
`

const ADD = `
for at = 1, tonumber(ARGV[1]) do
  Counter.add()
  if at > LIMIT_OF.most then error('too many') end
end
return told()
`

const EARLY = `
if ARGV[1] == 'early' then return 'before the others' end
`

const pieces = (...list: readonly (readonly [string, string])[]) => new Map(list)

describe('an assembly', () => {
  it('refuses a name that two pieces offer to others', () => {
    const twice = pieces(['a', 'local told = 1'], ['b', 'local told = 2'], ['call', 'return told'])
    const calls = new Map([['call', ['a', 'b', 'call']]])
    const act = () => assemble({ header: '', pieces: twice, calls })
    expect(act).toThrow('told is declared by a and b')
  })
})

describeOnRedis('an assembly on a server', () => {
  let client: Redis
  const run = (name: string, word: string) => client.fcall('run', 0, name, word)

  beforeAll(async () => {
    client = new Redis((await startRedis()).url)
    const all = pieces(['early', EARLY], ['counter', COUNTER], ['add', ADD], ['late', ADD])
    const calls = new Map([
      ['add', ['counter', 'add']],
      ['late', ['early', 'counter', 'late']],
    ])
    const body = assemble({ header: 'local NAME = 1', pieces: all, calls })
    const call = `local run redis.register_function('run', function(keys, argv)
      run = run or make()
      return run(argv[1], keys, { argv[2] })
    end)`
    await client.function('LOAD', `#!lua name=assembly\n${body}\n${call}`)
  })
  afterAll(() => client.disconnect())

  it('begins each call anew, also after one that ended in an error', async () => {
    expect(await run('add', '2')).toBe('one of a call 1 2 2')
    expect(await run('add', '0')).toBe('one of a call nil')
    await expect(run('add', '4')).rejects.toThrow('too many')
    expect(await run('add', '1')).toBe('one of a call 1 1')
  })

  it('lets a piece answer before those that come after it', async () => {
    expect(await run('late', 'early')).toBe('before the others')
    expect(await run('late', '1')).toBe('one of a call 1 1')
  })
})
