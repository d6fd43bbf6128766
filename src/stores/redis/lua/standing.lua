-- Owns the call `standing`: what `explain` has to know beside the job itself.
-- May never count further than LIMIT.position.

local row = Rows.byId(ask.id)
local workers = Read.workers()
if not row then
  return reply({ {}, false, {}, {}, workers, {}, false, {}, 0, -1, false })
end

local names = Lines.of(row.line)
local tallies = Read.tallies(names.pool)

local function aheadOf()
  if row.status ~= 'ready' then return 0 end
  local served, before = {}, 0
  for _, worker in ipairs(workers) do
    for _, type in ipairs(unpackAll(worker[2])[2]) do served[type] = true end
  end
  for at = 1, #tallies, 1 + #STATUS do
    local line = tallies[at]
    if served[Lines.of(line).type] then
      for _, place in ipairs({ 'r:' .. line, 'rs:' .. line }) do
        before = before + Read.before(place, row.rank, row.key, LIMIT.position - before)
      end
    end
  end
  return before
end

-- Retries that the budget lets out before this one; -1 if it is not the budget that holds it.
local function budgetedBefore()
  local again = row.again
  if row.status ~= 'pending' or not S.budget or again == 0 then return -1 end
  if row.availableAt > now then return -1 end
  local before = Read.before('again', row.rank, row.key, LIMIT.position)
  local offset, keys = 0, {}
  repeat
    keys = call('ZRANGEBYSCORE', P .. 'due:1', '-inf', now, 'LIMIT', offset, LIMIT.chunk)
    offset = offset + LIMIT.chunk
    Rows.load(keys)
    for _, key in ipairs(keys) do
      local other = Rows.byKey(key)
      if Rank.isBefore(other.rank, other.seq, row.rank, row.seq) then before = before + 1 end
    end
  until before >= LIMIT.position or #keys < LIMIT.chunk
  return min(before, LIMIT.position)
end

local function statusOf(id)
  local named = Rows.byId(id)
  return named and named.status or Graph.outcomeOf(id) or 'unknown'
end

-- Each dependency that is not satisfied: id, on, whether it is dead, how its id stands.
local function unsatisfied()
  local flat = {}
  if not has(row, LINKED) then return flat end
  local deps, states = Rows.header(row).deps, Graph.statesOf(row)
  for at = 1, #deps, 2 do
    local place = (at + 1) / 2
    local state = string.sub(states, place, place)
    if state ~= 's' then
      local base = #flat
      flat[base + 1], flat[base + 2] = deps[at], deps[at + 1]
      flat[base + 3], flat[base + 4] = state == 'd', statusOf(deps[at])
    end
  end
  return flat
end

local function laneHolder()
  if not has(row, LANED) or not row.inLane then return false end
  local by = Lanes.claimOn(Rows.header(row).lane)
  return by and by ~= row and by.id or false
end

local cap = call('HGET', P .. 'cap', names.type)
local jobs = jobsOf({ row })
return reply({
  jobs, call('HGET', P .. 'pool', names.pool), tallies, Read.slots(), workers,
  call('HVALS', P .. 'suspects'), laneHolder(), unsatisfied(), aheadOf(), budgetedBefore(),
  row.victim or false, tonumber(cap) or false, S.ageing, S.budget, S.budgetTat,
})
