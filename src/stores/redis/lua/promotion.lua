-- Owns who is let out of those that are pending: promises 5 and 15.
-- May never let out more than LIMIT.chunk of each, or before their time.

local NO_JOBS = {}

local function due(place, most)
  local keys = call('ZRANGEBYSCORE', P .. place, '-inf', now, 'LIMIT', 0, most)
  Rows.load(keys)
  local found = {}
  for at, key in ipairs(keys) do found[at] = Rows.byKey(key) end
  return found
end

local function letOut(row)
  local readyAt = not row.keepRank and row.availableAt or nil
  row.keepRank, row.again = nil, 0
  Board.pass(row, 'due', readyAt)
end

local function stand(row, again)
  row.again = again
  touch(row)
end

local function heldRows(most)
  local keys = call('ZRANGE', P .. 'again', 0, most - 1)
  Rows.load(keys)
  local found = {}
  for at, key in ipairs(keys) do found[at] = Rows.byKey(key) end
  return found
end

-- As many of those that are due as the budget has now, the best first; nobody as long as not all
-- who are due stand in line: one who comes late may be the best.
local function released()
  flush()
  local first = call('ZRANGE', P .. 'due:1', 0, 0, 'WITHSCORES')
  if first[2] and tonumber(first[2]) <= now then return NO_JOBS end
  local most = min(Rate.allowance(S.budget, S.budgetTat), LIMIT.chunk)
  local found = most == 0 and NO_JOBS or heldRows(most)
  S.budgetTat = Rate.taken(S.budget, S.budgetTat, #found)
  return found
end

local function byInstant(a, b)
  if a.availableAt ~= b.availableAt then return a.availableAt < b.availableAt end
  return a.seq < b.seq
end

-- Lets out whose time has come, by (instant, seq); with a budget, retries after the others.
function Promotion.promote()
  local hasBudget = S.budget and true or false
  if not hasBudget then
    for _, row in ipairs(heldRows(LIMIT.chunk)) do stand(row, 1) end
    flush()
  end
  local all = due('due:0', LIMIT.chunk)
  if not hasBudget then
    for _, row in ipairs(due('due:1', LIMIT.chunk)) do all[#all + 1] = row end
    table.sort(all, byInstant)
  end
  for at = 1, min(#all, LIMIT.chunk) do letOut(all[at]) end
  if not hasBudget then return end
  for _, row in ipairs(due('due:1', LIMIT.chunk)) do stand(row, 2) end
  for _, row in ipairs(released()) do letOut(row) end
end

local function firstAt(place)
  local first = call('ZRANGE', P .. place, 0, 0, 'WITHSCORES')
  return tonumber(first[2]) or NEVER
end

-- When time alone lets the next one out.
function Promotion.nextOut()
  local at = min(firstAt('due:0'), firstAt('due:1'))
  if call('EXISTS', P .. 'again') == 0 then return at end
  return min(at, S.budget and max(now, Rate.freeAt(S.budget, S.budgetTat)) or now)
end
