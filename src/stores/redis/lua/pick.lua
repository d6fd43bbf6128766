-- Owns what one `lease` takes of a pool: promises 5, 16, 17, 18 and 20, in the order of the text.
-- May never look at more queues and jobs than it takes, puts aside, or has to choose among.

local function isUrgent(priority, minPriority)
  return priority >= minPriority and priority > (S.ageing and S.ageing.ceiling or 0)
end

local function raiseOf(cap, elastic)
  if not elastic or cap == 0 or cap == NEVER then return 0 end
  return max(1, floor(cap * elastic.ratio))
end

-- The ready jobs of one line, suspects or others, are read some at a time once one is wanted.
local function readQueue(queue, size)
  local place, last = P .. queue.place, queue.base + size - 1
  local keys, ranks = {}, {}
  if queue.isAlone then
    keys = call('ZRANGE', place, queue.base, last)
  else
    local found = call('ZRANGE', place, queue.base, last, 'WITHSCORES')
    for at = 1, #found, 2 do
      keys[(at + 1) / 2], ranks[(at + 1) / 2] = found[at], tonumber(found[at + 1])
    end
  end
  queue.base = queue.base + #keys
  queue.keys, queue.ranks, queue.texts, queue.at = keys, ranks, nil, 1
  queue.isDone = #keys < size
end

-- Where its first job stands: known without reading it.
local function headOf(queue, size)
  if queue.at > #queue.keys and not queue.isDone then readQueue(queue, size) end
  return queue.keys[queue.at], queue.ranks[queue.at]
end

-- The text of its first job. Those of all that have been read of the queue are read with it.
local function textOf(queue)
  if not queue.texts then queue.texts = readAll(P .. 'n', queue.keys) end
  return queue.texts[queue.at]
end

-- The next job: its head alone, if there is nothing rare about it.
local function peek(queue, chunk)
  local key = headOf(queue, chunk)
  if not key then return nil end
  if rows[key] == nil then
    local text = textOf(queue)
    local head = Alike.bare(text)
    if head then return head, key, true end
    texts[key] = text
  end
  return Rows.byKey(key), key
end

-- Whether none of a queue may start: a type that is at its cap, and suspects while the worker has
-- one, are passed over. Within a call neither becomes less, so it holds for the rest of the call.
local function isOut(queue, lease)
  local cap = lease.caps[queue.names.type]
  return (queue.isSuspects and lease.hasSuspect)
    or (cap and (slots.types[queue.names.type] or 0) >= cap)
end

local function comesBefore(a, b)
  return a.rank < b.rank or (a.rank == b.rank and isSmaller(a.key, b.key))
end

-- Puts the queue at this place of a heap where it belongs, below those that come before it.
local function sink(heap, at)
  local queue, size = heap[at], #heap
  while true do
    local child = 2 * at
    if child > size then break end
    if child < size and comesBefore(heap[child + 1], heap[child]) then child = child + 1 end
    if not comesBefore(heap[child], queue) then break end
    heap[at], at = heap[child], child
  end
  heap[at] = queue
end

-- The queues that somebody may start of, in a heap: none comes before the first. Of each no more
-- than its head is read, once.
local function heapOf(queues, lease)
  local heap = {}
  for _, queue in ipairs(queues) do
    if not isOut(queue, lease) then
      queue.key, queue.rank = headOf(queue, lease.first)
      if queue.key then heap[#heap + 1] = queue end
    end
  end
  for at = floor(#heap / 2), 1, -1 do sink(heap, at) end
  return heap
end

local function dropFirst(heap)
  heap[1] = heap[#heap]
  heap[#heap] = nil
  if heap[2] then sink(heap, 1) end
end

-- The queue whose first job is the next one. One that is out, and a job whose victim still holds
-- its slot, are passed over: they hide nobody. A queue stands where its head stood when it was last
-- the first, which is never too far behind: heads only move back.
local function nextOf(heap, lease)
  while heap[1] do
    local queue = heap[1]
    local key, rank
    if not isOut(queue, lease) then key, rank = headOf(queue, lease.size) end
    if not key then
      dropFirst(heap)
    elseif key ~= queue.key then
      queue.key, queue.rank = key, rank
      sink(heap, 1)
    else
      local row, _, isBare = peek(queue, lease.size)
      if not row.victim then return queue, row, key, isBare end
      queue.at = queue.at + 1
    end
  end
end

-- How many leases and holds there may be with this job, in the pool and of the worker in it.
local function limitsFor(row, rules)
  local cap, elastic = rules.concurrency, rules.elastic
  local share = rules.perWorker < cap and rules.perWorker or NEVER
  if not elastic or not isUrgent(row.priority, elastic.minPriority) then return cap, share end
  return cap + raiseOf(cap, elastic), share + raiseOf(share, elastic)
end

-- How many more may start of a pool at most, whoever is next in it.
local function roomIn(pool, lease)
  local rules = pool.rules
  local cap, share, elastic = rules.concurrency, rules.perWorker, rules.elastic
  local room = cap + raiseOf(cap, elastic) - Slots.ofPool(pool.name)
  if share >= cap then return room end
  return min(room, share + raiseOf(share, elastic) - Slots.ofShare(pool.name, lease.holder))
end

-- From when on rate and breaker let one start; NEVER while that is not up to time alone.
local function opensAt(pool)
  local rate, breaker = pool.rules.rate, pool.breaker
  local byRate = rate and Rate.freeAt(rate, pool.tat) or 0
  return breaker and max(byRate, Breaker.freeAt(breaker)) or byRate
end

-- Whether nothing but the caps of pool and worker has to be asked again for each job.
local function isSimple(rules, pool, queues, lease)
  local isBound = rules.rate or pool.breaker or rules.elastic or rules.preempt
  local queue = queues[1]
  return #queues == 1 and not isBound and not queue.isSuspects and not lease.caps[queue.names.type]
end

-- Grants as many of one queue as there is room for; leaves to takeFrom what is not alike.
local function takeRun(queue, most, lease)
  local taken, isUntouched = 0, not writing.rems[queue.place]
  while taken < most do
    local key = headOf(queue, lease.size)
    if not key or rows[key] ~= nil then break end
    local head = Alike.bare(textOf(queue))
    if not head or not head.isPlain then break end
    taken = taken + lease.grantAlike(head, queue, most - taken)
  end
  lease.left = lease.left - taken
  Slots.add(queue.names, taken)
  -- If no other is taken of it, those are taken out as what stands in front.
  if isUntouched then writing.fronts[queue.place] = taken end
end

local FEW = 16

-- Grants the best of a pool that may start. Of its queues no more is read than there is room for,
-- unless some of what is read is passed over, as those are who wait for a victim's slot.
local function takeFrom(pool, queues, lease)
  local rules, isChanged = pool.rules, false
  if Pools.isShut(pool) then return end
  local room, isMany = min(lease.left, roomIn(pool, lease)), #queues > 8
  local size = max(room, rules.preempt and FEW or 1)
  lease.size = isMany and min(size, FEW) or size
  lease.first = isMany and 1 or lease.size
  queues[1].isAlone = #queues == 1
  if isSimple(rules, pool, queues, lease) then takeRun(queues[1], room, lease) end
  local heap
  while lease.left > 0 and (rules.preempt or roomIn(pool, lease) > 0) do
    heap = heap or heapOf(queues, lease)
    local queue, row, key, isBare = nextOf(heap, lease)
    if not queue then break end
    local cap, share = limitsFor(row, rules)
    local hasRoom = Slots.ofPool(pool.name) < cap
      and (share == NEVER or Slots.ofShare(pool.name, lease.holder) < share)
    local at = opensAt(pool)
    if at > now then
      if hasRoom then lease.nextAt = min(lease.nextAt, at) end
      break
    end
    if not hasRoom then
      Victims.displaceFor(Rows.byKey(key), pool, lease, cap, share)
      break
    end
    if rules.rate then pool.tat = Rate.taken(rules.rate, pool.tat, 1) end
    isChanged = isChanged or rules.rate or pool.breaker
    lease.left = lease.left - 1
    lease.hasSuspect = lease.hasSuspect or isSuspect(row)
    local pass = pool.breaker and Breaker.admit(pool.breaker)
    if isBare and row.isPlain and not (pass or rules.preempt) then
      lease.grantAlike(row, queue, 1)
    else
      queue.at = queue.at + 1
      lease.grant(Rows.byKey(key), pass)
    end
    Slots.add(queue.names, 1)
  end
  if isChanged then Pools.save(pool) end
end
