// Owns the floor of the comparison on one Redis server: a queue of two scripts, without any rule,
// log or record. May never do less for a job than store it, hand it out, and take it out.

import { connectTo } from './redis-client.mjs'

/** How many calls are under way at once where there is work for as many. */
const FLIGHT = 4
const LEASE_MS = 30_000
/** So long a call waits for a job where there is none. */
const WAIT_SECONDS = 1

const WAITING = 'lua:waiting'
const PAYLOADS = 'lua:payloads'
const ACTIVE = 'lua:active'
const BELL = 'lua:bell'

/** Each job by its number, in line after all that are there; whoever rests hears the bell. */
const ADD = `
  local line, jobs, bell = KEYS[1], KEYS[2], KEYS[3]
  local ranks, fields = {}, {}
  for at = 1, #ARGV, 2 do
    local id = ARGV[at]
    ranks[#ranks + 1] = id
    ranks[#ranks + 1] = id
    fields[#fields + 1] = id
    fields[#fields + 1] = ARGV[at + 1]
  end
  redis.call('HSET', jobs, unpack(fields))
  redis.call('ZADD', line, unpack(ranks))
  if redis.call('LLEN', bell) == 0 then redis.call('LPUSH', bell, 1) end
`

/** Takes out what has ended, and hands out up to so many: first the limit, then the lease's end. */
const TURN = `
  local line, jobs, active = KEYS[1], KEYS[2], KEYS[3]
  if #ARGV > 2 then
    local ended = {}
    for at = 3, #ARGV do ended[at - 2] = ARGV[at] end
    redis.call('ZREM', active, unpack(ended))
    redis.call('HDEL', jobs, unpack(ended))
  end
  local taken = redis.call('ZPOPMIN', line, ARGV[1])
  if #taken == 0 then return {} end
  local ids, leases = {}, {}
  for at = 1, #taken, 2 do
    ids[#ids + 1] = taken[at]
    leases[#leases + 1] = ARGV[2]
    leases[#leases + 1] = taken[at]
  end
  redis.call('ZADD', active, unpack(leases))
  return { ids, redis.call('HMGET', jobs, unpack(ids)) }
`

/**
 * A lane takes up to `concurrency` jobs, runs their bodies, and hands them back with the call that
 * takes the next ones. With several lanes as many times more are held: no engine may do that.
 *
 * @type {import('./redis-contenders.mjs').Open}
 */
export async function openLua(url, { concurrency, body }) {
  const client = await connectTo(url)
  client.defineCommand('laneAdd', { numberOfKeys: 3, lua: ADD })
  client.defineCommand('laneTurn', { numberOfKeys: 3, lua: TURN })
  let count = 0
  const addMany = async (/** @type {readonly unknown[]} */ payloads) => {
    const words = payloads.flatMap((payload) => {
      count += 1
      return [String(count), JSON.stringify(payload)]
    })
    await client.laneAdd(WAITING, PAYLOADS, BELL, ...words)
  }
  /** @type {Promise<void>[]} */
  const lanes = []
  let isOver = false
  /** @type {any[]} */
  const bells = []
  const lane = async () => {
    const bell = await connectTo(url)
    bells.push(bell)
    /** @type {string[]} */
    let ended = []
    while (!isOver || ended.length > 0) {
      const until = Date.now() + LEASE_MS
      const limit = isOver ? 0 : concurrency
      const [ids, texts] = await client.laneTurn(WAITING, PAYLOADS, ACTIVE, limit, until, ...ended)
      for (const text of texts ?? []) void body(JSON.parse(text))
      ended = ids ?? []
      // One that hangs up ends the rest of this lane.
      if (ended.length === 0 && !isOver) await bell.brpop(BELL, WAIT_SECONDS).catch(() => {})
    }
    bell.disconnect()
  }
  return {
    add: (payload) => addMany([payload]),
    addMany,
    start: () => {
      for (let at = 0; at < (concurrency > 1 ? FLIGHT : 1); at += 1) lanes.push(lane())
    },
    ended: async () => {
      isOver = true
      for (const bell of bells) bell.disconnect()
      await Promise.all(lanes)
    },
    left: async () => {
      const [waiting, active] = await Promise.all([client.zcard(WAITING), client.zcard(ACTIVE)])
      return Math.max(waiting + active, await client.hlen(PAYLOADS))
    },
    close: () => client.disconnect(),
  }
}
