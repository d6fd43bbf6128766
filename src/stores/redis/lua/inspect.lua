-- Owns the look at the store that `doctor` asks for, a part and a page at a time.
-- May never change anything. It is the one place that scans: nobody asks for it in a hurry.

local Parts = {}

-- Bit of a job's flags: it has no payload. What is neither special nor has one is not kept.
local SILENT = 2

local function isThere(name)
  return call('EXISTS', P .. name) == 1
end

-- Whether a hash has a field, asked once for each.
local fields = {}
local function isIn(name, field)
  local known = fields[name .. ' ' .. field]
  if known == nil then
    known = call('HEXISTS', P .. name, field) == 1
    fields[name .. ' ' .. field] = known
  end
  return known
end

-- Whole keys that are gone, without which no look at a job comes to an end.
function Parts.missing()
  local faults, jobs = {}, 0
  local tally = call('HGETALL', P .. 'tally')
  for at = 2, #tally, 2 do jobs = jobs + tonumber(tally[at]) end
  jobs = max(jobs, call('HLEN', P .. 'i'), call('HLEN', P .. 'n'))
  if jobs == 0 then return faults, false end
  local function expect(name, what)
    if isThere(name) then return end
    local text = string.format('%s of %.0f jobs, in key ', what, jobs)
    faults[#faults + 1] = text .. P .. name .. ', is gone'
  end
  expect('i', 'the list by id')
  expect('n', 'the state')
  expect('b', 'the order')
  expect('line', 'the pool and type')
  if S.lastTerms > 0 then expect('terms', 'what is set') end
  return faults, false
end

-- Whether everything that was said of a job can be read.
local function isSaid(row)
  if has(row, SILENT) and not has(row, SPECIAL) then return true end
  return call('HEXISTS', P .. 'j', row.key) == 1
end

local function hasTerms(row)
  return row.terms == 0 or isIn('terms', row.terms)
end

local function isWhole(row)
  return isSaid(row) and hasTerms(row) and isIn('line', row.line)
end

-- Jobs that wait for others: { id, open dependencies, which of those nobody has submitted }.
function Parts.waiting(cursor)
  local from = string.format('(%s', cursor)
  local keys = call('ZRANGEBYSCORE', P .. 'st:waiting', from, '+inf', 'LIMIT', 0, 200)
  local found = {}
  Rows.load(keys)
  for _, key in ipairs(keys) do
    local row = Rows.byKey(key)
    if row and has(row, LINKED) and isSaid(row) then
      local deps, states, open = Rows.header(row).deps, Graph.statesOf(row), {}
      for at = 1, #deps, 2 do
        local place = (at + 1) / 2
        if string.sub(states, place, place) == 'o' then
          local isGhost = row.needs > 0 and not Rows.byId(deps[at])
          open[#open + 1] = { deps[at], isGhost }
        end
      end
      found[#found + 1] = { row.id, open }
    end
  end
  local last = keys[#keys]
  return found, #keys == 200 and string.format('%.0f', (struct.unpack('>I6', last))) or false
end

-- Keys whose owner is not known, or has ended without a window.
function Parts.keys(cursor)
  local scan, found = call('HSCAN', P .. 'key', cursor, 'COUNT', 500), {}
  for at = 1, #scan[2], 2 do
    local owner, free = string.sub(scan[2][at + 1], 1, 6), tonumber(string.sub(scan[2][at + 1], 7))
    local row = Rows.byKey(owner)
    local isRight = row and free == 0 and not ENDED[row.status]
    if free > 0 then isRight = row and row.status == 'success' end
    if not isRight then
      found[#found + 1] = { scan[2][at], row and row.id or false, (struct.unpack('>I6', owner)) }
    end
  end
  return found, scan[1] ~= '0' and scan[1] or false
end

function Parts.expired()
  local late = {}
  Terms.late('ends', LIMIT.page, late)
  local found = {}
  for _, each in ipairs(late) do
    local row = Rows.byKey(each[1])
    if isWhole(row) then found[#found + 1] = row end
  end
  late = found
  table.sort(late, function(a, b)
    if a.deadline ~= b.deadline then return a.deadline < b.deadline end
    return a.seq < b.seq
  end)
  for at = #late, LIMIT.page + 1, -1 do late[at] = nil end
  return jobsOf(late), false
end

-- Who stands under an instant of deadlines that many share.
local sharing = {}
local function isKept(term, at, key)
  local name = term .. ' ' .. string.format('%.0f', at)
  local keys = sharing[name]
  if not keys then
    keys = {}
    local instant = string.format('%.0f', at)
    for _, member in ipairs(call('ZRANGEBYSCORE', P .. term, instant, instant)) do
      for from = 1, #member, 6 do keys[string.sub(member, from, from + 5)] = true end
    end
    sharing[name] = keys
  end
  return keys[key]
end

-- What is not kept of a job's deadline.
local function forgottenOf(row)
  local term = termOf(row)
  if term and not isKept(term, row.deadline, row.key) then
    return term == 'ends' and 'the end of its lease is not kept' or 'its retention is not kept'
  end
  local _, wait = marksOf(row)
  if wait and not call('ZSCORE', P .. 'waits', row.key) then return 'its deadline is not kept' end
end

local LIVE = { pending = true, ready = true, running = true }

-- What is wrong with the lane of a job that has asked for it.
local function outOfLane(row)
  if not has(row, LANED) or not row.inLane then return nil end
  local lane = Rows.header(row).lane
  local holder = call('HGET', P .. 'lane', lane)
  if row.status == 'waiting' and row.needs == 0 then
    if not holder then return 'waits for lane ' .. lane .. ', which nobody holds' end
    if not call('ZSCORE', P .. 'w:' .. lane, row.key) then
      return 'waits for lane ' .. lane .. ', and is not in its queue'
    end
  elseif (LIVE[row.status] or row.hold) and (not holder or string.sub(holder, 1, 6) ~= row.key) then
    return 'does not hold its lane ' .. lane
  end
end

-- What contradicts itself in a job; nil where nothing does.
local function faultOf(row)
  if not isIn('line', row.line) then
    return string.format('%s is of line %d, which there is not', row.id, row.line)
  end
  if not hasTerms(row) then return row.id .. ' is ' .. row.status .. ', and its terms are gone' end
  if not isSaid(row) then return row.id .. ' is ' .. row.status .. ', and its payload is gone' end
  local isHeld = row.lease > 0 and not row.hold
  if (row.status == 'running') ~= isHeld then
    local what = isHeld and 'with the lease of a running job' or 'without a lease'
    return row.id .. ' is ' .. row.status .. ', ' .. what
  end
  local command = row.lease > 0 and 'SISMEMBER' or 'ZSCORE'
  local found = row.place and call(command, P .. row.place, row.key)
  if row.place and (not found or found == 0) then
    return row.id .. ' is ' .. row.status .. ', and in no queue'
  end
  if call('HGET', P .. 'i', row.id) ~= row.key then return row.id .. ' is not found by its id' end
  local forgotten = forgottenOf(row) or outOfLane(row)
  if forgotten then return row.id .. ' is ' .. row.status .. ', and ' .. forgotten end
  if not has(row, LINKED) then return nil end
  local _, open = string.gsub(Graph.statesOf(row) or '', 'o', '')
  if open ~= row.open then
    return string.format('%s is %s, with %d open edges, of which %d are there', row.id, row.status,
      row.open, open)
  end
end

-- A page of all jobs: faults, and how many there are by line and state, by priority and weight.
function Parts.jobs(cursor)
  local faults, counts, weights = {}, {}, {}
  local last = Walk.from(tonumber(cursor), LIMIT.chunk, false, function(row)
    local fault = faultOf(row)
    if fault then faults[#faults + 1] = fault end
    local name = row.line .. ':' .. NUMBER[row.status]
    if isIn('line', row.line) then Lines.of(row.line) end
    counts[name] = (counts[name] or 0) + 1
    if not ENDED[row.status] then
      local kind = string.format('%d %.0f', row.priority, row.weight)
      weights[kind] = (weights[kind] or 0) + 1
    end
    return true
  end)
  return { faults, counts, weights }, last and string.format('%.0f', last) or false
end

-- Schedules of which the instant and the row do not agree.
function Parts.schedules()
  local faults, names = {}, {}
  local rows = call('HGETALL', P .. 'schedule')
  for at = 1, #rows, 2 do
    names[rows[at]] = true
    local score = tonumber(call('ZSCORE', P .. 'schedules', rows[at]) or nil)
    if not score then
      faults[#faults + 1] = 'schedule ' .. rows[at] .. ' is set, and in no queue'
    elseif score ~= unpackAll(rows[at + 1])[5] then
      faults[#faults + 1] = 'schedule ' .. rows[at] .. ' is in the queue at another instant'
    end
  end
  for _, name in ipairs(call('ZRANGE', P .. 'schedules', 0, -1)) do
    if not names[name] then
      faults[#faults + 1] = 'schedule ' .. name .. ' is in the queue, and is not set'
    end
  end
  return faults, false
end

-- What the store itself counts.
function Parts.counts()
  for _, line in ipairs(Lines.all(nil)) do Lines.of(line) end
  return { call('HGETALL', P .. 'tally'), call('HGETALL', P .. 'weigh') }, false
end

local found, following = Parts[ask.part](ask.cursor)
return reply({ found, following, S.lastEvent, S.lastLease })
