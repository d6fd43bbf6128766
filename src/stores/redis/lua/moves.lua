-- Owns what a move does to a job, and what follows from it.
-- May never decide: it compares, writes what the move says, and obeys the rules.

-- Writes the closing record of the attempt that is open: seven values for each attempt.
local function close(row, outcome, code)
  local log = row.log or {}
  local at = #log
  log[at + 1], log[at + 2] = row.starts, row.startedAt - row.createdAt
  log[at + 3], log[at + 4] = row.startedAt - row.readyAt, row.holder
  log[at + 5], log[at + 6], log[at + 7] = now - row.startedAt, outcome, code
  row.log = log
  touch(row)
end

local function charge(row, move)
  if row.status ~= 'running' then return end
  close(row, move.outcome, move.code)
  Board.show(row, move.verdict)
  if move.unknown == 1 then row.unknown = true elseif move.unknown == 2 then row.unknown = nil end
  touch(row)
  if move.charge == 'attempt' then return end
  row.attempts = row.attempts - 1
  if move.charge == 'lost' then row.lost = row.lost + 1 end
  if move.charge == 'preempted' then row.preempted = (row.preempted or 0) + 1 end
end

local function finishJob(row, move)
  local to, worker = move.to, row.holder
  local hold = move.step == 'cancel' and row.lease > 0
  local deadline, evictor, stuck = row.deadline, row.evictor, row.stuck
  charge(row, move)
  Board.leave(row)
  Board.drop(row)
  row.error, row.code = move.error or nil, move.code or nil
  if to == 'failed' then countFailure(move.code or 'HANDLER_FAILED', 1) end
  row.result = move.result or nil
  row.finishedAt = now
  local cause = move.step == 'cascade' and row.cause
  Board.enter(row, move.step, to, { worker = worker, code = move.code, cause = cause })
  Rank.finish(row)
  if not hold then
    Board.setDeadline(row, now + move.keepMs)
  else
    Board.grant(row, worker, true)
    if stuck then Board.stick(row) end
    local urgent = evictor and Rows.byId(evictor)
    if urgent then Board.displace(row, urgent) end
    Board.setDeadline(row, deadline)
    signs.holders[#signs.holders + 1] = worker
    row.keepMs = move.keepMs
  end
  if has(row, KEYED) then
    local keyForMs = Rows.header(row).keyForMs
    Keys.release(row, to == 'success' and keyForMs > 0 and now + keyForMs or 0)
  end
  signs.ended[#signs.ended + 1] = row.id
  if to == 'success' and has(row, LINKED) then Board.unpark(Graph.unname(row)) end
end

local function runAgain(row, move)
  local worker = row.holder
  charge(row, move)
  Board.leave(row)
  Board.drop(row)
  if move.error then row.error, row.code = move.error, move.code or nil end
  row.availableAt = now + move.delayMs
  Board.place(row, move.step, move.keepRank, { worker = worker, code = move.code })
end

-- A hold is over: slot and lane are free, and the retention counts from the end.
local function settle(row)
  Board.setDeadline(row, 0)
  Board.drop(row)
  row.rev = row.rev + 1
  Board.setDeadline(row, row.finishedAt + (row.keepMs or 0))
  signs.ended[#signs.ended + 1] = row.id
end

local function revive(row)
  if has(row, KEYED) then
    local owner = Keys.ownerOf(Rows.header(row).key)
    if owner and owner ~= row then return 'refused', 'key', owner.id end
  end
  Board.finishFanOut(row)
  local survey = Graph.survey(row)
  if isDoomed(survey) then return 'refused', 'doomed', survey.dead or row.id end
  Board.leave(row)
  if row.status == 'failed' then countFailure(row.code or 'HANDLER_FAILED', -1) end
  row.error, row.code = nil, nil
  Graph.commit(row, survey)
  row.cause, row.parked = nil, nil
  row.attemptsBefore, row.lostBefore = row.attempts, row.lost
  if ENDED[row.status] then Rank.begin(row) else Rank.renew(row) end
  row.finishedAt, row.result = 0, nil
  row.availableAt = now
  Keys.take(row)
  signs.ended[#signs.ended + 1] = row.id
  if row.needs > 0 then
    Board.enter(row, 'revive', 'waiting')
  else
    Board.place(row, 'revive', false)
  end
  Graph.reopen(row)
  return 'moved'
end

-- Whether the job that its flow is called after is not done with it.
local function isKeptByFlow(row)
  local flow = Rows.header(row).flow
  if not flow or flow == row.id then return false end
  local head = Rows.byId(flow)
  return head and head.status ~= 'success'
end

local function forget(row, move)
  if row.lease > 0 then return 'stale' end
  Board.setDeadline(row, 0)
  if S.linked > 0 and Graph.isNamed(row.id) then
    row.parked = true
    return 'refused', 'named'
  end
  if has(row, SPECIAL) and isKeptByFlow(row) then
    Board.setDeadline(row, now + LIMIT.flowMs)
    return 'refused', 'named'
  end
  Board.finishFanOut(row)
  local free = Graph.forget(row, move.keepMs)
  Keys.release(row, 0)
  tally(row, row.status, -1)
  Rows.remove(row)
  if row.status == 'failed' then countFailure(row.code or 'HANDLER_FAILED', -1) end
  S.forgotten = S.forgotten + 1
  signs.ended[#signs.ended + 1] = row.id
  Board.unpark(free)
  return 'moved'
end

local function isExpected(row, move)
  if move.lease then
    return row.lease == move.lease and (row.hold or false) == (move.step == 'settle')
  end
  if row.seq ~= move.seq or row.rev ~= move.rev then return false end
  return not move.overdue or (row.deadline > 0 and row.deadline <= now)
end

local function moveOne(row, move)
  if not eventOf(move.step, row.status, move.to) or not isExpected(row, move) then
    return 'stale'
  end
  if move.to == 'gone' then return forget(row, move) end
  if move.step == 'revive' then return revive(row) end
  if move.step == 'settle' then settle(row)
  elseif ENDED[move.to] then finishJob(row, move)
  else runAgain(row, move) end
  return 'moved'
end

-- Dependents are told, the lane goes on.
local function follow(row)
  if not ENDED[row.status] or rows[row.key] ~= row then return end
  Board.fanOut(row)
  if row.lease == 0 then Board.releaseLane(row) end
end

-- A lease that its worker never heard of goes back uncharged; such a hold is settled.
local function giveBack(row)
  if row.hold then
    settle(row)
    Board.releaseLane(row)
    return
  end
  local worker = row.holder
  close(row, 'returned', false)
  Board.show(row, 'neutral')
  row.attempts = row.attempts - 1
  Board.setDeadline(row, 0)
  Board.drop(row)
  Board.pass(row, 'unheard', nil, { worker = worker })
end
