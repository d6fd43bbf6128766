-- Owns the call `apply`: all moves; then what follows for others; then how each job is after that.
-- May never let one move see another's half: each is compared with the job as it then is.

local WIDTH = 18

local function readMove(m, at)
  return {
    id = m[at], lease = m[at + 1], seq = m[at + 2], rev = m[at + 3], overdue = m[at + 4],
    step = m[at + 5], to = m[at + 6], delayMs = m[at + 7], keepRank = m[at + 8],
    charge = m[at + 9], outcome = m[at + 10], code = m[at + 11], result = m[at + 12],
    error = m[at + 13], keepMs = m[at + 14], unknown = m[at + 15], verdict = m[at + 16],
  }
end

-- Whether two moves say the same, but for who it is and what came out.
local function isSame(m, a, b)
  for offset = 6, 16 do
    if offset ~= 12 and m[a + offset] ~= m[b + offset] then return false end
  end
  return true
end

-- A success of a job about which nothing is special, and that nobody can be waiting for.
local function succeedAlike(m, at, key, head, id, lease)
  if head.status ~= 'running' or lease ~= m[at + 1] or m[at + 11] or m[at + 13] then return nil end
  local pattern = Alike.known[head]
  if not pattern or not isSame(m, at, pattern.at) then
    local row = Rows.byKey(key)
    local result = { row = row, status = moveOne(row, readMove(m, at)), why = false, by = false }
    if result.status == 'moved' then
      Alike.known[head] = Alike.learn(head, row)
      Alike.known[head].at = at
    end
    return result
  end
  local text = Alike.again(pattern, key, id, 0, m[at + 12])
  signs.ended[#signs.ended + 1] = id
  local row = Alike.light(key, text, pattern)
  row.isNew = (struct.unpack('>I6', key)) == m[at + 17]
  return { row = row, status = 'moved', why = false, by = false, isLight = true }
end

local forgotten = {}

-- A success that is forgotten: no failure, no code, no edge, no key, no flow has to hear of it.
local function forgetAlike(m, at, key, head, text)
  local seq = struct.unpack('>I6', key)
  local isDue = not m[at + 4] or (head.deadline > 0 and head.deadline <= now)
  if head.status ~= 'success' or m[at + 1] or seq ~= m[at + 2] or head.rev ~= m[at + 3]
      or not isDue or string.find(text, '\162co', 1, true) then
    return nil
  end
  local row = Alike.forget(head, key, m[at], text)
  forgotten[#forgotten + 1] = row
  if m[at + 14] > 0 then Graph.remember(m[at], 'success', m[at + 14]) end
  return { row = row, status = 'moved', why = false, by = false, isLight = true }
end

-- What is done to jobs that are alike; nil where it takes a closer look.
local function moveAlike(m, at)
  local key = keys[m[at]]
  if S.linked > 0 or not key or rows[key] ~= nil then return nil end
  local text, step = texts[key], m[at + 5]
  if not text then return nil end
  if step == 'succeed' then
    local head, place, id = Alike.bare(text)
    if not head or not head.isPlain then return nil end
    return succeedAlike(m, at, key, head, id, (struct.unpack('>I6', text, place)))
  end
  if step ~= 'forget' then return nil end
  local head = Head.split(text)
  return head.isPlain and forgetAlike(m, at, key, head, text) or nil
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
