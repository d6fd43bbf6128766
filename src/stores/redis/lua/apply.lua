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

local byte, find, read, pack6 = string.byte, string.find, struct.unpack, struct.pack

local last = #m / WIDTH

-- The keys and texts of the jobs that are to move, by their place: found by the number that the
-- move brings; whether that is a job of this id, its text says. Others are found by their ids.
local keyList, textList = {}, {}

local function findAll()
  local names, at = {}, 1
  for place = 1, last do
    local seq = m[at + 3] or m[at + 7]
    if seq and seq > 0 then
      keyList[place] = pack6('>I6', seq)
    else
      names[#names + 1], keyList[place] = m[at], ''
    end
    at = at + WIDTH
  end
  textList = readAll(P .. 'n', keyList)
  if #names == 0 then return end
  Rows.find(names)
  for place = 1, last do
    local key = keyList[place] == '' and keys[m[place * WIDTH - WIDTH + 1]]
    if key then keyList[place], textList[place] = key, texts[key] end
  end
end

-- Whether a text is that of this id.
local function isOf(text, id)
  local high, low = byte(text, 1, 2)
  local at = high * 256 + low + 9
  return byte(text, at) == #id and find(text, id, at + 1, true) == at + 1
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
  local id, key, text = m[at], keyList[place], textList[place]
  if text and ids[id] == nil and rows[key] == nil and isOf(text, id) then
    keys[id], texts[key] = key, text
  end
  local row, status, why, by = Rows.byId(id), 'stale', nil, nil
  if row then status, why, by = moveOne(row, readMove(at)) end
  if status == 'moved' then
    follows[#follows + 1] = row
  else
    local base = #others
    others[base + 1], others[base + 2] = place, status
    others[base + 3], others[base + 4], others[base + 5] = why or false, by or false, row ~= nil
  end
  if row then answer(moved, row, m[at + 7] == row.seq) end
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
  local kindAt, size, areFree = pattern.kindAt, #pattern.before.first, S.linked == 0
  local length, start = -1, nil
  local names, idList, count, ended, endedAt = {}, {}, 0, signs.ended, #signs.ended
  local write, base = writing.texts, #writing.texts
  local at = place * WIDTH - WIDTH + 1
  while true do
    local id, text, key = m[at], textList[place], keyList[place]
    if not text or m[at + 1] ~= kindAt or m[at + 6] or m[at + 7] == 0
        or find(text, before, 1, true) ~= 1
        or find(text, id, size + 8, true) ~= size + 8 or #text ~= size + 7 + #id
        or read('>I6', text, size + 1) ~= m[at + 2] or rows[key] ~= nil
        or not (areFree or isFree(id)) then
      break
    end
    if length ~= #id then
      length = #id
      start = Alike.startOf(pattern, length)
    end
    local result = m[at + 5]
    text = result and start .. id .. more .. pack(result) or start .. id .. rest
    count, endedAt, place = count + 1, endedAt + 1, place + 1
    names[count], idList[count], ended[endedAt] = key, id, id
    write[base + 1], write[base + 2], base = key, text, base + 2
    at = at + WIDTH
  end
  answerRun(moved, count, names[1], write[base - 2 * count + 2])
  Alike.again(pattern, names, idList)
  return place
end

-- A success; the next ones too if they are like it. Answers the next place, nil for the long way.
local function succeedFrom(place)
  local at, text, key = place * WIDTH - WIDTH + 1, textList[place], keyList[place]
  local kindAt = m[at + 1]
  if not text or not isPlainSuccess(at, kinds[kindAt], key) then return nil end
  local head = Alike.bare(text)
  if not head or not head.isPlain or head.status ~= 'running' then return nil end
  local pattern = alike.known[head]
  if pattern and pattern.kindAt == kindAt then
    local following = repeatFrom(pattern, place)
    return following > place and following or nil
  end
  local row, following = moveAt(place), textList[place + 1]
  -- One that is alone with its head teaches nobody.
  if row and following and find(following, head.first, 1, true) == 1 then
    pattern = Alike.learn(head, row)
    pattern.kindAt = kindAt
    alike.known[head] = pattern
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
  if m[at + 2] or seq ~= m[at + 3] or not isOf(text, m[at]) then return nil end
  local isDue = rev >= 0 or (head.deadline > 0 and head.deadline <= now)
  if head.rev ~= math.abs(rev) or not isDue or find(text, '\162co', 1, true) then return nil end
  Alike.forget(head, key, m[at])
  local where = 3 * moved.count
  moved.count = moved.count + 1
  moved.flat[where + 1], moved.flat[where + 2], moved.flat[where + 3] = key, false, text
  forgotten[#forgotten + 1] = where + 2
  if kind.keepMs > 0 then Graph.remember(m[at], 'success', kind.keepMs) end
  return place + 1
end

findAll()
local place = 1
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
for at, where in ipairs(forgotten) do lost[at] = moved.flat[where - 1] end
for at, said in ipairs(readAll(P .. 'j', lost)) do moved.flat[forgotten[at]] = said or '' end
Pools.takeRoom()

return finish(function()
  return { last, others, flatOf(moved) }
end)
