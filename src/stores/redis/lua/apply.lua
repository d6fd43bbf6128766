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

local function readMove(m, at)
  local rev = m[at + 4]
  return setmetatable({
    id = m[at], lease = m[at + 2], seq = m[at + 3], rev = rev and math.abs(rev),
    overdue = rev and rev < 0, result = m[at + 5], error = m[at + 6],
  }, kinds[m[at + 1]].meta)
end

-- A success of a job about which nothing is special, and that nobody can be waiting for.
local function succeedAlike(m, at, kind, key, head, id, lease)
  if head.status ~= 'running' or lease ~= m[at + 2] or kind.code or m[at + 6] then return nil end
  local pattern = Alike.known[head]
  if not pattern or pattern.kind ~= kind then
    local row = Rows.byKey(key)
    if moveOne(row, readMove(m, at)) ~= 'moved' then return nil end
    pattern = Alike.learn(head, row)
    pattern.kind = kind
    Alike.known[head] = pattern
    return row
  end
  local text = Alike.again(pattern, key, id, 0, m[at + 5])
  signs.ended[#signs.ended + 1] = id
  local isKnown = (struct.unpack('>I6', key)) == m[at + 7]
  return { key = key, text = text, line = pattern.line, isNew = isKnown }
end

local forgotten = {}

-- A success that is forgotten: no failure, no code, no edge, no key, no flow has to hear of it.
local function forgetAlike(m, at, kind, key, head, text)
  local seq, rev = struct.unpack('>I6', key), m[at + 4]
  if head.status ~= 'success' or m[at + 2] or seq ~= m[at + 3] then return nil end
  local isDue = rev >= 0 or (head.deadline > 0 and head.deadline <= now)
  if head.rev ~= math.abs(rev) or not isDue or string.find(text, '\162co', 1, true) then
    return nil
  end
  local row = Alike.forget(head, key, m[at], text)
  forgotten[#forgotten + 1] = row
  if kind.keepMs > 0 then Graph.remember(m[at], 'success', kind.keepMs) end
  return row
end

-- Whether no edge leads to a job: then nobody has to hear of it, and nobody names it.
local areAllFree

local function isFree(id)
  if S.linked == 0 then return true end
  if areAllFree == nil then
    local all, found = {}, 0
    for at = 1, #ask.moves, WIDTH do all[#all + 1] = P .. 'd:' .. ask.moves[at] end
    for first = 1, #all, 1000 do
      found = found + call('EXISTS', unpack(all, first, min(first + 999, #all)))
    end
    areAllFree = found == 0
  end
  return areAllFree or call('EXISTS', P .. 'd:' .. id) == 0
end

-- What became of a job that is like others, and was moved; nil where it takes a closer look.
local function moveAlike(m, at)
  local key = keys[m[at]]
  if not key or rows[key] ~= nil then return nil end
  local text, kind = texts[key], kinds[m[at + 1]]
  local step = kind.step
  if not text then return nil end
  if step == 'succeed' then
    local head, place, id = Alike.bare(text)
    if not head or not head.isPlain or not isFree(id) then return nil end
    return succeedAlike(m, at, kind, key, head, id, (struct.unpack('>I6', text, place)))
  end
  if step ~= 'forget' then return nil end
  local head = Head.split(text)
  if not head.isPlain or not isFree(m[at]) then return nil end
  return forgetAlike(m, at, kind, key, head, text)
end

local names, moved, follows, others = {}, {}, {}, {}
for at = 1, #ask.moves, WIDTH do names[#names + 1] = ask.moves[at] end
Rows.find(names)

-- The long way. What does not happen is said with its place, counted from 1, and why.
local function moveAt(at, place)
  local row, status, why, by = Rows.byId(ask.moves[at]), 'stale', nil, nil
  if row then status, why, by = moveOne(row, readMove(ask.moves, at)) end
  if status == 'moved' then
    follows[#follows + 1] = row
  else
    local base = #others
    others[base + 1], others[base + 2] = place, status
    others[base + 3], others[base + 4], others[base + 5] = why or false, by or false, row ~= nil
  end
  return row or false
end

for place = 1, #names do
  local at = place * WIDTH - WIDTH + 1
  moved[place] = moveAlike(ask.moves, at) or moveAt(at, place)
end

for _, row in ipairs(follows) do follow(row) end

local lost = {}
for at, row in ipairs(forgotten) do lost[at] = row.key end
for at, said in ipairs(readAll(P .. 'j', lost)) do forgotten[at].said = said or '' end
Pools.takeRoom()

return finish(function()
  local list = {}
  for place = 1, #moved do
    if moved[place] then list[#list + 1] = moved[place] end
  end
  return { #moved, others, jobsOf(list) }
end)
