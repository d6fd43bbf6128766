-- Owns how many slots are in use: counted from leases and holds, never kept.
-- May never keep a count from one call to the next.

local Slots = {}
local slots = { pools = {}, types = {}, shares = {}, lines = {}, own = {} }

local function increase(counts, name, by)
  counts[name] = (counts[name] or 0) + by
end

-- Slots in use, counted from the leases and holds themselves.
function Slots.read()
  for _, place in ipairs(call('SMEMBERS', P .. 'held')) do
    local line = tonumber(string.sub(place, 3))
    local names, used = Lines.of(line), call('SCARD', P .. place)
    slots.lines[#slots.lines + 1] = line
    increase(slots.pools, names.pool, used)
    increase(slots.types, names.type, used)
  end
end

function Slots.ofPool(pool)
  return slots.pools[pool] or 0
end

-- Those of a holder in a pool; what it has taken in this call is not in the store yet.
function Slots.ofShare(pool, holder)
  local shares = slots.shares[holder]
  if not shares then
    shares = {}
    slots.shares[holder] = shares
    for _, line in ipairs(call('SMEMBERS', P .. 'hl:' .. holder)) do
      local used = call('SCARD', P .. 'h:' .. holder .. '\0' .. line)
      increase(shares, Lines.of(tonumber(line)).pool, used)
    end
  end
  return (shares[pool] or 0) + (slots.own[pool] or 0)
end

-- So many more, of the worker that asks.
function Slots.add(names, by)
  increase(slots.pools, names.pool, by)
  increase(slots.types, names.type, by)
  increase(slots.own, names.pool, by)
end
