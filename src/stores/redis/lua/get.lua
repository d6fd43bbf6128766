-- Owns the call `get`: jobs by id, in the order asked, as they are now.
-- May never change anything.

Rows.prepare(ask.ids)
local found, list = {}, {}
for at, id in ipairs(ask.ids) do
  local row = Rows.byId(id)
  found[at] = row ~= nil
  if row then list[#list + 1] = row end
end
local jobs = jobsOf(list)
return reply({ found, jobs })
