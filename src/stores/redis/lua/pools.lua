-- Owns what is set for pools, and what their rules remember: rate, breaker, room.
-- May never decide who may start: that is pick.lua.

local pools = {}

-- What operators set wins over what processes bring along.
function Pools.rulesOf(start, operator)
  local said = {}
  for name, value in pairs(start) do said[name] = value end
  for name, value in pairs(operator) do said[name] = value end
  return {
    concurrency = said.concurrency or LIMIT.concurrency, perWorker = said.perWorker or NEVER,
    maxQueue = said.maxQueue or NEVER, overflow = said.overflow or 'reject',
    rate = said.rate or false, elastic = said.elastic or false,
    preempt = said.preempt or false, breaker = said.breaker or false,
    paused = said.paused or false,
  }
end

function Pools.get(name)
  local pool = pools[name]
  if pool then return pool end
  local text = call('HGET', P .. 'pool', name)
  pool = text and unpackAll(text) or { start = {}, operator = {}, tat = 0, told = 0 }
  pool.name = name
  pool.rules = Pools.rulesOf(pool.start, pool.operator)
  pools[name] = pool
  return pool
end

-- Writes what is remembered of a pool.
function Pools.save(pool)
  put('HSET', P .. 'pool', pool.name, pack({
    start = pool.start, operator = pool.operator, tat = pool.tat, breaker = pool.breaker,
    oldBreaker = pool.oldBreaker, wanted = pool.wanted, told = pool.told,
  }))
end

-- The pools that have room for somebody who waits: each is told once, then asked for anew.
function Pools.takeRoom()
  if S.wanting == 0 then return end
  for _, name in ipairs(call('SMEMBERS', P .. 'wanting')) do
    local pool = Pools.get(name)
    local most = pool.rules.maxQueue
    local places = most < NEVER and max(0, most - Pools.queuedOf(name)) or most
    if (pool.wanted or 0) <= places then
      pool.wanted = nil
      pool.told = pool.told + 1
      S.wanting = S.wanting - 1
      put('SREM', P .. 'wanting', name)
      Pools.save(pool)
      signs.room[#signs.room + 1] = name
    end
  end
end
