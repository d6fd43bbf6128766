-- Owns the call `events`: batches of the log that hold the entries after a number.
-- May never answer more batches than a page can need.

local after = max(ask.after, S.oldestEvent - 1)
local batches, from = {}, string.format('%.0f-0', after + 1)
local first = call('XREVRANGE', P .. 'log', from, '-', 'COUNT', 1)[1]
if first then from = first[1] end
local isMore = after < S.lastEvent
while isMore do
  local found = call('XRANGE', P .. 'log', from, '+', 'COUNT', 16)
  for _, batch in ipairs(found) do
    local number = tonumber(string.match(batch[1], '^%d+'))
    isMore = number - after <= ask.limit
    if not isMore then break end
    batches[#batches + 1] = { number, tonumber(batch[2][1]), batch[2][2] }
    from = string.format('(%.0f-0', number)
  end
  isMore = isMore and #found == 16
end
return reply({ batches, S.oldestEvent, S.lastEvent })
