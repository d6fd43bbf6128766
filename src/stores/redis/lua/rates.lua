-- Owns rates and breakers, how pools are set, and how much is queued in them.
-- May never decide who may start: that is pick.lua.

function Rate.allowance(terms, tat)
  local ahead = max(tat - now * 1000, 0)
  if ahead > terms.toleranceUs then return 0 end
  return floor((terms.toleranceUs - ahead) / terms.intervalUs) + 1
end

function Rate.taken(terms, tat, taken)
  if taken == 0 then return tat end
  return max(tat, now * 1000) + taken * terms.intervalUs
end

function Rate.freeAt(terms, tat)
  return ceil((tat - terms.toleranceUs) / 1000)
end

-- The state after the terms have changed: what was started is owed at the new price.
function Rate.carried(before, after, tat)
  if not before or not after then return 0 end
  if before.intervalUs == after.intervalUs and before.toleranceUs == after.toleranceUs then
    return tat
  end
  local ahead = max(tat - now * 1000, 0)
  local owed = min(ceil(ahead / before.intervalUs), after.burst)
  return now * 1000 + owed * after.intervalUs
end

-- A breaker is { terms, state, period, consecutive, openUntil, probing, outcomes, failed }:
-- the outcomes a text, oldest first, 1 for a failure.
function Breaker.new(terms, period)
  return {
    terms = terms, state = 'closed', period = period, consecutive = 0, openUntil = 0,
    probing = false, outcomes = '', failed = 0,
  }
end

local function change(breaker, state)
  breaker.state, breaker.period, breaker.probing = state, breaker.period + 1, false
  breaker.consecutive, breaker.outcomes, breaker.failed = 0, '', 0
end

local function openUp(breaker)
  breaker.openUntil = now + breaker.terms.resetMs
  change(breaker, 'open')
end

function Breaker.isOpen(breaker)
  return breaker.state == 'open' and now < breaker.openUntil
end

-- A pass for one attempt; only asked where freeAt lets one through.
function Breaker.admit(breaker)
  if breaker.state == 'closed' then return breaker.period end
  if breaker.state == 'open' then
    if now < breaker.openUntil then return nil end
    change(breaker, 'half-open')
  end
  if breaker.probing then return nil end
  breaker.probing = true
  return breaker.period
end

function Breaker.freeAt(breaker)
  if Breaker.isOpen(breaker) then return breaker.openUntil end
  return breaker.probing and NEVER or 0
end

local function remember(breaker, failed)
  local terms = breaker.terms
  if terms.failureRate <= 0 then return end
  if #breaker.outcomes == terms.window then
    if string.byte(breaker.outcomes) == 49 then breaker.failed = breaker.failed - 1 end
    breaker.outcomes = string.sub(breaker.outcomes, 2)
  end
  breaker.outcomes = breaker.outcomes .. (failed and '1' or '0')
  if failed then breaker.failed = breaker.failed + 1 end
end

local function isTooMuch(breaker)
  local terms, seen = breaker.terms, #breaker.outcomes
  if terms.failures > 0 and breaker.consecutive >= terms.failures then return true end
  if terms.failureRate == 0 then return false end
  return seen >= terms.window and breaker.failed >= terms.failureRate * seen
end

-- What the attempt with that pass has shown. To be called once for each pass.
function Breaker.record(breaker, pass, verdict)
  if pass ~= breaker.period then return end
  if breaker.state == 'half-open' then
    breaker.probing = false
    if verdict == 'success' then change(breaker, 'closed')
    elseif verdict == 'failure' then openUp(breaker) end
    return
  end
  if verdict == 'neutral' then return end
  local failed = verdict == 'failure'
  breaker.consecutive = failed and breaker.consecutive + 1 or 0
  remember(breaker, failed)
  if failed and isTooMuch(breaker) then openUp(breaker) end
end

local function isSameBreaker(a, b)
  if not a or not b then return a == b end
  return a.failures == b.failures and a.failureRate == b.failureRate and a.window == b.window
    and a.resetMs == b.resetMs
end

-- Other terms begin anew; passes that were given before count for nothing from here on.
local function renewBreaker(pool, terms)
  local before = pool.breaker or pool.oldBreaker
  pool.oldBreaker, pool.breaker = nil, nil
  if not terms then
    pool.oldBreaker = before
  else
    pool.breaker = Breaker.new(terms, before and before.period + 1 or 0)
  end
end

-- What is counted or remembered for a rule begins and ends with the rule.
function Pools.configure(change)
  local pool = Pools.get(change.pool)
  local before, said = pool.rules, pool[change.by]
  for name, value in pairs(change.terms) do said[name] = value end
  for _, name in ipairs(change.without) do said[name] = nil end
  pool.rules = Pools.rulesOf(pool.start, pool.operator)
  local rules = pool.rules
  pool.tat = Rate.carried(before.rate, rules.rate, pool.tat)
  if not isSameBreaker(before.breaker, rules.breaker) then renewBreaker(pool, rules.breaker) end
  S.bounds = S.bounds + (rules.maxQueue < NEVER and 1 or 0) - (before.maxQueue < NEVER and 1 or 0)
  -- Whoever waits learns the new rule: by getting in, or by being refused under it.
  if pool.wanted then pool.wanted = 0 end
  Pools.save(pool)
end

-- Its jobs that are pending or ready. The lines of a pool may be many: they are added up once in a
-- call, and what the call changes is counted on from there.
function Pools.queuedOf(name)
  if not queued[name] or #alike.patterns > 0 then flush() end
  if queued[name] then return queued[name] end
  local fields, sum = {}, 0
  for _, line in ipairs(Lines.all(name)) do
    fields[#fields + 1] = line .. ':' .. NUMBER.pending
    fields[#fields + 1] = line .. ':' .. NUMBER.ready
  end
  for _, value in ipairs(readAll(P .. 'tally', fields)) do sum = sum + (tonumber(value) or 0) end
  queued[name] = sum
  return sum
end

-- A group was refused that would be let in with so many places.
function Pools.want(pool, places)
  if not pool.wanted then
    S.wanting = S.wanting + 1
    put('SADD', P .. 'wanting', pool.name)
  end
  pool.wanted = min(pool.wanted or places, places)
  Pools.save(pool)
end
