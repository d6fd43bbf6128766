// Owns that the cluster for tests is one: slots have owners, and move with their keys.
// May never trust the helpers alone: who has what is asked of each node.

import { beforeAll, expect, it } from 'vitest'
import { type Cluster, startCluster } from './cluster.ts'
import type { RedisServer } from './redis.ts'
import { ask } from './resp.ts'
import { describeOnRedis } from './suites.ts'

describeOnRedis('a cluster for tests', () => {
  let cluster: Cluster
  beforeAll(async () => {
    cluster = await startCluster(3)
  }, 60_000)

  /** A tag whose keys some node has that is not the one given. */
  async function placeOf(tag: string): Promise<[slot: number, from: RedisServer, to: RedisServer]> {
    const slot = await cluster.slotOf(`{${tag}}`)
    const from = await cluster.ownerOf(slot)
    const to = cluster.nodes.find((node) => node !== from) as RedisServer
    return [slot, from, to]
  }

  it('has as many masters as asked for, each with a share of the slots', async () => {
    expect(new Set(cluster.urls).size).toBe(3)
    for (const url of cluster.urls) {
      const info = String(await ask(url, 'CLUSTER', 'INFO'))
      expect(info).toContain('cluster_state:ok\r\n')
      expect(info).toContain('cluster_size:3\r\n')
    }
    const slots = [0, 5461, 5462, 10_922, 10_923, 16_383]
    const owners = await Promise.all(slots.map((slot) => cluster.ownerOf(slot)))
    const [a, b, c] = cluster.nodes
    expect(owners).toEqual([a, a, b, b, c, c])
  })

  it('keeps a key with the owner of its slot, and others name it', async () => {
    const [slot, owner, other] = await placeOf('one')
    expect(await ask(owner.url, 'SET', '{one}a', 'value')).toBe('OK')
    await expect(ask(other.url, 'GET', '{one}a')).rejects.toThrow(
      `MOVED ${slot} 127.0.0.1:${owner.port}`,
    )
  })

  it('moves a slot with all its keys', async () => {
    const [slot, from, to] = await placeOf('two')
    const keys = Array.from({ length: 250 }, (_, at) => `{two}${at}`)
    for (const key of keys) await ask(from.url, 'SET', key, `value of ${key}`)
    await cluster.moveSlot(slot, from, to)
    expect(await cluster.ownerOf(slot)).toBe(to)
    for (const key of keys) expect(await ask(to.url, 'GET', key)).toBe(`value of ${key}`)
    for (const node of cluster.nodes.filter((each) => each !== to)) {
      await expect(ask(node.url, 'GET', '{two}0')).rejects.toThrow(
        `MOVED ${slot} 127.0.0.1:${to.port}`,
      )
    }
  })

  it('shows a slot amid its move', async () => {
    const [slot, from, to] = await placeOf('three')
    for (const at of [1, 2, 3]) await ask(from.url, 'SET', `{three}${at}`, at)
    const seen: string[] = []
    const look = async () => {
      for (const at of [1, 2, 3]) {
        const key = `{three}${at}`
        seen.push(await ask(from.url, 'GET', key).then(String, (error: Error) => error.message))
      }
      const all = ['{three}1', '{three}2', '{three}3']
      await expect(ask(from.url, 'MGET', ...all)).rejects.toThrow('TRYAGAIN')
    }
    await cluster.moveSlot(slot, from, to, { run: look, leave: 1 })
    const asked = seen.filter((text) => text === `ASK ${slot} 127.0.0.1:${to.port}`)
    expect(asked).toHaveLength(2)
    expect(seen.filter((text) => /^[123]$/.test(text))).toHaveLength(1)
    expect(await ask(to.url, 'MGET', '{three}1', '{three}2', '{three}3')).toEqual(['1', '2', '3'])
  })
})
