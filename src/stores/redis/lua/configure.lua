-- Owns the call `configure`: all changes that are given in one step, in order.
-- May never change a job: what has to be ranked anew is left to `overdue`.

-- What is not said of a type stays as it is stored, or else as it is without a word.
local function setType(change)
  local text = call('HGET', P .. 'type', change.type)
  local setting, said = text and unpackAll(text) or change.usual, change.setting
  local terms = setting.terms
  for name, value in pairs(said.terms or {}) do terms[name] = value end
  for name, value in pairs(said) do setting[name] = value end
  setting.terms = terms
  local derived = said.terms and said.terms.maxLost
    or max(terms.retries, change.usual.terms.maxLost)
  terms.maxLost = setting.maxLost or derived
  put('HSET', P .. 'type', change.type, pack(setting))
  if setting.concurrency then
    put('HSET', P .. 'cap', change.type, setting.concurrency)
  else
    put('HDEL', P .. 'cap', change.type)
  end
end

local function setAgeing(ageing)
  flush()
  S.ageing, S.rankedAfter, S.unranked = ageing, 0, 0
  local all = call('HGETALL', P .. 'weigh')
  for at = 1, #all, 2 do
    local priority, weight = string.match(all[at], '^(%d+) (%d+)$')
    if tonumber(weight) ~= weightOf(tonumber(priority)) then
      S.unranked = S.unranked + tonumber(all[at + 1])
    end
  end
  if S.unranked > 0 then signs.overdue = true end
end

for _, change in ipairs(ask.changes) do
  if change.kind == 'pool' then
    Pools.configure(change)
  elseif change.kind == 'type' then
    setType(change)
  elseif change.kind == 'ageing' then
    setAgeing(change.ageing)
  elseif change.kind == 'budget' then
    S.budgetTat = Rate.carried(S.budget, change.budget, S.budgetTat)
    S.budget = change.budget
  else
    Timetable.set(change.schedule, change.row)
  end
  S.settings = S.settings + 1
  signs.ready, signs.settings = true, true
end
Pools.takeRoom()
return finish(function() return true end)
