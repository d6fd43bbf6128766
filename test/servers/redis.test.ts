// Owns that servers for tests are what they say: they run, keep, stop and end as they are told.
// May never trust the helpers alone: what a server is, is asked of the server.

import { existsSync } from 'node:fs'
import { expect, it } from 'vitest'
import { redisServer } from '../../scripts/redis-server.mjs'
import { Children } from '../stores/processes.ts'
import { startRedis, until } from './redis.ts'
import { ask, converse, infoOf } from './resp.ts'
import { describeOnRedis } from './suites.ts'

async function hears(url: string): Promise<boolean> {
  return ask(url, 'PING').then(
    () => true,
    () => false,
  )
}

describeOnRedis('a Redis server for tests', () => {
  it('answers, apart from any other, and keeps nothing on the disk', async () => {
    const [one, two] = await Promise.all([startRedis(), startRedis()])
    expect(one.port).not.toBe(two.port)
    for (const { url, pid } of [one, two]) {
      expect(await infoOf(url, 'process_id')).toBe(String(pid))
      expect(await ask(url, 'CONFIG', 'GET', 'save')).toEqual(['save', ''])
      expect(await infoOf(url, 'aof_enabled')).toBe('0')
    }
    await ask(one.url, 'SET', 'key', 'value')
    expect(await ask(one.url, 'GET', 'key')).toBe('value')
    expect(await ask(two.url, 'GET', 'key')).toBe(null)
    await one.restart()
    expect(await infoOf(one.url, 'process_id')).toBe(String(one.pid))
    expect(await ask(one.url, 'GET', 'key')).toBe(null)
  })

  it('speaks as the protocol says', async () => {
    const { url } = await startRedis()
    const { call, close, ended } = await converse(url)
    const text = 'x'.repeat(200_000)
    const calls = [
      call('ECHO', text),
      call('ECHO', ''),
      call('RPUSH', 'list', 'ä', 1),
      call('LRANGE', 'list', 0, -1),
      call('LRANGE', 'none', 0, -1),
      call('EVAL', "return {1, {'a', false}, redis.error_reply('ERR bad')}", 0),
    ]
    const replies = [text, '', 2, ['ä', '1'], [], [1, ['a', null], new Error('ERR bad')]]
    expect(await Promise.all(calls)).toEqual(replies)
    await expect(call('INCR', 'list')).rejects.toThrow('WRONGTYPE')
    expect(await call('PING')).toBe('PONG')
    close()
    await ended
    await expect(call('PING')).rejects.toThrow('The connection has ended.')
  })

  it('asks for the password that its address has', async () => {
    const { url, port } = await startRedis({ requirepass: 'p@ss/word' })
    await expect(ask(`redis://127.0.0.1:${port}`, 'GET', 'key')).rejects.toThrow('NOAUTH')
    expect(await ask(url, 'SET', 'key', 1)).toBe('OK')
  })

  it('takes more settings', async () => {
    const { url } = await startRedis({ args: ['--maxmemory', '12345678'] })
    expect(await infoOf(url, 'maxmemory')).toBe('12345678')
  })

  it('goes on with what is on its disk, however it has ended', async () => {
    const server = await startRedis({ appendonly: true, appendfsync: 'always' })
    const { url } = server
    expect(await ask(url, 'CONFIG', 'GET', 'appendfsync')).toEqual(['appendfsync', 'always'])
    for (const end of [server.kill, server.stop]) {
      const before = server.pid
      await ask(url, 'INCR', 'count')
      await end()
      expect(server.pid).toBe(0)
      expect(await hears(url)).toBe(false)
      await server.restart()
      expect(server.pid).not.toBe(before)
    }
    expect(await ask(url, 'GET', 'count')).toBe('2')
  })

  it('answers nothing while it is paused, and then what was asked', async () => {
    const server = await startRedis()
    const { call } = await converse(server.url)
    await call('SET', 'key', 'before')
    await server.pause()
    const order: string[] = []
    const answer = call('GET', 'key').then((value) => order.push(`heard ${value}`))
    // The request is with the system by now, and nobody reads it.
    await new Promise((resolve) => setTimeout(resolve, 50))
    order.push('resumed')
    server.resume()
    await answer
    expect(order).toEqual(['resumed', 'heard before'])
    await server.pause()
    await server.stop()
    expect(await hears(server.url)).toBe(false)
  })

  it('follows another one', async () => {
    const master = await startRedis({ requirepass: 'secret' })
    await ask(master.url, 'SET', 'early', 1)
    const replica = await startRedis({ replicaof: master })
    expect(await infoOf(replica.url, 'role')).toBe('slave')
    expect(await ask(replica.url, 'GET', 'early')).toBe('1')
    await ask(master.url, 'SET', 'late', 2)
    await until('it is there too', async () => (await ask(replica.url, 'GET', 'late')) === '2')
    await expect(ask(replica.url, 'SET', 'key', 3)).rejects.toThrow('READONLY')
  })

  it('says what is wrong with its settings', async () => {
    const args = ['--maxmemory-policy', 'none-of-these']
    await expect(startRedis({ args })).rejects.toThrow('ended at its start')
  })

  it('ends when the process of its test is killed, and its folder with it', async () => {
    const { url, port, stop } = await startRedis()
    await stop()
    const made = new Children('servers')
    try {
      await made.bundle({ guarded: 'test/servers/guarded.ts' })
      const text = `
        import { Guarded } from ${made.from('guarded')}
        const guarded = new Guarded('test')
        const args = ['--port', '${port}', '--bind', '127.0.0.1', '--save', '']
        guarded.start(${JSON.stringify(redisServer())}, args)
        console.log('folder ' + guarded.folder)
        setInterval(() => {}, 1_000)
      `
      const child = made.start(made.script(text))
      const folder = (await child.said('folder ')).slice('folder '.length)
      await until('it answers', () => hears(url))
      expect(existsSync(folder)).toBe(true)
      child.process.kill('SIGKILL')
      await until('it has ended', async () => !(await hears(url)))
      await until('its folder is gone', async () => !existsSync(folder))
    } finally {
      made.dispose()
    }
  })
})
