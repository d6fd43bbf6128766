-- Owns the form of answers: jobs as the client reads them, and the names of their lines.
-- May never look inside what was said of a job.

-- Jobs as the client reads them: number, what was said (false if it knows), how they are now.
local function jobsOf(list)
  local flat, unknown = {}, {}
  for at = 1, #list do
    local row = list[at]
    if not row.said and not row.isNew then unknown[#unknown + 1] = row.key end
  end
  local saids = readAll(P .. 'j', unknown)
  for at = 1, #unknown do unknown[unknown[at]] = saids[at] or '' end
  local count, known = 0, Lines.known
  for at = 1, #list do
    local row = list[at]
    local key = row.key
    row.said = row.said or unknown[key]
    if not known[row.line] then Lines.of(row.line) end
    flat[count + 1] = key
    flat[count + 2] = not row.isNew and row.said
    flat[count + 3] = row.text or Rows.encode(row)
    count = count + 3
  end
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
