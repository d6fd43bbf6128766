-- Owns what is done to many jobs that are alike: the rules are applied to the first of them, and
-- what became of it is repeated for the others, which are never taken in hand.
-- May never be used where a rule asks for more than the head of a job: who it is, or who else.

local byte, cut, join, heads = string.byte, string.sub, struct.pack, Head.known

-- A text without anything rare: its head, where that ends, and its id. Nil for any other.
function Alike.bare(text)
  local high, low = byte(text, 1, 2)
  local at = high * 256 + low + 3
  local last = at + 6 + byte(text, at + 6)
  if last ~= #text then return nil end
  local bytes = cut(text, 3, at - 1)
  return heads[bytes] or Head.of(bytes), at, cut(text, at + 7, last)
end

local NO_LEASE = string.rep('\0', 6)

-- Where the keys of those are gathered that leave a place or come to it.
local function listsOf(pattern)
  local before, after = pattern.before, pattern.after
  local leaves, joins = {}, {}
  if before then
    if before.place then leaves[1] = listOf(Writing.rems, before.place) end
    if before.held then leaves[#leaves + 1] = listOf(Writing.rems, before.held) end
    if before.mark then leaves[#leaves + 1] = listOf(Writing.rems, 'st:' .. before.mark) end
  end
  if after.place and SETS[string.sub(after.place, 1, 2)] then
    joins[1] = listOf(Writing.adds, after.place)
  elseif after.place then
    pattern.queue = listOf(Writing.adds, after.place)
    pattern.score = string.format('%.0f', after.score)
  end
  if after.held then joins[#joins + 1] = listOf(Writing.adds, after.held) end
  if after.term then joins[#joins + 1] = termList(after.term, after.deadline) end
  pattern.leaves, pattern.joins = leaves, joins
end

-- What became of the first: `before` is the head that it had; false for a new job.
function Alike.learn(before, row)
  local bytes = Head.bytes(row)
  local result = row.result
  row.result = nil
  local rest = Rows.rest(row)
  row.result = result
  local run = Log.runs[#Log.runs]
  local pattern = {
    before = before, after = Head.of(bytes), line = row.line, rest = rest, count = 0,
    first = struct.pack('>I2', #bytes) .. bytes, run = run, attempt = run[11][#run[11]],
    blocks = {}, length = -1, prefix = '',
  }
  if rest ~= '' then
    pattern.more = string.char(string.byte(rest) + 1) .. string.sub(rest, 2) .. pack('re')
  end
  listsOf(pattern)
  Alike.patterns[#Alike.patterns + 1] = pattern
  return pattern
end

-- The text of another, under a lease or under none.
local function textOf(pattern, id, lease, result)
  local rest = pattern.rest
  if result then rest = pattern.more .. pack(result) end
  if lease > 0 then return pattern.first .. join('>I6B', lease, #id) .. id .. rest end
  if pattern.length ~= #id then
    pattern.length = #id
    pattern.prefix = pattern.first .. NO_LEASE .. string.char(#id)
  end
  return pattern.prefix .. id .. rest
end

local function logAnew(pattern, id)
  local run = pattern.run
  Log.add(id, run[3], run[2], run[4], run[5], run[6], pattern.attempt, run[7], run[8], run[9])
  pattern.run = Log.runs[#Log.runs]
end

-- Does the same to another. Answers its text. Short of calls: this is what most of the time of a
-- busy server goes to.
function Alike.again(pattern, key, id, lease, result)
  local text = textOf(pattern, id, lease, result)
  pattern.count = pattern.count + 1
  texts[key], ahead[key] = text, true
  local list = Writing.texts
  local at = #list
  list[at + 1], list[at + 2] = key, text
  local leaves, joins, mark = pattern.leaves, pattern.joins, pattern.after.mark
  for place = 1, #leaves do
    list = leaves[place]
    list[#list + 1] = key
  end
  for place = 1, #joins do
    list = joins[place]
    list[#list + 1] = key
  end
  list = pattern.queue
  if list then
    at = #list
    list[at + 1], list[at + 2] = pattern.score, key
  end
  if mark then add('st:' .. mark, (struct.unpack('>I6', key)), key) end
  local run, runs = pattern.run, Log.runs
  if runs[#runs] == run and Log.count < LIMIT.events then
    S.lastEvent, Log.count = S.lastEvent + 1, Log.count + 1
    list = run[10]
    at = #list + 1
    list[at], run[11][at] = id, pattern.attempt
  else
    logAnew(pattern, id)
  end
  return text
end

-- A job as answers need it.
function Alike.light(key, text, pattern, said)
  return { key = key, text = text, line = pattern.line, said = said }
end

-- One more in a block of numbers, or one less.
function Alike.countIn(pattern, seq, by)
  local block, blocks = floor(seq / 128), pattern.blocks
  blocks[block] = (blocks[block] or 0) + by
end

-- Forgets a job whose head says all that there is to ask.
function Alike.forget(head, key, id, text)
  local pattern = Alike.gone[head]
  if not pattern then
    pattern = { before = head, after = false, line = head.line, count = 0, blocks = {} }
    Alike.gone[head] = pattern
    Alike.patterns[#Alike.patterns + 1] = pattern
  end
  pattern.count = pattern.count + 1
  Alike.countIn(pattern, (struct.unpack('>I6', key)), -1)
  Writing.goneKeys[#Writing.goneKeys + 1] = key
  Writing.goneNames[#Writing.goneNames + 1] = id
  texts[key], keys[id], rows[key], ids[id] = false, false, false, false
  S.forgotten = S.forgotten + 1
  signs.ended[#signs.ended + 1] = id
  return Alike.light(key, text, pattern)
end

-- What is counted of all of them together.
function Alike.settle()
  for _, pattern in ipairs(Alike.patterns) do
    local before, after, count = pattern.before, pattern.after, pattern.count
    if count > 0 then
      local wasAlive = before and not ENDED[before.status]
      local isAlive = after and not ENDED[after.status]
      if before then tally(pattern, before.status, -count) end
      if after then tally(pattern, after.status, count) end
      if wasAlive and not isAlive then weigh(before, -count) end
      if isAlive and not wasAlive then weigh(after, count) end
      for block, by in pairs(pattern.blocks) do countIn(pattern.line, block, by) end
    end
  end
  Alike.patterns, Alike.gone, Alike.known = {}, {}, {}
end
