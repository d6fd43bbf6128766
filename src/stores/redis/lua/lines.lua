-- Owns lines: the number of each pool with a type, and the names that an answer has to tell.
-- May never give a number to another pool and type.

local Lines = {}
local knownLines = {}

-- The pool and the type of a line; its number is never another's.
function Lines.of(line)
  local known = knownLines[line]
  if known then return known end
  local text = call('HGET', P .. 'line', line)
  local at = string.find(text, '\0', 1, true)
  known = { line = line, pool = string.sub(text, 1, at - 1), type = string.sub(text, at + 1) }
  knownLines[line] = known
  return known
end

function Lines.by(pool, type)
  local name = pool .. '\0' .. type
  local known = knownLines[name]
  if known then return known end
  local line = call('HGET', P .. 'lineby', name)
  if not line then
    S.lastLine = S.lastLine + 1
    line = S.lastLine
    saveState(true)
    put('HSET', P .. 'line', line, name)
    put('HSET', P .. 'lineby', name, line)
  end
  line = tonumber(line)
  knownLines[name] = line
  knownLines[line] = { line = line, pool = pool, type = type }
  return line
end

-- Every line there is, or those of one pool.
function Lines.all(pool)
  local found, all = {}, call('HGETALL', P .. 'line')
  for at = 1, #all, 2 do
    local line = tonumber(all[at])
    local names = Lines.of(line)
    if not pool or names.pool == pool then found[#found + 1] = line end
  end
  return found
end

local function linesInHand()
  local flat = {}
  for line, names in pairs(knownLines) do
    if type(names) == 'table' then
      local at = #flat
      flat[at + 1], flat[at + 2], flat[at + 3] = line, names.pool, names.type
    end
  end
  return flat
end
