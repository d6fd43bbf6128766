-- Owns the steps of a job: the one place where a job changes its status.
-- May never decide: it obeys the promises of store.ts.

local NO_NOTE = {}

local function record(row, event, from, note)
  local names = Lines.of(row.line)
  Log.add(row.id, names.pool, names.type, from, row.status, event, row.starts,
    note.code or false, note.cause or false, note.worker or false)
end

local function isDoomed(row)
  return row.needs > 0 and row.open < row.needs
end

-- What the table calls a transition; nil if it does not know it.
local function eventOf(step, from, to)
  return EVENT[step .. ' ' .. from .. ' ' .. to]
end

-- The one place where a status changes, and where the table is asked.
function Board.enter(row, step, to, note)
  local from = row.status
  local event = eventOf(step, from, to)
  if not event then error('no step ' .. step .. ' leads from ' .. from .. ' to ' .. to) end
  row.rev = row.rev + 1
  if from ~= to then
    row.status = to
    tally(row, from, -1)
    tally(row, to, 1)
  end
  touch(row)
  record(row, event, from, note or NO_NOTE)
end

-- A deadline has come nearer than whoever keeps them knows.
local function announce(waits, deadline)
  if deadline >= (waits and S.waitAt or S.quietAt) then return end
  if waits then S.waitAt = deadline else S.quietAt = deadline end
  signs.overdue = true
end

-- In which queue of deadlines it stands follows from its status.
function Board.setDeadline(row, at)
  local deadline = min(at, MOST)
  row.deadline = deadline
  touch(row)
  if deadline > 0 then announce(row.lease == 0 and not ENDED[row.status], deadline) end
end

-- An urgent job and its victim have nothing to do with each other any more.
function Board.untie(victim, urgent)
  victim.evictor = nil
  touch(victim)
  if not urgent then return end
  urgent.victim = nil
  touch(urgent)
end

-- An urgent job that waits no more needs nobody to give way, and may displace again.
function Board.calm(urgent)
  if not urgent.displaced then return end
  urgent.displaced = nil
  touch(urgent)
  if not urgent.victim then return end
  local victim = Rows.byId(urgent.victim)
  if victim then Board.untie(victim, urgent) end
end

-- Takes a job out of whatever it stands in, before its status changes.
function Board.leave(row)
  Board.setDeadline(row, 0)
  if row.status == 'ready' then
    Board.calm(row)
  elseif row.status == 'pending' then
    row.again = 0
  end
end

-- Gives a lease or a hold, under a number that was never used.
function Board.grant(row, holder, hold)
  row.lease, row.holder, row.hold = nextLease(), holder, hold
  touch(row)
end

-- Ends a lease or a hold. Whoever waited for this slot in particular waits no more.
function Board.drop(row)
  if row.lease == 0 then return end
  if row.evictor then Board.untie(row, Rows.byId(row.evictor)) end
  row.lease, row.holder, row.hold, row.stuck = 0, false, nil, nil
  touch(row)
  signs.ready = true
end

-- What an attempt has shown, for the breaker that let it start; once.
function Board.show(row, verdict)
  local pass = row.pass
  if not pass then return end
  row.pass = nil
  touch(row)
  signs.ready = true
  local pool = Pools.get(Lines.of(row.line).pool)
  if not pool.breaker then return end
  Breaker.record(pool.breaker, pass, verdict)
  Pools.save(pool)
end
