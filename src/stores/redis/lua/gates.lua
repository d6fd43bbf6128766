-- Owns the gates that a job passes, and what its change brings about: who gives way, who is next in
-- a lane, who is told of an end.
-- May never decide: it obeys the promises of store.ts.

-- A job that can no longer be satisfied: somebody has to cancel it, now.
local function doom(row)
  Board.setDeadline(row, now)
  signs.overdue = true
end

-- What being where it is now brings with it.
local function settleIn(row)
  if row.status == 'ready' then
    row.readyAt = now
    touch(row)
    if has(row, SPECIAL) then
      local patience = Rows.header(row).patience
      if patience > 0 then Board.setDeadline(row, now + patience) end
    end
    signs.ready = true
  elseif row.status == 'pending' then
    signs.ready = true
  elseif isDoomed(row) then
    doom(row)
  end
end

local function rankAt(row, askedAt)
  Rank.renew(row)
  row.rank = askedAt - row.weight
  touch(row)
end

-- The rank is fixed at the moment of asking; a holder that has to yield goes back in line.
local function asksLane(row, readyAt)
  if readyAt then rankAt(row, readyAt) end
  if not has(row, LANED) then return true end
  local answer = Lanes.ask(row)
  if answer == true or answer == false then return answer end
  Board.leave(answer)
  Board.enter(answer, 'yield', 'waiting')
  return true
end

-- The gate of the lane, for a job whose time has come. No `readyAt`: it keeps its rank.
function Board.pass(row, step, readyAt, note)
  local to = asksLane(row, readyAt) and 'ready' or 'waiting'
  Board.enter(row, step, to, note)
  settleIn(row)
end

-- Lets a job that needs nothing more pass the gates of time and lane.
function Board.place(row, step, keepRank, note)
  local again = step == 'retry' or step == 'timeout'
  if again and (row.availableAt > now or S.budget) then
    rankAt(row, row.availableAt)
    row.again = 1
    Board.enter(row, step, 'pending', note)
    settleIn(row)
  elseif row.availableAt > now then
    row.keepRank = keepRank
    Board.enter(row, step, 'pending', note)
    settleIn(row)
  else
    Board.pass(row, step, not keepRank and now or nil, note)
  end
end

-- Gives a new job the status that its gates say. Its edges have been drawn.
function Board.begin(row)
  if has(row, KEYED) then Keys.take(row) end
  Rank.begin(row)
  local to = 'ready'
  if row.needs > 0 then to = 'waiting'
  elseif row.availableAt > now then to = 'pending'
  elseif not asksLane(row, now) then to = 'waiting' end
  row.status = to
  tally(row, to, 1)
  record(row, eventOf('add', 'new', to), false, NO_NOTE)
  settleIn(row)
end

-- Has a running job give way to an urgent one, which is passed over until it has.
function Board.displace(victim, urgent)
  victim.evictor = urgent.id
  urgent.victim = victim.id
  urgent.displaced = true
  touch(victim)
  touch(urgent)
  if victim.lease > 0 then signs.holders[#signs.holders + 1] = victim.holder end
end

-- Its body does not stop: who waits for this slot in particular takes any.
function Board.stick(row)
  if row.stuck then return end
  row.stuck = true
  touch(row)
  if row.evictor then Board.untie(row, Rows.byId(row.evictor)) end
  signs.ready = true
end

-- A lane is given up for good: the next in line is admitted, with the rank it waited with.
function Board.releaseLane(row)
  local following = Lanes.release(row)
  if not following then return end
  Board.enter(following, 'admit', 'ready')
  settleIn(following)
end

local function letGo(row)
  if row.availableAt > now then
    Board.enter(row, 'release', 'pending')
  elseif asksLane(row, now) then
    Board.enter(row, 'release', 'ready')
  end
  settleIn(row)
end

-- Tells as many dependents as are left, and remembers how far that came. Answers how many.
local function tell(task, limit)
  local ended = Rows.byKey(task.key)
  local edges, isMore = {}, false
  if ended then edges, isMore = Graph.openEdges(ended.id, task.after, limit) end
  for _, edge in ipairs(edges) do
    local row, what = Graph.tell(edge, ended)
    if what == 'doomed' then doom(row) elseif what == 'released' then letGo(row) end
  end
  task.after = #edges > 0 and edges[#edges].seq or task.after
  if isMore then
    put('ZADD', P .. 'fans', task.number, task.key)
    put('HSET', P .. 'fan', task.key, task.after)
  elseif task.isKept then
    put('ZREM', P .. 'fans', task.key)
    put('HDEL', P .. 'fan', task.key)
  end
  task.isDone = not isMore
  return #edges
end

local function keptTask(key, number)
  local after = tonumber(call('HGET', P .. 'fan', key) or 0)
  return { key = key, number = tonumber(number), after = after, isKept = true }
end

-- Goes on telling, at most LIMIT.chunk dependents; `last` has not been written down yet.
function Board.continueFanOuts(last)
  local left = LIMIT.chunk
  while true do
    local first = call('ZRANGE', P .. 'fans', 0, 0, 'WITHSCORES')
    local task = first[1] and keptTask(first[1], first[2]) or last
    if not task then return end
    if task == last then last = nil end
    left = left - tell(task, left)
    if left <= 0 then
      if last then
        put('ZADD', P .. 'fans', last.number, last.key)
        put('HSET', P .. 'fan', last.key, 0)
      end
      if last or call('EXISTS', P .. 'fans') == 1 then signs.overdue = true end
      return
    end
  end
end

-- Tells the dependents of an end: at once where they are few, else a chunk per call.
function Board.fanOut(ended)
  if S.linked == 0 or not Graph.isWaitedFor(ended.id) then return end
  S.lastFanOut = S.lastFanOut + 1
  Board.continueFanOuts({ key = ended.key, number = S.lastFanOut, after = 0 })
end

-- Finishes the telling of one end, before it is revived or forgotten.
function Board.finishFanOut(ended)
  if S.linked == 0 then return end
  local number = call('ZSCORE', P .. 'fans', ended.key)
  if number then tell(keptTask(ended.key, number), NEVER) end
end

-- Jobs that nobody names any more, and whose retention has been over for a while.
function Board.unpark(free)
  for _, row in ipairs(free) do
    row.parked = nil
    Board.setDeadline(row, now)
    signs.overdue = true
  end
end
