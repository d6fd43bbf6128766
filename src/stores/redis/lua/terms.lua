-- Owns deadlines that many jobs share: the ends of leases and of retentions.
-- May never hand a job out at an instant that is no longer its own.

local Terms = {}

-- A member names up to so many jobs, each by six bytes.
local SIZE = 6

local leased

-- Who holds a slot, if these are few; false if they are many.
local function leasedOf()
  if leased ~= nil then return leased end
  local places, count = call('SMEMBERS', P .. 'held'), 0
  for _, place in ipairs(places) do count = count + call('SCARD', P .. place) end
  leased = count <= LIMIT.walk and {}
  if not leased then return false end
  for _, place in ipairs(places) do
    for _, key in ipairs(call('SMEMBERS', P .. place)) do leased[key] = true end
  end
  return leased
end

-- Those of a member for which this instant still holds, and what that took. Most whose lease has an
-- end there have given it back long ago: that is known without reading them, for a tenth.
local function validIn(term, member, at)
  local keys, valid, among = {}, {}, term == 'ends' and leasedOf()
  for from = 1, #member, SIZE do
    local key = string.sub(member, from, from + SIZE - 1)
    if not among or among[key] then keys[#keys + 1] = key end
  end
  if #keys > 0 then Rows.read(keys) end
  for _, key in ipairs(keys) do
    local row = rows[key]
    if row == nil and texts[key] then row = Head.split(texts[key]) end
    if row and row.deadline == at and termOf(row) == term then valid[#valid + 1] = key end
  end
  return valid, #keys + (#member / SIZE - #keys) / 10
end

-- Calls `each` with the instants in order, and who is left of them, until it answers false.
-- Members that nobody is left of are put into `stale`. Answers whether it came to the end.
local function walkTerms(term, to, stale, each)
  local offset, looked = 0, 0
  while looked < LIMIT.walk do
    local found = call('ZRANGEBYSCORE', P .. term, '-inf', to, 'WITHSCORES', 'LIMIT', offset, 20)
    for at = 1, #found, 2 do
      local instant = tonumber(found[at + 1])
      local valid, count = validIn(term, found[at], instant)
      looked = looked + max(1, count)
      if #valid == 0 then
        stale[#stale + 1] = found[at]
      elseif not each(instant, valid) then
        return true
      end
    end
    if #found < 40 then return true end
    offset = offset + 20
  end
  return false
end

-- Who is late, as { key, instant }, earliest first: of the last instant all, or none is missed.
-- Answers whether everything was looked at that had to be.
function Terms.late(term, limit, late)
  local seen, count, lastAt = {}, 0, nil
  return walkTerms(term, now, {}, function(at, keys)
    if count >= limit and at ~= lastAt then return false end
    lastAt = at
    for _, key in ipairs(keys) do
      if not seen[key] then
        seen[key] = true
        count = count + 1
        late[#late + 1] = { key, at }
      end
    end
    return true
  end)
end

-- The first instant that still is somebody's; whatever nobody is left of before it goes.
function Terms.first(term)
  local first, stale = NEVER, {}
  local isDone = walkTerms(term, '+inf', stale, function(at)
    first = at
    return false
  end)
  if first == NEVER and not isDone then first = now end
  putAll('ZREM', P .. term, stale)
  return first
end
