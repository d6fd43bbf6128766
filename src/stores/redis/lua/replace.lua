-- Owns the call `replace`: out with the old, in with the new, or all as it was.
-- May never leave a trace of a group that was refused: each write can be taken back.

local undo = {}

-- How to take a write back: what stood in each place before it.
local BEFORE = {}

function BEFORE.HSET(key, ...)
  local args = { ... }
  for at = 1, #args, 2 do
    local old = call('HGET', key, args[at])
    undo[#undo + 1] = old and { 'HSET', key, args[at], old } or { 'HDEL', key, args[at] }
  end
end

function BEFORE.HDEL(key, ...)
  for _, field in ipairs({ ... }) do
    local old = call('HGET', key, field)
    if old then undo[#undo + 1] = { 'HSET', key, field, old } end
  end
end

function BEFORE.HINCRBY(key, field)
  BEFORE.HSET(key, field, 0)
end

local function scoreBefore(key, member)
  local old = call('ZSCORE', key, member)
  undo[#undo + 1] = old and { 'ZADD', key, old, member } or { 'ZREM', key, member }
end

function BEFORE.ZADD(key, ...)
  local args = { ... }
  for at = args[1] == 'XX' and 3 or 2, #args, 2 do scoreBefore(key, args[at]) end
end

function BEFORE.ZREM(key, ...)
  for _, member in ipairs({ ... }) do scoreBefore(key, member) end
end

local function memberBefore(key, ...)
  for _, member in ipairs({ ... }) do
    local was = call('SISMEMBER', key, member) == 1
    undo[#undo + 1] = { was and 'SADD' or 'SREM', key, member }
  end
end

BEFORE.SADD, BEFORE.SREM = memberBefore, memberBefore

-- Texts of edges: few and short.
local function wholeBefore(key)
  local old = call('GET', key)
  undo[#undo + 1] = old and { 'SET', key, old } or { 'DEL', key }
end

BEFORE.SET, BEFORE.SETRANGE, BEFORE.DEL = wholeBefore, wholeBefore, wholeBefore

local writeIt = put
put = function(command, key, ...)
  BEFORE[command](key, ...)
  return writeIt(command, key, ...)
end

local function withdraw(row)
  Board.finishFanOut(row)
  Board.leave(row)
  if not ENDED[row.status] then Rank.finish(row) end
  Graph.reopen(row)
  local free = Graph.withdraw(row)
  Keys.release(row, 0)
  tally(row, row.status, -1)
  if row.status == 'failed' then countFailure(row.code or 'HANDLER_FAILED', -1) end
  S.forgotten = S.forgotten + 1
  signs.ended[#signs.ended + 1] = row.id
  Board.unpark(free)
end

local names, gone = {}, {}
for at = 1, #ask.gone, 3 do names[#names + 1] = ask.gone[at] end
Rows.prepare(names)
for at = 1, #ask.gone, 3 do
  local row = Rows.byId(ask.gone[at])
  local stands = row and row.seq == ask.gone[at + 1] and row.rev == ask.gone[at + 2]
    and row.lease == 0 and row.status ~= 'success'
  if not stands then return pack({ {}, false, false, now, { { { 'stale', {} } }, {} } }) end
  gone[#gone + 1] = row
end

for _, row in ipairs(gone) do
  withdraw(row)
  Rows.remove(row)
end
for _, row in ipairs(gone) do Board.releaseLane(row) end
local results, list = insertAll({ ask.group }, true)
if results[1].status ~= 'done' then
  for at = #undo, 1, -1 do call(unpack(undo[at])) end
  return pack({ {}, false, false, now, answerTo(results, list) })
end
put = writeIt
Pools.takeRoom()
return finish(function() return answerTo(results, list) end)
