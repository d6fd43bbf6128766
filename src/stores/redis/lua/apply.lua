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
    local result = { row = row, status = moveOne(row, readMove(m, at)), why = false, by = false }
    if result.status == 'moved' then
      pattern = Alike.learn(head, row)
      pattern.kind = kind
      Alike.known[head] = pattern
    end
    return result
  end
  local text = Alike.again(pattern, key, id, 0, m[at + 5])
  signs.ended[#signs.ended + 1] = id
  local row = Alike.light(key, text, pattern)
  row.isNew = (struct.unpack('>I6', key)) == m[at + 7]
  return { row = row, status = 'moved', why = false, by = false, isLight = true }
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
  return { row = row, status = 'moved', why = false, by = false, isLight = true }
end

-- What is done to jobs that are alike; nil where it takes a closer look.
local function moveAlike(m, at)
  local key = keys[m[at]]
  if S.linked > 0 or not key or rows[key] ~= nil then return nil end
  local text, kind = texts[key], kinds[m[at + 1]]
  local step = kind.step
  if not text then return nil end
  if step == 'succeed' then
    local head, place, id = Alike.bare(text)
    if not head or not head.isPlain then return nil end
    return succeedAlike(m, at, kind, key, head, id, (struct.unpack('>I6', text, place)))
  end
  if step ~= 'forget' then return nil end
  local head = Head.split(text)
  return head.isPlain and forgetAlike(m, at, kind, key, head, text) or nil
end

local names, results = {}, {}
for at = 1, #ask.moves, WIDTH do names[#names + 1] = ask.moves[at] end
Rows.find(names)

local function moveAt(at)
  local row = Rows.byId(ask.moves[at])
  if not row then return { status = 'stale', why = false, by = false } end
  local status, why, by = moveOne(row, readMove(ask.moves, at))
  return { row = row, status = status, why = why or false, by = by or false }
end

for at = 1, #ask.moves, WIDTH do
  results[#results + 1] = moveAlike(ask.moves, at) or moveAt(at)
end

for _, result in ipairs(results) do
  if result.status == 'moved' and not result.isLight then follow(result.row) end
end

local lost = {}
for at, row in ipairs(forgotten) do lost[at] = row.key end
for at, said in ipairs(readAll(P .. 'j', lost)) do forgotten[at].said = said or '' end
Pools.takeRoom()

return finish(function()
  local said, list = {}, {}
  for at, result in ipairs(results) do
    local base = 4 * at - 4
    said[base + 1], said[base + 2], said[base + 3] = result.status, result.why, result.by
    said[base + 4] = result.row ~= nil
    if result.row then list[#list + 1] = result.row end
  end
  return { said, jobsOf(list) }
end)
