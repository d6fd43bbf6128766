// Owns that docs/redis.md is true: its programs compile under strict types and print what the page
// says on real servers, its commands work, and its options and links are those that there are.
// May never run the code of the page inside this process, or speak to a server that was there before.

import { existsSync, readdirSync, statSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { prepare } from '../scripts/prepare.mjs'
import type { Store } from '../src/store/store.ts'
import { type RedisOptions, redisStore } from '../src/stores/redis/index.ts'
import { newJob } from '../src/testing/history-commands.ts'
import { blocksOf, openWorkshop, PATIENCE_MS, programsOf, promisedBy, readPage } from './pages.ts'
import { startCluster } from './servers/cluster.ts'
import { startRedis } from './servers/redis.ts'
import { ask } from './servers/resp.ts'
import { describeOnRedis } from './servers/suites.ts'
import { root } from './sources.ts'

const page = readPage('redis.md')
const programs = programsOf(page)
const main = join('three-workers', 'main.mjs')
const workshop = openWorkshop([main, join('three-workers', 'worker.mjs')])

beforeAll(prepare, 120_000)
afterAll(() => workshop.remove())

/** The words of a line for a shell: quotes hold words together, and go. */
function wordsOf(line: string): string[] {
  return [...line.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(
    ([, single, double, bare]) => single ?? double ?? (bare as string),
  )
}

const commands = blocksOf(page, 'sh')
  .join('')
  .split('\n')
  .filter((line) => line.startsWith('redis-cli '))
  .map((line) => wordsOf(line.replace(/ +# .*$/, '').replace(/^redis-cli (-c )?/, '')))

describe('the code of docs/redis.md', { timeout: PATIENCE_MS }, () => {
  // First, while nothing good lies in the folder: what cannot compile is found.
  it('would not compile with a wrong option', async () => {
    const wrong = programs.map(({ title, code }) => ({
      title,
      code: code.replace("prefix: 'mail'", "prefx: 'mail'"),
    }))
    expect(await workshop.compile(wrong)).toContain("'prefx' does not exist")
  })

  it('compiles under strict types, like the example', async () => {
    expect(await workshop.compile(programs)).toBe('')
    expect(programs.map(({ title }) => title)).toEqual(['A first program', 'Cluster'])
  })
})

describeOnRedis('docs/redis.md on servers', () => {
  const [first, second] = programs.map(({ code }) => promisedBy(code))

  it('has a first program that prints what it says', async () => {
    const { url } = await startRedis()
    await workshop.compile(programs)
    expect(first).not.toBe('')
    expect(await workshop.output(0, { REDIS_URL: url })).toBe(first)
  }, 60_000)

  it('has a program for a cluster that prints what it says', async () => {
    const { urls } = await startCluster(3)
    await workshop.compile(programs)
    expect(second).not.toBe('')
    expect(await workshop.output(1, { REDIS_NODES: urls.join() })).toBe(second)
  }, 60_000)

  it('shows commands that look at a prefix, and one that removes it', async () => {
    const { url } = await startRedis()
    await workshop.compile(programs)
    await workshop.output(0, { REDIS_URL: url })
    await ask(url, 'SET', '{axe}:state', 'of somebody else')
    const removal = commands.find(([word]) => word === 'eval') as string[]
    const looks = commands.filter(([word]) => word !== 'eval' && word !== 'acl')
    expect(looks.length).toBeGreaterThan(4)
    const seen = new Map<string, unknown>()
    for (const words of looks) seen.set(words.join(' '), await ask(url, ...words))
    expect(seen.get('hlen {ax}:i')).toBe(1)
    expect(seen.get('hgetall {ax}:line')).toEqual(['1', 'default\0greet'])
    const tally = seen.get('hgetall {ax}:tally') as string[]
    expect(tally[tally.indexOf('1:5') + 1]).toBe('1')
    expect(seen.get('xlen {ax}:log')).toBeGreaterThan(0)
    expect(await ask(url, ...removal)).toBeGreaterThan(10)
    expect(await ask(url, 'KEYS', '*')).toEqual(['{axe}:state'])
  }, 60_000)
})

describeOnRedis('the user of docs/redis.md', () => {
  const words = commands.find(([word]) => word === 'acl') as string[]

  it('may do what ax needs, under its prefix alone', async () => {
    const { url } = await startRedis()
    expect(await ask(url, ...words)).toBe('OK')
    const user = url.replace('//', '//worker:PASSWORD@')
    await workshop.compile(programs)
    expect(await workshop.output(0, { REDIS_URL: user })).toBe(promisedBy(programs[0]?.code ?? ''))
    const other = redisStore(user, { prefix: 'other' })
    await expect(other.open()).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
      retryable: false,
    })
    await other.close()
  }, 60_000)
})

describeOnRedis('what survives, as docs/redis.md has it', () => {
  const opened: Store[] = []
  afterEach(async () => {
    for (const store of opened.splice(0)) await store.close()
  })
  const open = (url: string, options: RedisOptions = {}) => {
    const store = redisStore(url, options)
    opened.push(store)
    return store
  }
  const add = (store: Store, ...ids: readonly string[]) => {
    return store.insert([{ jobs: ids.map((id) => newJob(id)), unknownDeps: 'wait' }], false)
  }
  const idsOn = async (store: Store) => {
    const { jobs } = await store.list({ after: 0, limit: 100 })
    return jobs.map(({ id }) => id)
  }

  it.each([
    ['nothing, where nothing is kept', {}, []],
    ['all, with a file that is written each second', { appendonly: true }, ['a', 'b', 'c']],
    [
      'all, with one that is always written',
      { appendonly: true, appendfsync: 'always' } as const,
      ['a', 'b', 'c'],
    ],
  ])('a killed server has %s', async (_, settings, ids) => {
    const server = await startRedis(settings)
    await add(open(server.url), 'a', 'b')
    await add(open(server.url), 'c')
    await server.kill()
    await server.restart()
    expect(await idsOn(open(server.url))).toEqual(ids)
  })

  it('a call whose end is missing from the file is missing as a whole', async () => {
    const server = await startRedis({ appendonly: true })
    const store = open(server.url)
    await add(store, 'a', 'b')
    await add(store, 'c', 'd')
    await server.kill()
    const file = readdirSync(server.folder, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.aof'))
      .map((name) => join(server.folder, name))
      .sort((one, other) => statSync(other).size - statSync(one).size)[0] as string
    truncateSync(file, statSync(file).size - 40)
    await server.restart()
    const after = open(server.url)
    expect(await idsOn(after)).toEqual(['a', 'b'])
    expect((await after.count()).types.alpha).toMatchObject({ ready: 2 })
  })

  it('a replica that takes over has what it was waited for', async () => {
    const primary = await startRedis()
    const replica = await startRedis({ replicaof: primary })
    const store = open(primary.url, { waitReplicas: 1, waitMs: 60_000 })
    for (const id of ['a', 'b', 'c']) await add(store, id)
    await primary.kill()
    await ask(replica.url, 'REPLICAOF', 'NO', 'ONE')
    expect(await idsOn(open(replica.url))).toEqual(['a', 'b', 'c'])
  })

  it('a server that is full refuses whole calls, and has what it had', async () => {
    const { url } = await startRedis()
    const store = open(url)
    await add(store, 'a')
    await ask(url, 'CONFIG', 'SET', 'maxmemory', '1')
    await expect(add(store, 'b', 'c')).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
      retryable: true,
    })
    await ask(url, 'CONFIG', 'SET', 'maxmemory', '0')
    expect(await idsOn(store)).toEqual(['a'])
  })
})

describe('the options of docs/redis.md', () => {
  const rows = [...page.matchAll(/^\| (`\w+`(?:, `\w+`)*) \| /gm)].flatMap(([, names = '']) => {
    return names.replaceAll('`', '').split(', ')
  })

  it('are all that there are', () => {
    const wrong = { other: 1 } as unknown as RedisOptions
    expect(rows.length).toBeGreaterThan(4)
    const text = messageOf(() => redisStore('redis://localhost', wrong))
    const known = /Valid keys: (.*)\.$/.exec(text)?.[1]?.split(', ')
    expect([...rows].sort()).toEqual(known?.sort())
  })

  it.each([
    [{ waitMs: 0 }, 'from 1 to 60000'],
    [{ waitMs: 60_001 }, 'from 1 to 60000'],
    [{ prefix: 'x'.repeat(201) }, '1 to 200 characters'],
  ])('have the bounds that it says: %j', (options, text) => {
    expect(messageOf(() => redisStore('redis://localhost', options))).toContain(text)
  })
})

describe('the links of docs/redis.md', () => {
  it('lead somewhere', () => {
    const targets = [...page.matchAll(/\]\(([^)#]+)/g)].map(([, target]) => target as string)
    expect(targets.length).toBeGreaterThan(4)
    const missing = targets.filter((target) => !existsSync(join(root, 'docs', target)))
    expect(missing).toEqual([])
  })
})

function messageOf(act: () => unknown): string {
  try {
    act()
    return ''
  } catch (error) {
    return (error as Error).message
  }
}
