-- Owns what a lease looks at first: the queues that its worker serves, and whether their pools let
-- anything start at all. A call in vain, which most calls of a busy fleet are, ends here.
-- May never turn away what some rule would let start.

local Prospects = {}
local prospects = { queues = {}, pools = {}, areSuspects = false, isRead = false }

-- Whether nothing starts in a pool, whatever is ready in it.
function Pools.isShut(pool)
  local rules = pool.rules
  if rules.paused then return true end
  return not rules.elastic and not rules.preempt
    and Slots.ofPool(pool.name) >= rules.concurrency
end

-- The queues of each pool that this worker serves, and the pools in order of name.
function Prospects.read()
  if prospects.isRead then return end
  prospects.isRead = true
  local served, byPool, names = {}, prospects.queues, prospects.pools
  for _, type in ipairs(ask.types) do served[type] = true end
  for _, place in ipairs(call('SMEMBERS', P .. 'heads')) do
    local isSuspects = string.sub(place, 1, 2) == 'rs'
    local line = Lines.of(tonumber(string.match(place, '%d+$')))
    if served[line.type] then
      if not byPool[line.pool] then
        byPool[line.pool] = {}
        names[#names + 1] = line.pool
      end
      local queues = byPool[line.pool]
      queues[#queues + 1] = {
        place = place, names = line, isSuspects = isSuspects, keys = {}, ranks = {}, at = 1,
        base = 0,
      }
      prospects.areSuspects = prospects.areSuspects or isSuspects
    end
  end
  if #names > 1 then table.sort(names, isSmaller) end
  if #names > 0 then Slots.read() end
end

local function areAllShut()
  Prospects.read()
  for _, name in ipairs(prospects.pools) do
    if not Pools.isShut(Pools.get(name)) then return false end
  end
  return true
end

local arePending = call('EXISTS', P .. 'due:0', P .. 'due:1', P .. 'again') > 0
if stateBefore and not arePending and S.wanting == 0 and areAllShut() then
  return pack({ linesInHand(), false, ask.tell and {}, now, { {}, NEVER } })
end
