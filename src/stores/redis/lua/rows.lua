-- Owns the jobs in hand: how they are read, where they stand, and how they are written, once.
-- May never know why a job changes: it writes down what the rules have left.

local STATUS = { 'pending', 'waiting', 'ready', 'running', 'success', 'failed', 'cancelled' }
local NUMBER = {}
for number, name in ipairs(STATUS) do NUMBER[name] = number end

local ENDED = { success = true, failed = true, cancelled = true }

-- Bits of a job's flags: what was said of it that a rule may ask for.
local SPECIAL, PREEMPTIBLE, KEYED, LANED, LINKED = 1, 4, 8, 16, 32

-- What most jobs have nothing to say of, each under a short name.
local RARE = {
  hold = 'h', preempted = 'pr', attemptsBefore = 'ab', lostBefore = 'lb', unknown = 'u',
  evictor = 'ev', victim = 'vi', displaced = 'di', stuck = 'st', pass = 'ps', keepRank = 'kr',
  again = 'ag', keepMs = 'km', parked = 'pk', inLane = 'il', code = 'co', cause = 'ca',
  error = 'er', log = 'lg', note = 'no', result = 're', ownTerms = 'tm',
}
local FULL = {}
for name, short in pairs(RARE) do FULL[short] = name end

local rows, ids, dirty, dirtyCount = {}, {}, {}, 0
local Rows, Lines = {}, { known = {} }

-- Six bytes, so that members with equal scores stand in order of seq.
function Rows.key(seq)
  return struct.pack('>I6', seq)
end

local function has(row, flag)
  return row.flags % (flag + flag) >= flag
end

-- The pool and the type of a line; its number is never another's.
function Lines.of(line)
  local known = Lines.known[line]
  if known then return known end
  local text = call('HGET', P .. 'line', line)
  local at = string.find(text, '\0', 1, true)
  known = { line = line, pool = string.sub(text, 1, at - 1), type = string.sub(text, at + 1) }
  Lines.known[line] = known
  return known
end

function Lines.by(pool, type)
  local name = pool .. '\0' .. type
  local known = Lines.known[name]
  if known then return known end
  local line = call('HGET', P .. 'lineby', name)
  if not line then
    S.lastLine = S.lastLine + 1
    line = S.lastLine
    put('HSET', P .. 'line', line, name)
    put('HSET', P .. 'lineby', name, line)
  end
  line = tonumber(line)
  Lines.known[name] = line
  Lines.known[line] = { line = line, pool = pool, type = type }
  return line
end

-- Every line there is, or those of one pool.
function Lines.all(pool)
  local found, all = {}, call('HGETALL', P .. 'line')
  for at = 1, #all, 2 do
    local line = tonumber(all[at])
    local names = Lines.of(line)
    if not pool or names.pool == pool then found[#found + 1] = line end
  end
  return found
end

local Rank = {}

function Rank.isBefore(rank, seq, otherRank, otherSeq)
  return rank < otherRank or (rank == otherRank and seq < otherSeq)
end

local function isSuspect(row)
  return row.lost - (row.lostBefore or 0) >= LIMIT.suspectLosses
end

-- The one queue that a job stands in, and where in it.
local function placeOf(row)
  local status = row.status
  if row.lease > 0 then return 'l:' .. row.line, 0 end
  if status == 'ready' then return (isSuspect(row) and 'rs:' or 'r:') .. row.line, row.rank end
  if status == 'waiting' then return nil end
  if status == 'pending' then
    local again = row.again or 0
    if again == 2 then return 'again', row.rank end
    return again == 1 and 'due:1' or 'due:0', row.availableAt
  end
end

local MARKED = { waiting = true, pending = true, failed = true, cancelled = true }

-- Where the end of a lease, or of a retention, is kept: many jobs with one instant are one
-- member, which is not taken out when a job leaves. Whoever reads it asks the job.
local function termOf(row)
  if row.deadline == 0 then return false end
  if row.lease > 0 then return 'ends' end
  return ENDED[row.status] and 'past' or false
end

-- What else leads to it: its state, a deadline while it waits, its holder, a lane, doom, a code.
local function marksOf(row)
  local status, lease = row.status, row.lease
  local mark = MARKED[status] and status or false
  local wait, held, laned, doomed, suspect = false, false, false, false, false
  if lease > 0 then
    held = 'h:' .. row.holder .. '\0' .. row.line
    if isSuspect(row) then suspect = row.holder end
  elseif row.deadline > 0 and not ENDED[status] then
    wait = row.deadline
  end
  if status == 'waiting' then
    laned = row.needs == 0 and has(row, LANED)
    doomed = row.open < row.needs
  end
  return mark, wait, held, laned, doomed, suspect
end

local function stand(row)
  row.place, row.score = placeOf(row)
  row.mark, row.wait, row.held, row.laned, row.doomed, row.suspect = marksOf(row)
  row.term, row.termAt, row.coded, row.ranked = termOf(row), row.deadline, row.code, row.rank
end

function Rows.hold(row)
  rows[row.key] = row
  ids[row.id] = row
end

local function decode(key, text)
  local id, line, status, rev, priority, flags, terms, created, weight, rank, available, ready,
    started, finished, starts, attempts, lost, needs, open, deadline, lease, holder, more
    = unpackAll(text)
  local row = {
    key = key, seq = (struct.unpack('>I6', key)), id = id, line = line, status = STATUS[status],
    rev = rev, priority = priority, flags = flags, terms = terms, createdAt = created,
    weight = weight, rank = rank, availableAt = created + available,
    readyAt = ready and created + ready or 0, startedAt = started and created + started or 0,
    finishedAt = finished and created + finished or 0, starts = starts, attempts = attempts,
    lost = lost, needs = needs, open = open, deadline = deadline and created + deadline or 0,
    lease = lease, holder = holder, text = text,
  }
  if more then
    for short, value in pairs(more) do row[FULL[short]] = value end
  end
  stand(row)
  rows[key] = row
  ids[id] = row
  return row
end

local function encode(row)
  local created, more = row.createdAt, false
  for name, short in pairs(RARE) do
    local value = row[name]
    if value and value ~= 0 then
      more = more or {}
      more[short] = value
    end
  end
  if row.pass == 0 then
    more = more or {}
    more.ps = 0
  end
  local text = pack({
    row.id, row.line, NUMBER[row.status], row.rev, row.priority, row.flags, row.terms, created,
    row.weight, row.rank, row.availableAt - created,
    row.readyAt > 0 and row.readyAt - created, row.startedAt > 0 and row.startedAt - created,
    row.finishedAt > 0 and row.finishedAt - created, row.starts, row.attempts, row.lost,
    row.needs, row.open, row.deadline > 0 and row.deadline - created, row.lease, row.holder,
    more,
  })
  return string.sub(text, 4)
end

function Rows.encode(row)
  return row.text or encode(row)
end

-- Reads several jobs at once, where one by one would be as many questions.
function Rows.load(keys)
  local unknown = {}
  for at = 1, #keys do
    if rows[keys[at]] == nil then unknown[#unknown + 1] = keys[at] end
  end
  if #unknown == 0 then return end
  local texts = readAll(P .. 'n', unknown)
  for at = 1, #unknown do
    local text = texts[at]
    if text then decode(unknown[at], text) else rows[unknown[at]] = false end
  end
end

function Rows.byKey(key)
  local row = rows[key]
  if row == nil then
    Rows.load({ key })
    row = rows[key]
  end
  return row or nil
end

function Rows.prepare(list)
  local unknown = {}
  for at = 1, #list do
    if ids[list[at]] == nil then unknown[#unknown + 1] = list[at] end
  end
  if #unknown == 0 then return end
  local keys, found = readAll(P .. 'i', unknown), {}
  for at = 1, #unknown do
    if keys[at] then found[#found + 1] = keys[at] else ids[unknown[at]] = false end
  end
  Rows.load(found)
end

function Rows.byId(id)
  local row = ids[id]
  if row == nil then
    Rows.prepare({ id })
    row = ids[id]
  end
  return row or nil
end

-- What was said of a job: a header if it is special, then its payload.
function Rows.said(row)
  if not row.said then row.said = call('HGET', P .. 'j', row.key) or '' end
  return row.said
end

local NO_DEPS = {}
local PLAIN = {
  key = false, keyForMs = 0, lane = false, patience = 0, depMode = 'all', deps = NO_DEPS,
}

function Rows.header(row)
  local known = row.header
  if known then return known end
  known = PLAIN
  if has(row, SPECIAL) then
    local _, h = cmsgpack.unpack_one(Rows.said(row))
    known = {
      key = h[1], keyForMs = h[2], lane = h[3], flow = h[4], patience = h[5], depMode = h[6],
      deps = h[7],
    }
  end
  row.header = known
  return known
end

local function touch(row)
  if row.dirty then return end
  row.dirty = true
  dirtyCount = dirtyCount + 1
  dirty[dirtyCount] = row
end
