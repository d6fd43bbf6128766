-- Owns the rows of schedules, and which of them has come to its instant.
-- May never know what a cron expression means: whoever makes the jobs says what comes next.

local Timetable = {}

-- A row is { cron, timeZone or false, missed, template, nextAt }.
local function scheduleBy(name)
  local text = call('HGET', P .. 'schedule', name)
  return text and unpackAll(text)
end

local function write(name, row)
  put('HSET', P .. 'schedule', name, pack(row))
  put('ZADD', P .. 'schedules', row[5], name)
  announce(true, row[5])
end

local function isSame(a, b)
  return a[1] == b[1] and a[2] == b[2] and a[4] == b[4]
end

-- A row, or false to take it away. What says the same of the same job keeps its instant.
function Timetable.set(name, row)
  if not row then
    put('HDEL', P .. 'schedule', name)
    put('ZREM', P .. 'schedules', name)
    return
  end
  local known = scheduleBy(name)
  if known and isSame(known, row) then row[5] = known[5] end
  write(name, row)
end

-- Whether the row is there, says the same, and has not moved on from this instant.
function Timetable.stands(tick)
  local row = scheduleBy(tick.name)
  return row and row[5] == tick.at and isSame(row, tick.row) and row[3] == tick.row[3]
end

function Timetable.moveOn(name, nextAt)
  local row = scheduleBy(name)
  row[5] = nextAt
  write(name, row)
end

-- The rows whose instant has come, by (instant, name), and the next instant of all others.
function Timetable.due(limit)
  local found = call('ZRANGEBYSCORE', P .. 'schedules', '-inf', now, 'LIMIT', 0, limit + 1)
  local rowsDue, nextAt = {}, nil
  for at, name in ipairs(found) do
    local row = scheduleBy(name)
    if at > limit then
      nextAt = row[5]
    else
      row[6] = name
      rowsDue[at] = row
    end
  end
  if not nextAt then
    local later = call('ZRANGEBYSCORE', P .. 'schedules', string.format('(%.0f', now), '+inf',
      'WITHSCORES', 'LIMIT', 0, 1)
    nextAt = tonumber(later[2]) or NEVER
  end
  return rowsDue, nextAt
end
