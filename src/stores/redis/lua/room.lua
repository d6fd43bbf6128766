-- Owns the bounds of queues: which jobs of a group find room in their pools.
-- May never change a job: a group is judged before it is stored.

local Room = {}

-- Whether a new job would have to wait for others. `coming`: the ids that are new with it.
local function wouldWait(job, coming)
  local deps, met = job.header.deps, 0
  for at = 1, #deps, 2 do
    if not coming[deps[at]] and look(deps[at], deps[at + 1]) == 's' then met = met + 1 end
  end
  return quorumOf(job.header.depMode, #deps / 2) > met
end

-- Whether a job that has not ended counts on this id, which nobody has submitted.
local function isAwaited(id)
  if S.linked == 0 or Rows.byId(id) then return false end
  local after = 0
  while true do
    local edges, isMore = Graph.openEdges(id, after, 100)
    for _, edge in ipairs(edges) do
      local row = Rows.byKey(edge.key)
      if row and not ENDED[row.status] then return true end
      after = edge.seq
    end
    if not isMore then return false end
  end
end

-- Whether the job may take the lane, and who would have to give it back for that.
local function takesLane(job, at, taken, out, claimOf)
  local lane = job.header.lane
  local rank, seq = now - weightOf(job.priority), S.lastSeq + at
  local holder = taken[lane]
  if not holder then
    local by, yields = Lanes.claimOn(lane)
    holder = by and { row = by, rank = by.rank, seq = by.seq, yields = yields }
  end
  if holder then
    if not holder.yields or not Rank.isBefore(rank, seq, holder.rank, holder.seq) then
      return false
    end
    if holder.row then
      local claim = claimOf(Lines.of(holder.row.line).pool)
      claim.yielded = claim.yielded + 1
    else
      out[holder.index] = true
    end
  end
  taken[lane] = { index = job.index, rank = rank, seq = seq, yields = true }
  return true
end

-- Who of the group would be pending or ready, pool by pool: lanes are taken in order.
local function claimsOf(fresh)
  local coming, taken, out, claims, order = {}, {}, {}, {}, {}
  for _, job in ipairs(fresh) do coming[job.id] = true end
  local function claimOf(pool)
    local claim = claims[pool]
    if not claim then
      claim = { pool = pool, jobs = {}, yielded = 0 }
      claims[pool] = claim
      order[#order + 1] = claim
    end
    return claim
  end
  for at, job in ipairs(fresh) do
    local isHere = not wouldWait(job, coming)
    if isHere and job.delayMs == 0 and job.header.lane then
      isHere = takesLane(job, at, taken, out, claimOf)
    end
    if isHere and Pools.get(job.pool).rules.maxQueue < NEVER then
      local jobs = claimOf(job.pool).jobs
      jobs[#jobs + 1] = { index = job.index, awaited = isAwaited(job.id) }
    end
  end
  for _, claim in ipairs(order) do
    local left = {}
    for _, each in ipairs(claim.jobs) do
      if not out[each.index] then left[#left + 1] = each end
    end
    claim.jobs = left
  end
  return order
end

-- The refusal of one pool, and the places that its group would need; nil if there is room.
local function judge(claim)
  local rules = Pools.get(claim.pool).rules
  local most, jobs = rules.maxQueue, claim.jobs
  if most == NEVER then return nil end
  local room = max(0, most - Pools.queuedOf(claim.pool) + claim.yielded)
  local last, first = -1, nil
  for at, each in ipairs(jobs) do
    if not each.awaited then
      last = at - 1
      if at - 1 >= room and not first then first = each.index end
    end
  end
  if last < room then return nil end
  local refusal = { first or 0, 'full', claim.pool, most, rules.overflow, last >= most }
  return refusal, max(1, last + 1 - claim.yielded)
end

-- Why a group has to stay out: one refusal for each pool in which it finds no room, in order.
function Room.refuse(fresh)
  local refusals, wants, mayWait = {}, {}, true
  for _, claim in ipairs(claimsOf(fresh)) do
    local refusal, places = judge(claim)
    if refusal then
      refusals[#refusals + 1] = refusal
      wants[#wants + 1] = { Pools.get(claim.pool), places }
      if refusal[5] ~= 'wait' or refusal[6] then mayWait = false end
    end
  end
  if mayWait then
    for _, want in ipairs(wants) do Pools.want(want[1], want[2]) end
  end
  table.sort(refusals, function(a, b) return a[1] < b[1] end)
  return refusals
end
