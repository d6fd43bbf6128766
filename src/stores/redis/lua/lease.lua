-- Owns the call `lease`: promotes what is due, then grants ready jobs, pool by pool.
-- May never hand a job out that some rule holds back.

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
  if row.inLane then Lanes.started(row) end
  Board.enter(row, 'lease', 'running', { worker = ask.holder })
  Board.setDeadline(row, now + ask.leaseMs)
  answer(granted, row)
end

local byte, cut, find, join = string.byte, string.sub, string.find, struct.pack

-- The same for the next ones of a queue, up to so many, as far as they are like the first that has
-- been granted. Answers how many.
local function repeatFor(pattern, queue, most)
  local keyList, textList, at = queue.keys, queue.texts, queue.at
  local before, after, rest = pattern.before.first, pattern.after.first, pattern.rest
  local size, names, ids, lease, count = #before, {}, {}, S.lastLease, 0
  local flat, asked, places, place = granted.flat, granted.asked, granted.places, #granted.asked
  local write, base, where = writing.texts, #writing.texts, 3 * granted.count
  while count < most do
    local key, text = keyList[at], textList[at]
    if not text or find(text, before, 1, true) ~= 1 or rows[key] ~= nil then break end
    local length = byte(text, size + 7)
    if #text ~= size + 7 + length then break end
    local id = cut(text, size + 8)
    count, at, place, lease = count + 1, at + 1, place + 1, lease + 1
    text = after .. join('>I6B', lease, length) .. id .. rest
    names[count], ids[count] = key, id
    write[base + 1], write[base + 2], base = key, text, base + 2
    asked[place], places[place] = key, where + 2
    flat[where + 1], flat[where + 2], flat[where + 3], where = key, false, text, where + 3
  end
  S.lastLease, queue.at, granted.count = lease, at, granted.count + count
  Alike.again(pattern, names, ids)
  return count
end

-- Grants the next of a queue, whose head this is, and up to so many that follow and are like it.
local function grantAlike(head, queue, most)
  local pattern = alike.known[head]
  if pattern then return repeatFor(pattern, queue, most) end
  local at = queue.at
  local key, following = queue.keys[at], queue.texts[at + 1]
  texts[key] = queue.texts[at]
  local row = Rows.byKey(key)
  grant(row, nil)
  queue.at = at + 1
  -- One that is alone with its head teaches nobody.
  if following and find(following, head.first, 1, true) == 1 then
    alike.known[head] = Alike.learn(head, row)
  end
  return 1
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

if arePending then
  Promotion.promote()
  flush()
end
Prospects.read()

local lease = {
  holder = ask.holder, left = min(ask.max, LIMIT.moves), nextAt = NEVER, grant = grant,
  grantAlike = grantAlike, granted = granted, caps = capsOf(),
  hasSuspect = prospects.areSuspects and hasSuspect(ask.holder),
}
for _, name in ipairs(prospects.pools) do
  if lease.left <= 0 then break end
  takeFrom(Pools.get(name), prospects.queues[name], lease)
end
Pools.takeRoom()

return finish(function()
  local nextAt = arePending and min(lease.nextAt, Promotion.nextOut()) or lease.nextAt
  return { flatOf(granted), nextAt }
end)
