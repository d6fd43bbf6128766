// Owns that the network for tests fails as it is told, and only then.
// May never trust the proxy alone: what has arrived is asked of the server, past it.

import { expect, it } from 'vitest'
import { startProxy } from './proxy.ts'
import { startRedis, until } from './redis.ts'
import { ask, converse } from './resp.ts'
import { describeOnRedis } from './suites.ts'

describeOnRedis('a network for tests', () => {
  it('passes everything on while it is well', async () => {
    const { url } = await startRedis({ requirepass: 'secret' })
    const proxy = await startProxy(url)
    expect(proxy.url).toBe(`redis://:secret@127.0.0.1:${proxy.port}`)
    const text = 'x'.repeat(300_000)
    expect(await ask(proxy.url, 'SET', 'key', text)).toBe('OK')
    expect(await ask(url, 'GET', 'key')).toBe(text)
    expect(await ask(proxy.url, 'GET', 'key')).toBe(text)
    await until('its clients have gone', async () => proxy.connections === 0)
    expect(proxy.lost).toBe(0)
  })

  it('lets the server act and its clients hear nothing', async () => {
    const { url } = await startRedis()
    const proxy = await startProxy(url)
    const old = await converse(proxy.url)
    expect(await old.call('INCR', 'count')).toBe(1)
    proxy.dropAnswers()
    await expect(old.call('INCR', 'count')).rejects.toThrow('The connection has ended.')
    expect(await ask(url, 'GET', 'count')).toBe('2')
    await expect(ask(proxy.url, 'INCR', 'count')).rejects.toThrow('The connection has ended.')
    expect(await ask(url, 'GET', 'count')).toBe('3')
    proxy.heal()
    expect(await ask(proxy.url, 'INCR', 'count')).toBe(4)
  })

  it('lets the server act on all that was sent before its client is cut off', async () => {
    const { url } = await startRedis()
    const proxy = await startProxy(url)
    const { call } = await converse(proxy.url)
    proxy.dropAnswers()
    const calls = Array.from({ length: 500 }, () => call('INCR', 'count'))
    const outcomes = await Promise.allSettled(calls)
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toEqual([])
    await until('all are counted', async () => (await ask(url, 'GET', 'count')) === '500')
  })

  it('swallows what either side says, and keeps connections open', async () => {
    const { url } = await startRedis()
    const proxy = await startProxy(url)
    const asking = await converse(proxy.url)
    const listening = await converse(proxy.url)
    expect(await Promise.all([asking.call('PING'), listening.call('PING')])).toHaveLength(2)
    const popped = listening.call('BLPOP', 'list', 0)
    await until('somebody waits', async () =>
      /\bcmd=blpop\b/.test(String(await ask(url, 'CLIENT', 'LIST'))),
    )
    proxy.blackHole()
    const counted = asking.call('INCR', 'count')
    await until('the question has vanished', async () => proxy.lost > 0)
    const before = proxy.lost
    await ask(url, 'RPUSH', 'list', 'value')
    await until('the answer has vanished', async () => proxy.lost > before)
    expect(await ask(url, 'LLEN', 'list')).toBe(0)
    // New ones are accepted, and get no answer either.
    const late = await converse(proxy.url)
    const both = proxy.lost
    const unheard = late.call('INCR', 'count')
    await until('that has vanished too', async () => proxy.lost > both)
    expect(proxy.connections).toBe(3)

    const outcomes = Promise.allSettled([counted, popped, unheard])
    proxy.heal()
    expect(proxy.connections).toBe(0)
    expect((await outcomes).map(({ status }) => status)).toEqual(Array(3).fill('rejected'))
    expect(await ask(url, 'GET', 'count')).toBe(null)
    expect(await ask(proxy.url, 'INCR', 'count')).toBe(1)
  })

  it('freezes the connections that there are, and serves new ones', async () => {
    const { url } = await startRedis()
    const proxy = await startProxy(url)
    const old = await converse(proxy.url)
    expect(await old.call('PING')).toBe('PONG')
    proxy.freeze()
    const unheard = old.call('INCR', 'count').catch(() => 'ended')
    expect(await ask(proxy.url, 'INCR', 'count')).toBe(1)
    await until('the question has vanished', async () => proxy.lost > 0)
    expect(await ask(url, 'GET', 'count')).toBe('1')
    proxy.heal()
    expect(await unheard).toBe('ended')
  })

  it('spares connections that nothing was lost on', async () => {
    const { url } = await startRedis()
    const proxy = await startProxy(url)
    const { call } = await converse(proxy.url)
    expect(await call('PING')).toBe('PONG')
    proxy.blackHole()
    proxy.heal()
    expect(await call('PING')).toBe('PONG')
  })

  it('cuts connections, and accepts new ones', async () => {
    const { url } = await startRedis()
    const proxy = await startProxy(url)
    const { call, ended } = await converse(proxy.url)
    expect(await call('PING')).toBe('PONG')
    const waiting = call('BLPOP', 'list', 0)
    proxy.cut()
    await expect(waiting).rejects.toThrow('The connection has ended.')
    await ended
    expect(await ask(proxy.url, 'PING')).toBe('PONG')
  })

  it('is not there any more once it is closed', async () => {
    const { url } = await startRedis()
    const proxy = await startProxy(url)
    const { ended } = await converse(proxy.url)
    await proxy.close()
    await ended
    await expect(ask(proxy.url, 'PING')).rejects.toThrow('ECONNREFUSED')
    expect(await ask(url, 'PING')).toBe('PONG')
  })
})
