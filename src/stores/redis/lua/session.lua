-- Owns one call: its argument, the clock, the state of the store, what it writes and tells.
-- May never know a rule of the port: those are in the files that come after this one.

local call, pack, unpackAll = redis.call, cmsgpack.pack, cmsgpack.unpack
local floor, min, max, ceil = math.floor, math.min, math.max, math.ceil
local NEVER, MOST = math.huge, 2 ^ 53 - 1

-- Every key begins with the hash tag of the prefix: `{ax}:`.
local P = string.sub(KEYS[1], 1, -6)
local ask = unpackAll(ARGV[1])

-- Rooms for functions, some of which several pieces fill.
local Board, Graph, Lanes, Keys, Pools, Rate, Breaker = {}, {}, {}, {}, {}, {}, {}
local Promotion, Victims, Turns = {}, {}, {}

-- The state: a byte for the version, then numbers in this order, then what is set, if anything is.
local STATE = '<B' .. string.rep('d', 18)

local function readState(text)
  if not text then
    return {
      now = 0, lastSeq = 0, lastLease = 0, lastEvent = 0, oldestEvent = 1, forgotten = 0,
      unranked = 0, rankedAfter = 0, budgetTat = 0, bounds = 0, wanting = 0, settings = 0,
      lastLine = 0, lastTerms = 0, lastFanOut = 0, waitAt = NEVER, quietAt = NEVER, linked = 0,
      ageing = false, budget = false,
    }
  end
  local _, at, seq, lease, event, oldest, forgotten, unranked, ranked, tat, bounds, wanting,
    settings, line, terms, fanOut, waits, quiet, linked, rest = struct.unpack(STATE, text)
  local set = rest <= #text and unpackAll(string.sub(text, rest))
  return {
    now = at, lastSeq = seq, lastLease = lease, lastEvent = event, oldestEvent = oldest,
    forgotten = forgotten, unranked = unranked, rankedAfter = ranked, budgetTat = tat,
    bounds = bounds, wanting = wanting, settings = settings, lastLine = line, lastTerms = terms,
    lastFanOut = fanOut, waitAt = waits, quietAt = quiet, linked = linked,
    ageing = set and set[1], budget = set and set[2],
  }
end

local stateBefore = call('GET', KEYS[1])
local version = stateBefore and string.byte(stateBefore) or VERSION
if version > VERSION then return redis.error_reply('AXVERSION ' .. version) end
local S = readState(stateBefore)

-- A wall clock that was set back a little stands still; further back, it is followed.
local now = ask.now
if not now then
  local time = call('TIME')
  now = time[1] * 1000 + floor(time[2] / 1000)
end
if now < S.now and S.now - now < 60000 then now = S.now end

-- No number of a lease is given twice, though a replica took over that had not heard of the latest:
-- its clock is later than they are. Six bytes hold it until 2059. The clock of a test says nothing.
local function nextLease()
  local least = ask.now and 0 or now * 100
  S.lastLease = max(S.lastLease + 1, least)
  return S.lastLease
end

local wrote = false

-- The one door for everything that is written: `replace` puts another in its place.
local put = function(...)
  wrote = true
  return call(...)
end

-- What unpack() may put on Lua's stack at once; divisible by 2 and by 3.
local ARGS = 4800

-- One command for many arguments, or a few of them.
local function putAll(command, key, args)
  local count = #args
  if count <= ARGS then
    if count > 0 then put(command, key, unpack(args)) end
    return
  end
  for first = 1, count, ARGS do
    put(command, key, unpack(args, first, min(first + ARGS - 1, count)))
  end
end

-- The values of many fields, in their order.
local function readAll(key, fields)
  local count = #fields
  if count == 0 then return {} end
  if count <= ARGS then return call('HMGET', key, unpack(fields)) end
  local values = {}
  for first = 1, count, ARGS do
    local some = call('HMGET', key, unpack(fields, first, min(first + ARGS - 1, count)))
    for at = 1, #some do values[first + at - 1] = some[at] end
  end
  return values
end

-- Byte by byte: Lua compares texts by the locale of the server.
local function isSmaller(a, b)
  local length = min(#a, #b)
  for at = 1, length do
    local x, y = string.byte(a, at), string.byte(b, at)
    if x ~= y then return x < y end
  end
  return #a < #b
end

-- What the call will hint at.
local signs = {
  ready = false, overdue = false, settings = false, ended = {}, holders = {}, room = {},
}

local Log = {}
local logged = { runs = {}, count = 0, batches = {} }

function Log.close()
  if logged.count == 0 then return end
  local first = logged.runs[1][1]
  logged.batches[#logged.batches + 1] = { first, pack({ first + logged.count - 1, logged.runs }) }
  logged.runs, logged.count = {}, 0
end

-- A run is what entries have in common that differ in their job only; then the jobs.
local function openRun(type, pool, from, to, event, code, cause, worker, attempt)
  if logged.count == LIMIT.events then Log.close() end
  local run = { S.lastEvent + 1, type, pool, from, to, event, code, cause, worker, attempt, {} }
  logged.runs[#logged.runs + 1] = run
  return run
end

-- Entries that differ in their job only are one run: a lease writes its names once.
function Log.add(job, pool, type, from, to, event, attempt, code, cause, worker)
  local run = logged.runs[#logged.runs]
  if not run or run[5] ~= to or run[6] ~= event or run[4] ~= from or run[2] ~= type
      or run[3] ~= pool or run[9] ~= worker or run[7] ~= code or run[8] ~= cause
      or run[10] ~= attempt or logged.count == LIMIT.events then
    run = openRun(type, pool, from, to, event, code, cause, worker, attempt)
  end
  local jobs = run[11]
  jobs[#jobs + 1] = job
  S.lastEvent, logged.count = S.lastEvent + 1, logged.count + 1
end

-- The entry of a run for more jobs. Answers the run that the last of them is in.
function Log.addAll(run, more)
  local at, last = 1, #more
  while at <= last do
    if logged.runs[#logged.runs] ~= run or logged.count == LIMIT.events then
      run = openRun(unpack(run, 2, 10))
    end
    local jobs, count = run[11], min(last - at + 1, LIMIT.events - logged.count)
    local base = #jobs + 1 - at
    for place = at, at + count - 1 do jobs[base + place] = more[place] end
    S.lastEvent, logged.count, at = S.lastEvent + count, logged.count + count, at + count
  end
  return run
end

-- The field is the instant of all entries in it: that is all that pruning has to read.
function Log.write()
  Log.close()
  for _, batch in ipairs(logged.batches) do
    put('XADD', P .. 'log', string.format('%.0f-0', batch[1]), string.format('%.0f', now), batch[2])
  end
end

local function told()
  if not ask.tell then return false end
  local packed = {}
  for at, batch in ipairs(logged.batches) do packed[at] = batch[2] end
  return packed
end

local function hint()
  local s = signs
  if not (s.ready or s.overdue or s.settings) and #s.ended == 0 and #s.holders == 0
      and #s.room == 0 then
    return false
  end
  return pack({ ask.me, s.ready, s.overdue, s.settings, s.ended, s.holders, s.room })
end

local function textOfState(at)
  local text = struct.pack(STATE, VERSION, at, S.lastSeq, S.lastLease, S.lastEvent, S.oldestEvent,
    S.forgotten, S.unranked, S.rankedAfter, S.budgetTat, S.bounds, S.wanting, S.settings,
    S.lastLine, S.lastTerms, S.lastFanOut, S.waitAt, S.quietAt, S.linked)
  if not (S.ageing or S.budget) then return text end
  return text .. pack({ S.ageing, S.budget })
end

-- `isWriting`: whether anything but the state is about to be written.
local function saveState(isWriting)
  if not (wrote or isWriting) and textOfState(S.now) == stateBefore then return end
  S.now = now
  local text = textOfState(now)
  if text == stateBefore then return end
  put('SET', KEYS[1], text)
  stateBefore = text
end
