-- Owns what a call writes of its jobs: records, queues, marks and counts, batched by key.
-- May never write what has not changed, or a job twice between two looks at the store.

local writing = { adds = {}, rems = {}, sums = {}, emptied = {}, terms = {}, fronts = {} }
local tallies, weighs, failures = {}, {}, {}

-- How many jobs are queued in a pool, once that has been asked: see Pools.queuedOf.
local queued = {}
local alike = { patterns = {}, gone = {}, known = {} }

-- What is written of jobs that are not in hand.
local function empty()
  writing.texts, writing.saids, writing.names = {}, {}, {}
  writing.goneKeys, writing.goneNames = {}, {}
end
empty()

-- Leases are in sets: nothing but how many there are is asked of them.
local SETS = { ['l:'] = true, ['h:'] = true }

local function listOf(lists, place)
  local list = lists[place]
  if not list then
    list = { isSet = SETS[string.sub(place, 1, 2)] }
    lists[place] = list
  end
  return list
end

local function add(place, score, member)
  local list = listOf(writing.adds, place)
  local at = #list
  if list.isSet then
    list[at + 1] = member
  else
    list[at + 1], list[at + 2] = score, member
  end
end

-- A deadline that many may share: see termOf.
local function termList(term, at)
  local terms = writing.terms[term]
  if not terms then
    terms = {}
    writing.terms[term] = terms
  end
  local keys = terms[at]
  if not keys then
    keys = {}
    terms[at] = keys
  end
  return keys
end

local function remove(place, member)
  local list = listOf(writing.rems, place)
  list[#list + 1] = member
end

local function tally(row, status, by)
  local counts = tallies[row.line]
  if not counts then
    counts = {}
    tallies[row.line] = counts
  end
  counts[status] = (counts[status] or 0) + by
  if next(queued) and (status == 'ready' or status == 'pending') then
    local pool = Lines.of(row.line).pool
    if queued[pool] then queued[pool] = queued[pool] + by end
  end
end

local function countFailure(code, by)
  failures[code] = (failures[code] or 0) + by
end

local function weightOf(priority)
  local ageing = S.ageing
  if not ageing or priority > ageing.ceiling then return priority * LIMIT.strictWeight end
  return priority * ageing.everyMs
end

local function weigh(row, by)
  local priority, weight = row.priority, row.weight
  if weight ~= weightOf(priority) then S.unranked = S.unranked + by end
  local counts = weighs[priority]
  if not counts then
    counts = {}
    weighs[priority] = counts
  end
  counts[weight] = (counts[weight] or 0) + by
end

-- A job begins to live, or does so again: it has the weight that is set.
function Rank.begin(row)
  row.weight = weightOf(row.priority)
  weigh(row, 1)
end

function Rank.finish(row)
  weigh(row, -1)
end

function Rank.renew(row)
  if row.weight == weightOf(row.priority) then return end
  weigh(row, -1)
  Rank.begin(row)
end

-- A block is 128 numbers: a walk in order of seq leaves out those in which nobody is left.
local function countIn(line, block, by)
  local blocks = writing.sums[line]
  if not blocks then
    blocks = {}
    writing.sums[line] = blocks
  end
  blocks[block] = (blocks[block] or 0) + by
end

local function nameIt(row, move)
  countIn(row.line, floor(row.seq / 128), move == add and 1 or -1)
  if not has(row, SPECIAL) then return end
  local header = Rows.header(row)
  local score = row.seq
  if move == remove then score = row.key end
  if header.flow then move('f:' .. header.flow, score, row.key) end
  if header.key then move('k:' .. header.key, score, row.key) end
end

function Rows.introduce(row)
  row.isNew = true
  Rows.hold(row)
  touch(row)
  nameIt(row, add)
end

-- A copy of how it was is kept for the answer.
function Rows.remove(row)
  Rows.said(row)
  Rows.header(row)
  row.text = Rows.finalText(row)
  row.isGone = true
  touch(row)
  nameIt(row, remove)
  rows[row.key] = false
  ids[row.id] = false
  texts[row.key], keys[row.id] = false, false
end

function Rows.finalText(row)
  row.text = nil
  return Rows.encode(row)
end

-- The differences between where a job stood and where it stands.
local function move(row)
  local key, seq = row.key, row.seq
  local place, score, mark, wait, held, laned = false, 0, false, false, false, false
  local doomed, suspect, term, code = false, false, false, nil
  if not row.isGone then
    place, score = placeOf(row)
    mark, wait, held, laned, doomed, suspect = marksOf(row)
    code, term = row.code, termOf(row)
  end
  if place ~= row.place then
    if row.place then remove(row.place, key) end
    if place then add(place, score, key) end
  elseif score ~= row.score then
    add(place, score, key)
  end
  if mark ~= row.mark then
    if row.mark then remove('st:' .. row.mark, key) end
    if mark then add('st:' .. mark, seq, key) end
  end
  if wait ~= row.wait then
    if wait then add('waits', wait, key) elseif row.wait then remove('waits', key) end
  end
  if held ~= row.held then
    if row.held then remove(row.held, key) end
    if held then add(held, 0, key) end
  end
  if term and (term ~= row.term or row.deadline ~= row.termAt) then
    local keys = termList(term, row.deadline)
    keys[#keys + 1] = key
  end
  if (laned or row.laned) and (laned ~= row.laned or row.ranked ~= row.rank) then
    local lane = 'w:' .. Rows.header(row).lane
    if laned then add(lane, row.rank, key) else remove(lane, key) end
  end
  if doomed ~= row.doomed then
    if doomed then add('doomed', seq, key) elseif row.doomed then remove('doomed', key) end
  end
  if suspect ~= row.suspect then
    if suspect then put('HSET', P .. 'suspects', key, suspect)
    elseif row.suspect then put('HDEL', P .. 'suspects', key) end
  end
  if code ~= row.coded then
    if row.coded then remove('c:' .. row.coded, key) end
    if code then add('c:' .. code, seq, key) end
  end
  row.place, row.score, row.mark, row.wait, row.held = place, score, mark, wait, held
  row.laned, row.doomed, row.suspect, row.coded = laned, doomed, suspect, code
  row.term, row.termAt, row.ranked = term, row.deadline, row.rank
end

-- Which queues and holders there are: whoever leases looks at those, and not at all lines.
local function register(place, isThere)
  local kind = string.sub(place, 1, 2)
  local command = isThere and 'SADD' or 'SREM'
  if kind == 'r:' or kind == 'rs' then
    put(command, P .. 'heads', place)
  elseif kind == 'l:' then
    put(command, P .. 'held', place)
  elseif kind == 'h:' then
    local at = string.find(place, '\0', 1, true)
    put(command, P .. 'hl:' .. string.sub(place, 3, at - 1), string.sub(place, at + 1))
  end
end

local REGISTERED = { ['r:'] = true, ['rs'] = true, ['l:'] = true, ['h:'] = true }

local function writePlaces()
  for place, members in pairs(writing.rems) do
    if writing.fronts[place] == #members then
      put('ZREMRANGEBYRANK', P .. place, 0, #members - 1)
    else
      putAll(members.isSet and 'SREM' or 'ZREM', P .. place, members)
    end
    if REGISTERED[string.sub(place, 1, 2)] and not writing.adds[place]
        and call('EXISTS', P .. place) == 0 then
      register(place, false)
    end
  end
  for place, members in pairs(writing.adds) do
    putAll(members.isSet and 'SADD' or 'ZADD', P .. place, members)
    if REGISTERED[string.sub(place, 1, 2)] then register(place, true) end
  end
  writing.adds, writing.rems, writing.fronts = {}, {}, {}
end

-- Keys in one member at most.
local TOGETHER = 200

local function writeTerms()
  for term, terms in pairs(writing.terms) do
    for at, keys in pairs(terms) do
      for first = 1, #keys, TOGETHER do
        local last = min(first + TOGETHER - 1, #keys)
        put('ZADD', P .. term, at, table.concat(keys, '', first, last))
      end
    end
  end
  writing.terms = {}
end

-- Counts a block, and says whether the first job has come to it, or the last one has left.
local function writeBlock(name, key, block, by)
  if by == 0 then return end
  local count = put('HINCRBY', P .. 'bn', name, by)
  if count <= 0 then
    put('ZREM', key, block)
    put('HDEL', P .. 'bn', name)
  elseif count == by then
    put('ZADD', key, block, block)
  end
end

local function writeBlocks()
  local all = {}
  for line, blocks in pairs(writing.sums) do
    for block, by in pairs(blocks) do
      all[block] = (all[block] or 0) + by
      writeBlock(line .. ':' .. block, P .. 'b:' .. line, block, by)
      if by < 0 then writing.emptied[line] = true end
    end
  end
  for block, by in pairs(all) do writeBlock(block, P .. 'b', block, by) end
  writing.sums = {}
end

-- A counter that has come to nothing is no counter.
local function count(key, name, by)
  if by == 0 then return end
  if put('HINCRBY', key, name, by) == 0 then put('HDEL', key, name) end
end

local function writeCounts()
  for line, counts in pairs(tallies) do
    for status, by in pairs(counts) do count(P .. 'tally', line .. ':' .. NUMBER[status], by) end
  end
  for priority, counts in pairs(weighs) do
    for weight, by in pairs(counts) do
      count(P .. 'weigh', string.format('%d %.0f', priority, weight), by)
    end
  end
  for code, by in pairs(failures) do count(P .. 'failure', code, by) end
  tallies, weighs, failures = {}, {}, {}
end

local function append(list, a, b)
  local at = #list
  list[at + 1], list[at + 2] = a, b
end

local function writeRow(row)
  row.dirty = false
  move(row)
  if row.isGone then
    if row.isOut then return end
    row.isOut = true
    writing.goneKeys[#writing.goneKeys + 1] = row.key
    writing.goneNames[#writing.goneNames + 1] = row.id
    return
  end
  row.text = nil
  row.text = Rows.encode(row)
  append(writing.texts, row.key, row.text)
  if not row.isNew or row.isKept then return end
  row.isKept = true
  append(writing.names, row.id, row.key)
  if row.said ~= '' then append(writing.saids, row.key, row.said) end
end

local function writeRows()
  for at = 1, dirtyCount do writeRow(dirty[at]) end
  dirty, dirtyCount = {}, 0
  putAll('HDEL', P .. 'n', writing.goneKeys)
  putAll('HDEL', P .. 'j', writing.goneKeys)
  putAll('HDEL', P .. 'i', writing.goneNames)
  putAll('HSET', P .. 'n', writing.texts)
  putAll('HSET', P .. 'j', writing.saids)
  putAll('HSET', P .. 'i', writing.names)
  empty()
  ahead.lists, ahead.keys = {}, {}
end

-- Writes everything in hand, so that the store can be asked about it. The state comes first: where
-- a later write fails, for a right that is missing or a key that somebody made, what has been
-- written before it stays, and no number in it may be given again.
local function flush()
  if #alike.patterns > 0 then Alike.settle() end
  saveState(dirtyCount > 0 or #ahead.lists > 0 or #writing.goneKeys > 0 or logged.count > 0
    or #logged.batches > 0)
  writeRows()
  if next(writing.adds) or next(writing.rems) then writePlaces() end
  if next(writing.terms) then writeTerms() end
  if next(writing.sums) then writeBlocks() end
  if next(tallies) or next(weighs) or next(failures) then writeCounts() end
end

-- A line whose last job has been forgotten ends with it.
local function dropLines()
  for line in pairs(writing.emptied) do
    if call('EXISTS', P .. 'b:' .. line) == 0 then
      local names = Lines.of(line)
      put('HDEL', P .. 'line', line)
      put('HDEL', P .. 'lineby', names.pool .. '\0' .. names.type)
    end
  end
end

-- The end of a call that may write. `build` makes the answer, once everything is written.
local function finish(build)
  flush()
  dropLines()
  Log.write()
  local hinted = hint()
  if hinted then put('PUBLISH', P .. 'hint', hinted) end
  local answer = build()
  return pack({ linesInHand(), hinted, told(), now, answer })
end
