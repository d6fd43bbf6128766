-- Owns the call `apply`: all moves; then what follows for others; then how each job is after that.
-- May never let one move see another's half: each is compared with the job as it then is.

local WIDTH = 17

local function readMove(m, at)
  return {
    id = m[at], lease = m[at + 1], seq = m[at + 2], rev = m[at + 3], overdue = m[at + 4],
    step = m[at + 5], to = m[at + 6], delayMs = m[at + 7], keepRank = m[at + 8],
    charge = m[at + 9], outcome = m[at + 10], code = m[at + 11], result = m[at + 12],
    error = m[at + 13], keepMs = m[at + 14], unknown = m[at + 15], verdict = m[at + 16],
  }
end

local names, results = {}, {}
for at = 1, #ask.moves, WIDTH do names[#names + 1] = ask.moves[at] end
Rows.prepare(names)

for at = 1, #ask.moves, WIDTH do
  local move = readMove(ask.moves, at)
  local row = Rows.byId(move.id)
  local result = { row = row }
  result.status, result.why, result.by = 'stale', false, false
  if row then
    local status, why, by = moveOne(row, move)
    result.status, result.why, result.by = status, why or false, by or false
  end
  results[#results + 1] = result
end

for _, result in ipairs(results) do
  if result.status == 'moved' then follow(result.row) end
end
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
