-- Owns promise 17: who has to give way to an urgent job.
-- May never free more than one slot for one job.

local function givesWayBefore(a, b)
  if a.priority ~= b.priority then return a.priority < b.priority end
  if a.startedAt ~= b.startedAt then return a.startedAt > b.startedAt end
  return a.seq > b.seq
end

-- Which of those that hold a slot has to give way, or from when on time alone makes one of them.
local function victimOf(held, urgent, terms, holder)
  local victim, at = nil, NEVER
  for _, row in ipairs(held) do
    if row.hold or row.evictor then return nil, NEVER end
    local mayGive = (not holder or row.holder == holder) and has(row, PREEMPTIBLE)
      and (row.preempted or 0) < LIMIT.displaced and row.priority + terms.minGap <= urgent.priority
    if mayGive then
      local from = row.startedAt + terms.minRunMs
      if from > now then at = min(at, from)
      elseif not victim or givesWayBefore(row, victim) then victim = row end
    end
  end
  return victim, victim and NEVER or at
end

-- Everybody who holds a slot of the pool, and can still be told to give it up.
local function heldIn(pool, lease)
  local held = {}
  for _, line in ipairs(slots.lines) do
    if Lines.of(line).pool == pool then
      local keys = call('SMEMBERS', P .. 'l:' .. line)
      Rows.load(keys)
      for _, key in ipairs(keys) do held[#held + 1] = rows[key] end
    end
  end
  for _, row in pairs(lease.granted.rows) do
    if Lines.of(row.line).pool == pool then held[#held + 1] = row end
  end
  local able = {}
  for _, row in ipairs(held) do
    if not row.stuck then able[#able + 1] = row end
  end
  return able
end

-- Promise 17, for the job that is next and has no room. One slot less in use has to be enough.
function Victims.displaceFor(row, pool, lease, cap, share)
  local terms = pool.rules.preempt
  if not terms or row.displaced or not isUrgent(row.priority, terms.minPriority) then return end
  local mine = Slots.ofShare(pool.name, lease.holder)
  if Slots.ofPool(pool.name) ~= cap or mine > share then return end
  local victim, at = victimOf(heldIn(pool.name, lease), row, terms, mine == share and lease.holder)
  if victim then Board.displace(victim, row) else lease.nextAt = min(lease.nextAt, at) end
end
