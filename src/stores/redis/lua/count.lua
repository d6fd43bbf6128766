-- Owns the call `count`: what is counted as jobs move, and who holds what.
-- May never look at a job that nobody holds.

local held = {}
for _, place in ipairs(call('SMEMBERS', P .. 'held')) do
  for _, key in ipairs(call('SMEMBERS', P .. place)) do held[#held + 1] = key end
end
Rows.load(held)
for at, key in ipairs(held) do held[at] = Rows.byKey(key) end
table.sort(held, function(a, b) return a.lease < b.lease end)
for at = #held, LIMIT.held + 1, -1 do held[at] = nil end

local budgeted = 0
if S.budget then
  budgeted = call('ZCARD', P .. 'again') + call('ZCOUNT', P .. 'due:1', '-inf', now)
end
local tallies, slots = Read.tallies(nil), Read.slots()
local jobs = jobsOf(held)
return reply({
  tallies, slots, call('HGETALL', P .. 'pool'), call('HGETALL', P .. 'failure'), jobs,
  call('ZCARD', P .. 'doomed'), call('ZCARD', P .. 'fans'), S.forgotten, S.unranked, budgeted,
})
