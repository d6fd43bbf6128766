-- Owns the call `lease`: promotes what is due, then grants ready jobs, pool by pool.
-- May never hand a job out that some rule holds back.

local NO_ROWS = {}

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
  if first[2] and tonumber(first[2]) <= now then return NO_ROWS end
  local most = min(Rate.allowance(S.budget, S.budgetTat), LIMIT.chunk)
  local found = most == 0 and NO_ROWS or heldRows(most)
  S.budgetTat = Rate.taken(S.budget, S.budgetTat, #found)
  return found
end

local function byInstant(a, b)
  if a.availableAt ~= b.availableAt then return a.availableAt < b.availableAt end
  return a.seq < b.seq
end

local function anyPending()
  return call('EXISTS', P .. 'due:0', P .. 'due:1', P .. 'again') > 0
end

-- Lets out whose time has come, by (instant, seq); with a budget, retries after the others.
local function promote()
  if not anyPending() then return end
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
local function nextOut()
  if not anyPending() then return NEVER end
  local at = min(firstAt('due:0'), firstAt('due:1'))
  if call('EXISTS', P .. 'again') == 0 then return at end
  return min(at, S.budget and max(now, Rate.freeAt(S.budget, S.budgetTat)) or now)
end

local granted = newList()

local function grant(row, pass)
  row.pass = pass or row.pass
  Board.calm(row)
  Board.setDeadline(row, 0)
  row.starts, row.attempts, row.startedAt = row.starts + 1, row.attempts + 1, now
  local log = row.log
  if log and #log / 7 > LIMIT.attempts - 1 then
    local kept = {}
    for at = #log - 7 * (LIMIT.attempts - 1) + 1, #log do kept[#kept + 1] = log[at] end
    row.log = kept
  end
  Board.grant(row, ask.holder, nil)
  Lanes.started(row)
  Board.enter(row, 'lease', 'running', { worker = ask.holder })
  Board.setDeadline(row, now + ask.leaseMs)
  granted[#granted + 1] = row
end

local byte, cut, find, join = string.byte, string.sub, string.find, struct.pack

-- The same for the next ones of a queue, up to so many, as far as they are like the first that has
-- been granted. Answers how many.
local function repeatFor(pattern, queue, most)
  local keyList, textList, at = queue.keys, queue.texts, queue.at
  local before, after, rest = pattern.before.first, pattern.after.first, pattern.rest
  local size, answered, place = #before, granted.texts, #granted
  local names, ids, news, lease, count = {}, {}, {}, S.lastLease, 0
  while count < most do
    local key, text = keyList[at], textList[at]
    if not text or find(text, before, 1, true) ~= 1 or rows[key] ~= nil then break end
    local length = byte(text, size + 7)
    if #text ~= size + 7 + length then break end
    local id = cut(text, size + 8)
    count, at, place, lease = count + 1, at + 1, place + 1, lease + 1
    text = after .. join('>I6B', lease, length) .. id .. rest
    names[count], ids[count], news[count] = key, id, text
    granted[place], answered[place] = key, text
  end
  S.lastLease, queue.at = lease, at
  Alike.again(pattern, names, ids, news, count)
  return count
end

-- Grants the next of a queue, whose head this is, and up to so many that follow and are like it.
local function grantAlike(head, queue, most)
  local pattern = Alike.known[head]
  if pattern then return repeatFor(pattern, queue, most) end
  local at = queue.at
  local key, following = queue.keys[at], queue.texts[at + 1]
  texts[key] = queue.texts[at]
  local row = Rows.byKey(key)
  grant(row, nil)
  queue.at = at + 1
  -- One that is alone with its head teaches nobody.
  if following and find(following, head.first, 1, true) == 1 then
    Alike.known[head] = Alike.learn(head, row)
  end
  return 1
end

-- The queues of each pool that this worker serves, and the pools in order of name.
local function queuesOf(places)
  local served, byPool, names, areSuspects = {}, {}, {}, false
  for _, type in ipairs(ask.types) do served[type] = true end
  for _, place in ipairs(places) do
    local isSuspects = string.sub(place, 1, 2) == 'rs'
    local line = Lines.of(tonumber(string.match(place, '%d+$')))
    if served[line.type] then
      if not byPool[line.pool] then
        byPool[line.pool] = {}
        names[#names + 1] = line.pool
      end
      local queues = byPool[line.pool]
      queues[#queues + 1] = Queue.new(place, line, isSuspects)
      areSuspects = areSuspects or isSuspects
    end
  end
  table.sort(names, isSmaller)
  return byPool, names, areSuspects
end

local function capsOf()
  local caps, all = {}, call('HGETALL', P .. 'cap')
  for at = 1, #all, 2 do caps[all[at]] = tonumber(all[at + 1]) end
  return caps
end

local function hasSuspect(holder)
  for _, by in ipairs(call('HVALS', P .. 'suspects')) do
    if by == holder then return true end
  end
  return false
end

promote()
flush()

local lease = {
  holder = ask.holder, left = min(ask.max, LIMIT.moves), nextAt = NEVER, grant = grant,
  grantAlike = grantAlike, granted = granted, caps = NO_ROWS, hasSuspect = false,
}
local places = call('SMEMBERS', P .. 'heads')
if #places > 0 then
  local byPool, poolNames, areSuspects = queuesOf(places)
  if #poolNames > 0 then
    Slots.read()
    lease.caps = capsOf()
    lease.hasSuspect = areSuspects and hasSuspect(ask.holder)
  end
  for _, name in ipairs(poolNames) do
    if lease.left <= 0 then break end
    local pool, queues = Pools.get(name), byPool[name]
    local chunk = max(1, min(lease.left, pool.rules.concurrency))
    lease.size = #queues > 8 and min(chunk, 16) or chunk
    takeFrom(pool, queues, lease)
  end
end
Pools.takeRoom()

return finish(function()
  return { jobsOf(granted), min(lease.nextAt, nextOut()) }
end)
