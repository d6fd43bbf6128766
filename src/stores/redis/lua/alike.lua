-- Owns what is done to many jobs that are alike: the rules are applied to the first of them, and
-- what became of it is repeated for the others, which are never taken in hand.
-- May never be used where a rule asks for more than the head of a job: who it is, or who else.

local Alike = {}
local byte, cut = string.byte, string.sub

-- The head of a text without anything rare; nil for any other. Such a text is what its head begins
-- with, six bytes for its lease, one for the length of its id, and its id.
function Alike.bare(text)
  local high, low = byte(text, 1, 2)
  local last = high * 256 + low + 2
  if #text ~= last + 7 + byte(text, last + 7) then return nil end
  local bytes = cut(text, 3, last)
  return knownHeads[bytes] or Head.of(bytes)
end

local NO_LEASE = string.rep('\0', 6)

-- Where the keys of those are gathered that leave a place or come to it.
local function listsOf(pattern)
  local before, after = pattern.before, pattern.after
  local lists = {}
  if before then
    if before.place then lists[1] = listOf(writing.rems, before.place) end
    if before.held then lists[#lists + 1] = listOf(writing.rems, before.held) end
    if before.mark then lists[#lists + 1] = listOf(writing.rems, 'st:' .. before.mark) end
  end
  if after.place and SETS[string.sub(after.place, 1, 2)] then
    lists[#lists + 1] = listOf(writing.adds, after.place)
  elseif after.place then
    pattern.queue = listOf(writing.adds, after.place)
    pattern.score = string.format('%.0f', after.score)
  end
  if after.held then lists[#lists + 1] = listOf(writing.adds, after.held) end
  if after.term then lists[#lists + 1] = termList(after.term, after.deadline) end
  return lists
end

-- What became of the first: `before` is the head that it had; false for a new job.
function Alike.learn(before, row)
  local bytes = Head.bytes(row)
  local result = row.result
  row.result = nil
  local rest = Rows.rest(row)
  row.result = result
  local pattern = {
    before = before, after = Head.of(bytes), line = row.line, rest = rest, count = 0,
    run = logged.runs[#logged.runs], blocks = {}, starts = {},
  }
  if rest ~= '' then
    pattern.more = string.char(string.byte(rest) + 1) .. string.sub(rest, 2) .. pack('re')
  end
  pattern.lists = listsOf(pattern)
  alike.patterns[#alike.patterns + 1] = pattern
  return pattern
end

-- What the text of one begins with that has no lease and an id of this length.
function Alike.startOf(pattern, length)
  local start = pattern.starts[length]
  if not start then
    start = pattern.after.first .. NO_LEASE .. string.char(length)
    pattern.starts[length] = start
  end
  return start
end

-- Does the same to others, whose texts the caller has written down. Short of calls, as all here
-- that is done for each job: this is what most of the time of a busy server goes to.
function Alike.again(pattern, keyList, idList)
  local count, list, base = #keyList
  if count == 0 then return end
  pattern.count = pattern.count + count
  ahead.lists[#ahead.lists + 1] = keyList
  if next(texts) then
    for at = 1, count do
      if texts[keyList[at]] then texts[keyList[at]] = nil end
    end
  end
  local lists, queue, score, mark = pattern.lists, pattern.queue, pattern.score, pattern.after.mark
  for place = 1, #lists do
    list = lists[place]
    base = #list
    for at = 1, count do list[base + at] = keyList[at] end
  end
  if queue then
    base = #queue
    for at = 1, count do
      queue[base + 1], queue[base + 2] = score, keyList[at]
      base = base + 2
    end
  end
  if mark then
    for at = 1, count do add('st:' .. mark, (struct.unpack('>I6', keyList[at])), keyList[at]) end
  end
  pattern.run = Log.addAll(pattern.run, idList)
end

-- So many more in the blocks of the numbers from one to another.
function Alike.countIn(pattern, first, last)
  local blocks = pattern.blocks
  for block = floor(first / 128), floor(last / 128) do
    local from, to = max(first, block * 128), min(last, block * 128 + 127)
    blocks[block] = (blocks[block] or 0) + to - from + 1
  end
end

-- Forgets a job whose head says all that there is to ask.
function Alike.forget(head, key, id)
  local pattern = alike.gone[head]
  if not pattern then
    pattern = { before = head, after = false, line = head.line, count = 0, blocks = {} }
    alike.gone[head] = pattern
    alike.patterns[#alike.patterns + 1] = pattern
  end
  pattern.count = pattern.count + 1
  local block = floor(struct.unpack('>I6', key) / 128)
  pattern.blocks[block] = (pattern.blocks[block] or 0) - 1
  writing.goneKeys[#writing.goneKeys + 1] = key
  writing.goneNames[#writing.goneNames + 1] = id
  texts[key], keys[id], rows[key], ids[id] = false, false, false, false
  S.forgotten = S.forgotten + 1
  signs.ended[#signs.ended + 1] = id
  Lines.of(head.line)
end

-- What is counted of all of them together.
function Alike.settle()
  for _, pattern in ipairs(alike.patterns) do
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
  alike.patterns, alike.gone, alike.known = {}, {}, {}
end
