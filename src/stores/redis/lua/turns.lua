-- Owns the moves that are no end: another attempt, a hold that is over, a job that lives again or
-- is forgotten, a lease that nobody has heard of.
-- May never decide: it compares, writes what the move says, and obeys the rules.

function Turns.runAgain(row, move)
  local worker = row.holder
  charge(row, move)
  Board.leave(row)
  Board.drop(row)
  if move.error then row.error, row.code = move.error, move.code or nil end
  row.availableAt = now + move.delayMs
  Board.place(row, move.step, move.keepRank, { worker = worker, code = move.code })
end

-- A hold is over: slot and lane are free, and the retention counts from the end.
function Turns.settle(row)
  Board.setDeadline(row, 0)
  Board.drop(row)
  row.rev = row.rev + 1
  Board.setDeadline(row, row.finishedAt + (row.keepMs or 0))
  signs.ended[#signs.ended + 1] = row.id
end

function Turns.revive(row)
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
  if has(row, KEYED) then Keys.take(row) end
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

function Turns.forget(row, move)
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
  if has(row, KEYED) then Keys.release(row, 0) end
  tally(row, row.status, -1)
  Rows.remove(row)
  if row.status == 'failed' then countFailure(row.code or 'HANDLER_FAILED', -1) end
  S.forgotten = S.forgotten + 1
  signs.ended[#signs.ended + 1] = row.id
  Board.unpark(free)
  return 'moved'
end

-- A lease that its worker never heard of goes back uncharged; such a hold is settled.
function Turns.giveBack(row)
  if row.hold then
    Turns.settle(row)
    Board.releaseLane(row)
    return
  end
  local worker = row.holder
  close(row, 'returned', false)
  if row.pass then Board.show(row, 'neutral') end
  row.attempts = row.attempts - 1
  Board.setDeadline(row, 0)
  Board.drop(row)
  Board.pass(row, 'unheard', nil, { worker = worker })
end
