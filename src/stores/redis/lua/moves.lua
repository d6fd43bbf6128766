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
  if row.pass then Board.show(row, move.verdict) end
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
  if move.to == 'gone' then return Turns.forget(row, move) end
  if move.step == 'revive' then return Turns.revive(row) end
  if move.step == 'settle' then Turns.settle(row)
  elseif ENDED[move.to] then finishJob(row, move)
  else Turns.runAgain(row, move) end
  return 'moved'
end

-- Dependents are told, the lane goes on.
local function follow(row)
  if not ENDED[row.status] or rows[row.key] ~= row then return end
  if S.linked > 0 then Board.fanOut(row) end
  if row.lease == 0 and has(row, LANED) then Board.releaseLane(row) end
end
