-- Owns lanes and keys: who holds what, and who is next.
-- May never change a status: it answers what follows, and the board moves.

local lanes = {}

-- Six bytes for the holder, then whether it has been leased since it was admitted.
local function laneOf(name)
  local lane = lanes[name]
  if lane == nil then
    local text = call('HGET', P .. 'lane', name)
    lane = text and { holder = string.sub(text, 1, 6), started = string.byte(text, 7) == 49 }
      or false
    lanes[name] = lane
  end
  return lane
end

local function setLane(name, holder, started)
  lanes[name] = holder and { holder = holder, started = started } or false
  if holder then
    put('HSET', P .. 'lane', name, holder .. (started and '1' or '0'))
  else
    put('HDEL', P .. 'lane', name)
  end
end

-- Who holds a lane by this name, and whether it would yield to somebody better.
function Lanes.claimOn(name)
  local lane = laneOf(name)
  local by = lane and Rows.byKey(lane.holder)
  if not by then return nil end
  return by, by.status == 'ready' and not lane.started
end

-- True: it is free, or its own. False: the job has to wait. Else the holder, which yields.
function Lanes.ask(row)
  local name = Rows.header(row).lane
  if not row.inLane then
    row.inLane = true
    touch(row)
  end
  local by, yields = Lanes.claimOn(name)
  if by == row then return true end
  if not by then
    setLane(name, row.key, false)
    return true
  end
  if not yields or not Rank.isBefore(row.rank, row.seq, by.rank, by.seq) then return false end
  setLane(name, row.key, false)
  return by
end

function Lanes.started(row)
  if row.inLane and has(row, LANED) then setLane(Rows.header(row).lane, row.key, true) end
end

-- A job has ended for good. Answers the job that is admitted in its place.
function Lanes.release(row)
  if not has(row, LANED) or not row.inLane then return nil end
  local name = Rows.header(row).lane
  row.inLane = nil
  touch(row)
  local lane = laneOf(name)
  if not lane or lane.holder ~= row.key then return nil end
  flush()
  local key = call('ZRANGE', P .. 'w:' .. name, 0, 0)[1]
  setLane(name, key, false)
  return key and Rows.byKey(key)
end

-- The job that owns a key now. A window that is over is taken over by whoever comes.
function Keys.ownerOf(key)
  local text = call('HGET', P .. 'key', key)
  if not text then return nil end
  local free = tonumber(string.sub(text, 7))
  if free ~= 0 and free <= now then return nil end
  return Rows.byKey(string.sub(text, 1, 6))
end

function Keys.take(row)
  if has(row, KEYED) then put('HSET', P .. 'key', Rows.header(row).key, row.key .. '0') end
end

-- Frees the key at once, or after the window; only if this job is its owner.
function Keys.release(row, free)
  if not has(row, KEYED) then return end
  local key = Rows.header(row).key
  local text = call('HGET', P .. 'key', key)
  if not text or string.sub(text, 1, 6) ~= row.key then return end
  if free > 0 then
    put('HSET', P .. 'key', key, row.key .. string.format('%.0f', free))
  else
    put('HDEL', P .. 'key', key)
  end
end
