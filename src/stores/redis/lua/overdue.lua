-- Owns the call `overdue`: who needs a decision, and what was left unfinished.
-- May never decide: it hands out.

-- Goes on ranking anew what an older ageing has ranked: a bounded walk in order of seq.
local function continueRanking()
  if S.unranked == 0 then return end
  flush()
  local left = LIMIT.chunk
  Walk.from(S.rankedAfter, LIMIT.walk, false, function(row)
    if S.unranked == 0 or left == 0 then return false end
    S.rankedAfter = row.seq
    if ENDED[row.status] then return true end
    left = left - 1
    local old = row.weight
    Rank.renew(row)
    if row.weight ~= old then
      row.rank = row.rank + old - row.weight
      touch(row)
    end
    return true
  end)
  if S.unranked > 0 then signs.overdue = true end
end

local function pruneOutcomes()
  local old = call('ZRANGEBYSCORE', P .. 'outcomes', '-inf', now, 'LIMIT', 0, LIMIT.prune)
  putAll('HDEL', P .. 'outcome', old)
  putAll('ZREM', P .. 'outcomes', old)
end

-- Drops what was logged before `time`, a bounded number of batches. Answers the oldest instant.
local function pruneLog(time)
  local batches = call('XRANGE', P .. 'log', '-', '+', 'COUNT', 1)
  if #batches == 0 then return NEVER end
  if tonumber(batches[1][2][1]) >= time then return tonumber(batches[1][2][1]) end
  local kept, oldestAt, from, left = nil, NEVER, '-', LIMIT.prune
  while not kept and left > 0 do
    batches = call('XRANGE', P .. 'log', from, '+', 'COUNT', 100)
    if #batches == 0 then break end
    for _, batch in ipairs(batches) do
      local at, first = tonumber(batch[2][1]), tonumber(string.match(batch[1], '^%d+'))
      local isTooMuch = first - S.oldestEvent >= LIMIT.prune
      if at >= time or isTooMuch then
        kept, oldestAt = first, at
        break
      end
      from = string.format('(%.0f-0', first)
      left = left - 1
    end
  end
  if not kept then
    local rest = call('XRANGE', P .. 'log', from, '+', 'COUNT', 1)
    if rest[1] then
      kept, oldestAt = tonumber(string.match(rest[1][1], '^%d+')), tonumber(rest[1][2][1])
    end
  end
  S.oldestEvent = kept or S.lastEvent + 1
  put('XTRIM', P .. 'log', 'MINID', string.format('%.0f-0', S.oldestEvent))
  return oldestAt
end

local function collect(late, place, limit)
  local found = call('ZRANGEBYSCORE', P .. place, '-inf', now, 'WITHSCORES', 'LIMIT', 0, limit)
  for at = 1, #found, 2 do
    local score = tonumber(found[at + 1])
    if score > 0 then late[#late + 1] = { found[at], score } end
  end
end

local function firstWait(place)
  local first = call('ZRANGEBYSCORE', P .. place, '(0', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return tonumber(first[2]) or NEVER
end

Board.continueFanOuts(nil)
continueRanking()
pruneOutcomes()
local oldestAt = pruneLog(now - ask.keepLogMs)
flush()

local limit = min(ask.limit, LIMIT.moves)
local late = {}
collect(late, 'waits', limit)
local sawAll = Terms.late('ends', limit, late)
sawAll = Terms.late('past', limit, late) and sawAll
for _, each in ipairs(late) do each[3] = struct.unpack('>I6', each[1]) end
local function isSooner(a, b)
  if a[2] ~= b[2] then return a[2] < b[2] end
  return a[3] < b[3]
end
-- They mostly are in order: who ended together was added together.
for at = 2, #late do
  if isSooner(late[at], late[at - 1]) then
    table.sort(late, isSooner)
    break
  end
end

local found, jobs = {}, {}
for at = 1, min(#late, limit) do found[at] = late[at][1] end
Rows.read(found)
for at, key in ipairs(found) do
  local text = texts[key]
  jobs[at] = rows[key] or { key = key, text = text, line = Head.split(text).line }
end

local schedules, nextSchedule = Timetable.due(limit)
S.waitAt = min(firstWait('waits'), nextSchedule)
S.quietAt = min(Terms.first('ends'), Terms.first('past'))
local nextPrune = oldestAt + ask.keepLogMs + 1
local isFull = #jobs == limit or #schedules == limit
local isUnfinished = call('EXISTS', P .. 'fans') == 1 or S.unranked > 0
Pools.takeRoom()

return finish(function()
  return {
    jobsOf(jobs), schedules, S.waitAt, min(S.quietAt, nextPrune),
    isUnfinished or isFull or not sawAll or nextPrune <= now,
  }
end)
