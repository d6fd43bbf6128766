-- Owns the search for a loop that a group would close, in the group and in the store.
-- May never recurse: a chain of a million jobs must not end the stack.

local Loops = {}

-- The first loop reached by following dependencies, in the order of running; nil for none.
local function walk(start, depsOf, done)
  local path, onPath = { { id = start, deps = depsOf(start), at = 1 } }, { [start] = 1 }
  while #path > 0 do
    local frame = path[#path]
    local dep = frame.deps[frame.at]
    frame.at = frame.at + 1
    if not dep then
      path[#path] = nil
      onPath[frame.id] = nil
      done[frame.id] = true
    elseif onPath[dep] then
      local loop = { dep }
      for at = #path, onPath[dep], -1 do loop[#loop + 1] = path[at].id end
      return loop
    elseif not done[dep] then
      path[#path + 1] = { id = dep, deps = depsOf(dep), at = 1 }
      onPath[dep] = #path
    end
  end
end

local function findCycle(starts, depsOf)
  local done = {}
  for _, start in ipairs(starts) do
    local loop = not done[start] and walk(start, depsOf, done)
    if loop then return loop end
  end
end

-- One step of a walk that goes everywhere: the next id that it reaches; nil at its end.
local function stepper(starts, following, seen)
  local open, list, at = {}, {}, 1
  for index, id in ipairs(starts) do open[index] = id end
  return function()
    while true do
      while at <= #list do
        local id = list[at]
        at = at + 1
        if not seen[id] then
          seen[id] = true
          open[#open + 1] = id
          return id
        end
      end
      local id = table.remove(open)
      if not id then return nil end
      list, at = following(id), 1
    end
  end
end

-- Whether anything lies both upwards and downwards: one step in each direction in turn.
local function doMeet(starts, up, down)
  local seen = { {}, {} }
  local steps = { stepper(starts, up, seen[1]), stepper(starts, down, seen[2]) }
  local side = 1
  while true do
    local id = steps[side]()
    if not id then
      for _, start in ipairs(starts) do
        if seen[side][start] then return true end
      end
      return false
    end
    if seen[3 - side][id] then return true end
    side = 3 - side
  end
end

local function isUnmet(row)
  return row.status ~= 'success'
end

-- What a job in the store still waits for.
local function needed(id)
  local row = Rows.byId(id)
  if not row or not isUnmet(row) or not has(row, LINKED) then return {} end
  local deps, states, found = Rows.header(row).deps, Graph.statesOf(row), {}
  for at = 1, #deps, 2 do
    local place = (at + 1) / 2
    if string.sub(states, place, place) ~= 's' then found[#found + 1] = deps[at] end
  end
  return found
end

-- Who in the store still waits for it.
local function needing(id, found)
  for _, state in ipairs({ 'o', 'd' }) do
    local edges, keys = edgesTo(id, state, 0, NEVER), {}
    for at, edge in ipairs(edges) do keys[at] = edge.key end
    Rows.load(keys)
    for _, key in ipairs(keys) do
      local row = Rows.byKey(key)
      if row and isUnmet(row) then found[#found + 1] = row.id end
    end
  end
  return found
end

function Loops.find(jobs)
  local group, starts, namers, names = {}, {}, {}, {}
  for _, job in ipairs(jobs) do group[job.id] = job end
  for _, job in ipairs(jobs) do
    local deps = job.header.deps
    if #deps > 0 then starts[#starts + 1] = job.id end
    for at = 1, #deps, 2 do
      local list = namers[deps[at]] or {}
      list[#list + 1] = job.id
      namers[deps[at]] = list
      names[#names + 1] = deps[at]
    end
  end
  Rows.prepare(names)
  local function within(id)
    local job, found = group[id], {}
    local deps = job and job.header.deps or {}
    for at = 1, #deps, 2 do
      if group[deps[at]] or look(deps[at], deps[at + 1]) ~= 's' then
        found[#found + 1] = deps[at]
      end
    end
    return found
  end
  local loop = findCycle(starts, within)
  if loop then return loop end
  if S.linked == 0 then return nil end
  local fillers = {}
  for _, id in ipairs(starts) do
    if call('EXISTS', P .. 'd:' .. id) == 1 then fillers[#fillers + 1] = id end
  end
  if #fillers == 0 then return nil end
  local function up(id)
    if group[id] then return within(id) end
    return needed(id)
  end
  local function down(id)
    local found = {}
    for _, namer in ipairs(namers[id] or {}) do found[#found + 1] = namer end
    return needing(id, found)
  end
  return doMeet(fillers, up, down) and findCycle(starts, up) or nil
end
