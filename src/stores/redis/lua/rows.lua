-- Owns the jobs in hand: how they are read, where they stand, and how they are written, once.
-- May never know why a job changes: it writes down what the rules have left.

local STATUS = { 'pending', 'waiting', 'ready', 'running', 'success', 'failed', 'cancelled' }
local NUMBER = {
  pending = 1, waiting = 2, ready = 3, running = 4, success = 5, failed = 6, cancelled = 7,
}

local ENDED = { success = true, failed = true, cancelled = true }

-- Bits of a job's flags: what was said of it that a rule may ask for.
local SPECIAL, PREEMPTIBLE, KEYED, LANED, LINKED = 1, 4, 8, 16, 32

-- What most jobs have nothing to say of, each under a short name.
local RARE = {
  hold = 'h', preempted = 'pr', attemptsBefore = 'ab', unknown = 'u', evictor = 'ev',
  victim = 'vi', displaced = 'di', stuck = 'st', pass = 'ps', keepRank = 'kr', keepMs = 'km',
  parked = 'pk', inLane = 'il', code = 'co', cause = 'ca', error = 'er', log = 'lg', note = 'no',
  result = 're', ownTerms = 'tm',
}

local function namesOf(short)
  local full, names = {}, {}
  for name, letters in pairs(short) do
    full[letters] = name
    names[#names + 1] = name
  end
  return full, names
end

local FULL, NAMES = namesOf(RARE)

-- Jobs in hand by key and by id; false for one that is known not to be there. What has only been
-- read is in `texts`.
local rows, ids, texts, keys = {}, {}, {}, {}

-- Of whom a call has written something down without taking them in hand is ahead of the store until
-- the next flush: lists of keys, of which a set is made when somebody asks.
local ahead = { lists = {}, keys = {} }
local dirty, dirtyCount = {}, 0
local Rows = {}

-- Six bytes, so that members with equal scores stand in order of seq.
function Rows.key(seq)
  return struct.pack('>I6', seq)
end

local function has(row, flag)
  return row.flags % (flag + flag) >= flag
end

local Rank = {}

function Rank.isBefore(rank, seq, otherRank, otherSeq)
  return rank < otherRank or (rank == otherRank and seq < otherSeq)
end

local function isSuspect(row)
  return row.lost - row.lostBefore >= LIMIT.suspectLosses
end

-- The one queue that a job stands in, and where in it.
local function placeOf(row)
  local status = row.status
  if row.holder then return 'l:' .. row.line, 0 end
  if status == 'ready' then return (isSuspect(row) and 'rs:' or 'r:') .. row.line, row.rank end
  if status == 'waiting' then return false, 0 end
  if status == 'pending' then
    local again = row.again
    if again == 2 then return 'again', row.rank end
    return again == 1 and 'due:1' or 'due:0', row.availableAt
  end
  return false, 0
end

local MARKED = { waiting = true, pending = true, failed = true, cancelled = true }

-- Where the end of a lease, or of a retention, is kept: many jobs with one instant are one
-- member, which is not taken out when a job leaves. Whoever reads it asks the job.
local function termOf(row)
  if row.deadline == 0 then return false end
  if row.holder then return 'ends' end
  return ENDED[row.status] and 'past' or false
end

-- What else leads to it: its state, a deadline while it waits, its holder, a lane, doom, a code.
local function marksOf(row)
  local status = row.status
  local mark = MARKED[status] and status or false
  local wait, held, laned, doomed, suspect = false, false, false, false, false
  if row.holder then
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

-- The first part of a job's text: what many jobs have in common that were treated alike. It is
-- read once for all of them; each job in hand says what is different about it.
local Head = {}
local knownHeads = {}

function Head.of(bytes)
  local head = knownHeads[bytes]
  if head then return head end
  local line, status, rev, priority, flags, terms, created, weight, rank, available, ready,
    started, finished, starts, attempts, lost, needs, open, deadline, holder, lostBefore, again
    = unpackAll(bytes)
  head = {
    line = line, status = STATUS[status], rev = rev, priority = priority, flags = flags,
    terms = terms, createdAt = created, weight = weight, rank = rank,
    availableAt = created + available, readyAt = ready and created + ready or 0,
    startedAt = started and created + started or 0,
    finishedAt = finished and created + finished or 0, starts = starts, attempts = attempts,
    lost = lost, needs = needs, open = open, deadline = deadline and created + deadline or 0,
    holder = holder, lostBefore = lostBefore, again = again,
  }
  head.place, head.score = placeOf(head)
  head.mark, head.wait, head.held, head.laned, head.doomed, head.suspect = marksOf(head)
  head.term, head.termAt, head.ranked = termOf(head), head.deadline, rank
  head.isPlain = not has(head, SPECIAL)
  head.first = struct.pack('>I2', #bytes) .. bytes
  head.meta = { __index = head }
  knownHeads[bytes] = head
  return head
end

-- The head of a text, and where the rest begins: lease, id, and what is rare.
function Head.split(text)
  local high, low = string.byte(text, 1, 2)
  local last = high * 256 + low + 2
  return Head.of(string.sub(text, 3, last)), last + 1
end

function Head.bytes(row)
  local created = row.createdAt
  return string.sub(pack({
    row.line, NUMBER[row.status], row.rev, row.priority, row.flags, row.terms, created, row.weight,
    row.rank, row.availableAt - created, row.readyAt > 0 and row.readyAt - created,
    row.startedAt > 0 and row.startedAt - created, row.finishedAt > 0 and row.finishedAt - created,
    row.starts, row.attempts, row.lost, row.needs, row.open,
    row.deadline > 0 and row.deadline - created, row.holder, row.lostBefore, row.again,
  }), 4)
end

function Head.join(bytes, lease, id)
  return struct.pack('>I2', #bytes) .. bytes .. struct.pack('>I6B', lease, #id) .. id
end

function Rows.hold(row)
  rows[row.key] = row
  keys[row.id] = row.key
  ids[row.id] = row
end

local function idIn(text, at)
  return string.sub(text, at + 7, at + 6 + string.byte(text, at + 6))
end

local function decode(key, text)
  local head, at = Head.split(text)
  local id = idIn(text, at)
  local row = {
    key = key, seq = (struct.unpack('>I6', key)), id = id,
    lease = (struct.unpack('>I6', text, at)), text = text,
  }
  at = at + 7 + #id
  if at <= #text then
    for short, value in pairs(unpackAll(string.sub(text, at))) do row[FULL[short]] = value end
    row.coded = row.code
  end
  setmetatable(row, head.meta)
  Rows.hold(row)
  return row
end

-- What is rare about a job, packed; an empty text where there is nothing.
function Rows.rest(row)
  local more
  for at = 1, #NAMES do
    local value = row[NAMES[at]]
    if value and value ~= 0 then
      more = more or {}
      more[RARE[NAMES[at]]] = value
    end
  end
  if row.pass == 0 then
    more = more or {}
    more.ps = 0
  end
  return more and pack(more) or ''
end

function Rows.encode(row)
  return row.text or Head.join(Head.bytes(row), row.lease, row.id) .. Rows.rest(row)
end

local function isAnyAhead(list)
  local lists, set = ahead.lists, ahead.keys
  for at = 1, #lists do
    for _, key in ipairs(lists[at]) do set[key] = true end
    lists[at] = nil
  end
  for at = 1, #list do
    if set[list[at]] then return true end
  end
  return false
end

-- Reads several texts at once, where one by one would be as many questions.
function Rows.read(list)
  if (#ahead.lists > 0 or next(ahead.keys)) and isAnyAhead(list) then flush() end
  local unknown = {}
  for at = 1, #list do
    if texts[list[at]] == nil then unknown[#unknown + 1] = list[at] end
  end
  if #unknown == 0 then return end
  local found = readAll(P .. 'n', unknown)
  for at = 1, #unknown do texts[unknown[at]] = found[at] end
end

-- Takes jobs in hand.
function Rows.load(list)
  Rows.read(list)
  for at = 1, #list do
    local key = list[at]
    if rows[key] == nil then
      local text = texts[key]
      if text then decode(key, text) else rows[key] = false end
    end
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

-- Reads the texts of jobs by id, without taking them in hand.
function Rows.find(list)
  local unknown = {}
  for at = 1, #list do
    if keys[list[at]] == nil then unknown[#unknown + 1] = list[at] end
  end
  if #unknown == 0 then return end
  local found, there = readAll(P .. 'i', unknown), {}
  for at = 1, #unknown do
    local key = found[at]
    keys[unknown[at]] = key
    if key then there[#there + 1] = key else ids[unknown[at]] = ids[unknown[at]] or false end
  end
  Rows.read(there)
end

function Rows.prepare(list)
  local unknown, found = {}, {}
  for at = 1, #list do
    if ids[list[at]] == nil then unknown[#unknown + 1] = list[at] end
  end
  if #unknown == 0 then return end
  Rows.find(unknown)
  for at = 1, #unknown do
    local key = keys[unknown[at]]
    if key then found[#found + 1] = key else ids[unknown[at]] = false end
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
