-- Owns the call `extend`: prolongs what a worker holds; what it does not list goes back.
-- May never take a lease for lost that is not.

local listed, answers, names = {}, {}, {}
for at = 1, #ask.held, 4 do names[#names + 1] = ask.held[at] end
Rows.prepare(names)

-- A lease as it is listed is { id, number, stuck, note or false }.
local function extendOne(id, number, stuck, note)
  local row = Rows.byId(id)
  if not row or row.lease == 0 or row.holder ~= ask.holder then return { 'lost' } end
  if not row.hold and row.lease ~= number then return { 'lost' } end
  listed[row.lease] = true
  Board.setDeadline(row, now + ask.leaseMs)
  if stuck then Board.stick(row) end
  if note then row.note = note end
  if row.hold then return { 'cancelled', row.lease } end
  if row.evictor then return { 'evicted', row.evictor } end
  return { 'held' }
end

for at = 1, #ask.held, 4 do
  answers[#answers + 1] = extendOne(ask.held[at], ask.held[at + 1], ask.held[at + 2],
    ask.held[at + 3])
end

-- Granted by an answer that never arrived: in the order in which they were granted.
local unheard = {}
for _, line in ipairs(call('SMEMBERS', P .. 'hl:' .. ask.holder)) do
  local place = P .. 'h:' .. ask.holder .. '\0' .. line
  local keys = call('SMEMBERS', place)
  Rows.load(keys)
  for _, key in ipairs(keys) do
    local row = Rows.byKey(key)
    if row.lease <= ask.upTo and not listed[row.lease] then unheard[#unheard + 1] = row end
  end
end
table.sort(unheard, function(a, b) return a.lease < b.lease end)
for _, row in ipairs(unheard) do Turns.giveBack(row) end
Pools.takeRoom()

return finish(function()
  return { answers, S.lastLease }
end)
