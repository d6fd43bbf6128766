-- Owns the call `dependents`: who names a job, in order of seq, a page at a time.
-- May never change anything.

local all = {}
for _, state in ipairs({ 'o', 's', 'd' }) do
  for _, edge in ipairs(edgesTo(ask.id, state, ask.after, ask.limit)) do all[#all + 1] = edge end
end
table.sort(all, function(a, b) return a.seq < b.seq end)
local keys, list = {}, {}
for at = 1, min(#all, ask.limit) do keys[at] = all[at].key end
Rows.load(keys)
for _, key in ipairs(keys) do list[#list + 1] = Rows.byKey(key) end
local jobs = jobsOf(list)
return reply(jobs)
