-- Owns the form of answers: jobs as the client reads them, and the names of their lines.
-- May never look inside what was said of a job.

-- What is to be answered: rows, or the keys of jobs that are not in hand, with their texts; `saids`
-- has what was said of those, false where the client knows it.
local function newList()
  return { texts = {}, saids = {} }
end

-- Jobs as the client reads them: number, what was said (false if it knows), how they are now.
local function jobsOf(list)
  local texts, saids = list.texts or {}, list.saids or {}
  local flat, unknown, places, asked, place = {}, {}, {}, 0, 1
  for at = 1, #list do
    local key, text, said = list[at], texts[at], saids[at]
    if not text then
      local row = key
      key, text, said = row.key, row.text or Rows.encode(row), row.said
      if row.isNew then said = false end
      Lines.of(row.line)
    end
    if said == nil then
      asked = asked + 1
      unknown[asked], places[asked] = key, place + 1
    end
    flat[place], flat[place + 1], flat[place + 2] = key, said or false, text
    place = place + 3
  end
  local found = readAll(P .. 'j', unknown)
  for at = 1, asked do flat[places[at]] = found[at] or '' end
  return flat
end

local function linesInHand()
  local flat = {}
  for line, names in pairs(Lines.known) do
    if type(names) == 'table' then
      local at = #flat
      flat[at + 1], flat[at + 2], flat[at + 3] = line, names.pool, names.type
    end
  end
  return flat
end

-- The answer of a call that changes nothing.
local function reply(answer)
  return pack({ linesInHand(), false, false, now, answer })
end
