-- Owns the look at the store that `doctor` asks for, a part and a page at a time.
-- May never change anything. It is the one place that scans: nobody asks for it in a hurry.

local Parts = {}

-- Jobs that wait for others: { id, open dependencies, which of those nobody has submitted }.
function Parts.waiting(cursor)
  local from = string.format('(%s', cursor)
  local keys = call('ZRANGEBYSCORE', P .. 'st:waiting', from, '+inf', 'LIMIT', 0, 200)
  local found = {}
  Rows.load(keys)
  for _, key in ipairs(keys) do
    local row = Rows.byKey(key)
    if has(row, LINKED) then
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
  for at, each in ipairs(late) do late[at] = Rows.byKey(each[1]) end
  table.sort(late, function(a, b)
    if a.deadline ~= b.deadline then return a.deadline < b.deadline end
    return a.seq < b.seq
  end)
  for at = #late, LIMIT.page + 1, -1 do late[at] = nil end
  return jobsOf(late), false
end

-- What contradicts itself in a job; nil where nothing does.
local function faultOf(row)
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
    Lines.of(row.line)
    counts[name] = (counts[name] or 0) + 1
    if not ENDED[row.status] then
      local kind = string.format('%d %.0f', row.priority, row.weight)
      weights[kind] = (weights[kind] or 0) + 1
    end
    return true
  end)
  return { faults, counts, weights }, last and string.format('%.0f', last) or false
end

-- What the store itself counts.
function Parts.counts()
  for _, line in ipairs(Lines.all(nil)) do Lines.of(line) end
  return { call('HGETALL', P .. 'tally'), call('HGETALL', P .. 'weigh') }, false
end

local found, following = Parts[ask.part](ask.cursor)
return reply({ found, following, S.lastEvent, S.lastLease })
