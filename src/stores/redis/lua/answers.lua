-- Owns the form of answers: jobs as the client reads them.
-- May never look inside what was said of a job.

-- Jobs as the client reads them, three values for each: number, what was said (false if it knows),
-- how it is now. Rows are looked at when all is done; `asked`: of whom what was said has to be
-- read, and the `places` where it goes.
local function newList()
  return { flat = {}, count = 0, rows = {}, known = {}, asked = {}, places = {} }
end

-- `isKnown`: the client need not be told again what was said of this job.
local function answer(list, row, isKnown)
  local count = list.count + 1
  local at = 3 * count
  list.count, list.rows[count], list.known[count] = count, row, isKnown
  list.flat[at - 2], list.flat[at - 1], list.flat[at] = row.key, false, false
end

-- Jobs of whom the client knows everything but how they are now, which is as the first of them is,
-- but for its id and its result: how many, the key of the first, its text.
local function answerRun(list, many, key, text)
  if many == 0 then return end
  local at = 3 * list.count
  list.count = list.count + 1
  list.flat[at + 1], list.flat[at + 2], list.flat[at + 3] = many, key, text
end

local function flatOf(list)
  local flat, asked, places = list.flat, list.asked, list.places
  for count, row in pairs(list.rows) do
    local at = 3 * count
    Lines.of(row.line)
    flat[at] = row.text or Rows.encode(row)
    if row.said and not row.isNew then
      flat[at - 1] = row.said
    elseif not (row.isNew or list.known[count]) then
      local place = #asked + 1
      asked[place], places[place] = row.key, at - 1
    end
  end
  local found = readAll(P .. 'j', asked)
  for at = 1, #asked do flat[places[at]] = found[at] or '' end
  return flat
end

local function jobsOf(rowList)
  local list = newList()
  for at = 1, #rowList do answer(list, rowList[at]) end
  return flatOf(list)
end

-- The answer of a call that changes nothing.
local function reply(answer)
  return pack({ linesInHand(), false, false, now, answer })
end
