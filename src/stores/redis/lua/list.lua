-- Owns one page of jobs: which index leads to those that match, and how several are merged.
-- May never look at more jobs than LIMIT.walk: it says how far it came instead.

local FEW_READY, FEW_LINES, SOME = 2000, 16, 256

-- A source answers the keys that come after a number, and up to which number these are all.
local function indexed(place)
  return function(after)
    local from = string.format('(%.0f', after)
    local keys = call('ZRANGEBYSCORE', P .. place, from, '+inf', 'LIMIT', 0, SOME)
    if #keys < SOME then return keys, NEVER end
    return keys, (struct.unpack('>I6', keys[#keys]))
  end
end

local function membersOf(key)
  return call('SMEMBERS', key)
end

local function rangeOf(key)
  return call('ZRANGE', key, 0, -1)
end

-- Of queues that are in another order, or in none, and are few.
local function gathered(places, members)
  return function(after)
    local keys = {}
    for _, place in ipairs(places) do
      for _, key in ipairs(members(P .. place)) do
        if (struct.unpack('>I6', key)) > after then keys[#keys + 1] = key end
      end
    end
    return keys, NEVER
  end
end

local function walked(line)
  return function(after)
    local keys = {}
    local last = Walk.from(after, SOME, line, function(row)
      keys[#keys + 1] = row.key
      return true
    end)
    return keys, last or NEVER
  end
end

local function readyPlaces()
  local places, total = call('SMEMBERS', P .. 'heads'), 0
  for _, place in ipairs(places) do total = total + call('ZCARD', P .. place) end
  return places, total
end

local asked = {}
for _, status in ipairs(ask.statuses) do asked[status] = true end

local function byStatus()
  if asked.success then return nil end
  local sources = {}
  for status in pairs(MARKED) do
    if asked[status] then sources[#sources + 1] = indexed('st:' .. status) end
  end
  if asked.running then
    sources[#sources + 1] = gathered(call('SMEMBERS', P .. 'held'), membersOf)
  end
  if asked.ready then
    local places, total = readyPlaces()
    if total > FEW_READY then return nil end
    sources[#sources + 1] = gathered(places, rangeOf)
  end
  return sources
end

local function byLine()
  if not ask.type and not ask.pool then return nil end
  local sources = {}
  for _, line in ipairs(Lines.all(ask.pool)) do
    if not ask.type or Lines.of(line).type == ask.type then
      sources[#sources + 1] = walked(line)
    end
  end
  return #sources <= FEW_LINES and sources or nil
end

-- The narrowest way there is: by key, flow or code, by a rare state, by line, or by all.
local function sourcesOf()
  if ask.key then return { indexed('k:' .. ask.key) } end
  if ask.flow then return { indexed('f:' .. ask.flow) } end
  if ask.code then return { indexed('c:' .. ask.code) } end
  return byStatus() or byLine() or { walked(false) }
end

local function isWanted(row)
  if not asked[row.status] then return false end
  local names = Lines.of(row.line)
  if ask.type and names.type ~= ask.type then return false end
  if ask.pool and names.pool ~= ask.pool then return false end
  if ask.code and row.code ~= ask.code then return false end
  if ask.flow and Rows.header(row).flow ~= ask.flow then return false end
  if ask.key and Rows.header(row).key ~= ask.key then return false end
  if ask.createdAfter and row.createdAt < ask.createdAfter then return false end
  return not ask.createdBefore or row.createdAt < ask.createdBefore
end

-- The number before the first job of a block, and when that was created.
local function firstOf(block)
  local found
  Walk.from(block * 128 - 1, 1, false, function(row)
    found = row
    return false
  end)
  return found
end

-- Times of creation grow with seq, so the first block late enough is found by bisection.
local function startAt(time)
  local low, high = 0, call('ZCARD', P .. 'b') - 1
  while low < high do
    local middle = ceil((low + high) / 2)
    local row = firstOf(tonumber(call('ZRANGE', P .. 'b', middle, middle)[1]))
    if row and row.createdAt < time then low = middle else high = middle - 1 end
  end
  local block = call('ZRANGE', P .. 'b', low, low)[1]
  return block and block * 128 - 1 or 0
end

local sources, list, looked = sourcesOf(), {}, 0
local bound, isDone = ask.after, false
if ask.createdAfter then bound = max(bound, startAt(ask.createdAfter)) end

while not isDone and #list <= ask.limit and looked < LIMIT.walk do
  local all, horizon = {}, NEVER
  for _, source in ipairs(sources) do
    local keys, last = source(bound)
    horizon = min(horizon, last)
    for _, key in ipairs(keys) do all[#all + 1] = key end
  end
  Rows.load(all)
  table.sort(all, isSmaller)
  local before
  for _, key in ipairs(all) do
    local row = Rows.byKey(key)
    if row and key ~= before and row.seq <= horizon and #list <= ask.limit then
      looked = looked + 1
      if isWanted(row) then list[#list + 1] = row end
    end
    before = key
  end
  bound, isDone = horizon, horizon == NEVER
end

local after = not isDone and bound
if #list > ask.limit then
  list[#list] = nil
  after = list[#list].seq
end
local jobs = jobsOf(list)
return reply({ jobs, after })
