-- Owns the call `apply`: all moves; then what follows for others; then how each job is after that.
-- May never let one move see another's half: each is compared with the job as it then is.

-- A move is { id, kind, lease or false, seq, rev, result, error, the seq that the client knows };
-- a rev below zero asks for a deadline that is past. A kind is what moves have in common.
local WIDTH = 8
local kinds = {}
for at, kind in ipairs(ask.kinds) do
  kinds[at] = {
    step = kind[1], to = kind[2], delayMs = kind[3], keepRank = kind[4], charge = kind[5],
    outcome = kind[6], code = kind[7], keepMs = kind[8], verdict = kind[9], unknown = kind[10],
  }
  kinds[at].meta = { __index = kinds[at] }
end

local m = ask.moves

local function readMove(at)
  local rev = m[at + 4]
  return setmetatable({
    id = m[at], lease = m[at + 2], seq = m[at + 3], rev = rev and math.abs(rev),
    overdue = rev and rev < 0, result = m[at + 5], error = m[at + 6],
  }, kinds[m[at + 1]].meta)
end

local byte, cut, find, read = string.byte, string.sub, string.find, struct.unpack

-- Whether a text is that of this id.
local function isOf(text, id)
  local high, low = byte(text, 1, 2)
  local at = high * 256 + low + 9
  return byte(text, at) == #id and find(text, id, at + 1, true) == at + 1
end

-- The keys and texts of the jobs that are to move, by their place: found by the number that the
-- move brings, if the text there is that of the id, else by the id.
local keyList, textList = {}, {}

local function findAll()
  local some, known, names = {}, {}, {}
  for at = 1, #m, WIDTH do
    local seq, place = m[at + 3] or m[at + 7], (at + WIDTH - 1) / WIDTH
    if seq and seq > 0 then
      local key = Rows.key(seq)
      some[#some + 1], known[#known + 1], keyList[place] = key, place, key
    else
      names[#names + 1] = m[at]
    end
  end
  for at, text in ipairs(readAll(P .. 'n', some)) do
    local place = known[at]
    local id = m[place * WIDTH - WIDTH + 1]
    if text and isOf(text, id) then textList[place] = text else names[#names + 1] = id end
  end
  if #names == 0 then return end
  Rows.find(names)
  for at = 1, #m, WIDTH do
    local place = (at + WIDTH - 1) / WIDTH
    if not textList[place] then
      local key = keys[m[at]]
      keyList[place], textList[place] = key, key and texts[key]
    end
  end
end

-- Whether no edge leads to a job: then nobody has to hear of it, and nobody names it.
local areAllFree

local function isFree(id)
  if S.linked == 0 then return true end
  if areAllFree == nil then
    local all, found = {}, 0
    for at = 1, #m, WIDTH do all[#all + 1] = P .. 'd:' .. m[at] end
    for first = 1, #all, 1000 do
      found = found + call('EXISTS', unpack(all, first, min(first + 999, #all)))
    end
    areAllFree = found == 0
  end
  return areAllFree or call('EXISTS', P .. 'd:' .. id) == 0
end

local moved, follows, others = newList(), {}, {}

-- The long way. What does not happen is said with its place, counted from 1, and why.
local function moveAt(place)
  local at = place * WIDTH - WIDTH + 1
  local id, key = m[at], keyList[place]
  if key and ids[id] == nil and rows[key] == nil then keys[id], texts[key] = key, textList[place] end
  local row, status, why, by = Rows.byId(id), 'stale', nil, nil
  if row then status, why, by = moveOne(row, readMove(at)) end
  if status == 'moved' then
    follows[#follows + 1] = row
  else
    local base = #others
    others[base + 1], others[base + 2] = place, status
    others[base + 3], others[base + 4], others[base + 5] = why or false, by or false, row ~= nil
  end
  if row then moved[#moved + 1] = row end
  return status == 'moved' and row
end

-- Whether nothing is special about the success of a job, and nobody can be waiting for it.
local function isPlainSuccess(at, kind, key)
  return kind.step == 'succeed' and not kind.code and not m[at + 6] and rows[key] == nil
    and isFree(m[at])
end

-- Those that follow, as far as they are like the first that has succeeded. Answers where it ends.
local function repeatFrom(pattern, place)
  local before, rest, more = pattern.before.first, pattern.rest, pattern.more
  local kindAt, size, base = pattern.kindAt, #before, #moved
  local names, idList, news, count = {}, {}, {}, 0
  local kind, ended, answered, saids = kinds[kindAt], signs.ended, moved.texts, moved.saids
  while true do
    local at, text, key = place * WIDTH - WIDTH + 1, textList[place], keyList[place]
    if not text or m[at + 1] ~= kindAt or find(text, before, 1, true) ~= 1
        or not isPlainSuccess(at, kind, key) then
      break
    end
    local lease, length = read('>I6B', text, size + 1)
    local id, result = m[at], m[at + 5]
    if lease ~= m[at + 2] or #text ~= size + 7 + length then break end
    text = Alike.startOf(pattern, length) .. id .. rest
    if result then text = Alike.startOf(pattern, length) .. id .. more .. pack(result) end
    count, place = count + 1, place + 1
    names[count], idList[count], news[count] = key, id, text
    moved[base + count], answered[base + count] = key, text
    if m[at + 7] and read('>I6', key) == m[at + 7] then saids[base + count] = false end
  end
  for at = 1, count do ended[#ended + 1] = idList[at] end
  Alike.again(pattern, names, idList, news, count)
  return place
end

-- A success; the next ones too if they are like it. Answers the next place, nil for the long way.
local function succeedFrom(place)
  local at, text, key = place * WIDTH - WIDTH + 1, textList[place], keyList[place]
  local kindAt = m[at + 1]
  if not text or not isPlainSuccess(at, kinds[kindAt], key) then return nil end
  local head = Alike.bare(text)
  if not head or not head.isPlain or head.status ~= 'running' then return nil end
  local pattern = Alike.known[head]
  if pattern and pattern.kindAt == kindAt then
    local nextPlace = repeatFrom(pattern, place)
    return nextPlace > place and nextPlace or nil
  end
  local row, following = moveAt(place), textList[place + 1]
  -- One that is alone with its head teaches nobody.
  if row and following and find(following, head.first, 1, true) == 1 then
    pattern = Alike.learn(head, row)
    pattern.kindAt = kindAt
    Alike.known[head] = pattern
  end
  return place + 1
end

local forgotten = {}

-- A success that is forgotten: no failure, no code, no edge, no key, no flow has to hear of it.
local function forgetAt(place)
  local at, text, key = place * WIDTH - WIDTH + 1, textList[place], keyList[place]
  local kind = kinds[m[at + 1]]
  if kind.step ~= 'forget' or not text or rows[key] ~= nil then return nil end
  local head, seq, rev = Head.split(text), read('>I6', key), m[at + 4]
  if not head.isPlain or head.status ~= 'success' or not isFree(m[at]) then return nil end
  if m[at + 2] or seq ~= m[at + 3] then return nil end
  local isDue = rev >= 0 or (head.deadline > 0 and head.deadline <= now)
  if head.rev ~= math.abs(rev) or not isDue or find(text, '\162co', 1, true) then return nil end
  Alike.forget(head, key, m[at])
  moved[#moved + 1], moved.texts[#moved + 1] = key, text
  forgotten[#forgotten + 1] = #moved
  if kind.keepMs > 0 then Graph.remember(m[at], 'success', kind.keepMs) end
  return place + 1
end

findAll()
local place, last = 1, #m / WIDTH
while place <= last do
  local following = succeedFrom(place) or forgetAt(place)
  if not following then
    moveAt(place)
    following = place + 1
  end
  place = following
end

for _, row in ipairs(follows) do follow(row) end

local lost = {}
for at, where in ipairs(forgotten) do lost[at] = moved[where] end
for at, said in ipairs(readAll(P .. 'j', lost)) do moved.saids[forgotten[at]] = said or '' end
Pools.takeRoom()

return finish(function()
  return { last, others, jobsOf(moved) }
end)
