-- Owns what is done to many jobs that are alike: the rules are applied to the first of them, and
-- what became of it is repeated for the others, which are never taken in hand.
-- May never be used where a rule asks for more than the head of a job: who it is, or who else.

-- A text without anything rare: its head, where that ends, and its id. Nil for any other.
function Alike.bare(text)
  local head, at = Head.split(text)
  local last = at + 6 + string.byte(text, at + 6)
  if last ~= #text then return nil end
  return head, at, string.sub(text, at + 7, last)
end

-- What became of the first: `before` is the head that it had; false for a new job.
function Alike.learn(before, row)
  local bytes = Head.bytes(row)
  local result = row.result
  row.result = nil
  local rest = Rows.rest(row)
  row.result = result
  local run = Log.runs[#Log.runs]
  local pattern = {
    before = before, after = Head.of(bytes), line = row.line, rest = rest, count = 0,
    first = struct.pack('>I2', #bytes) .. bytes, run = run, attempt = run[11][#run[11]],
  }
  if rest ~= '' then
    pattern.more = string.char(string.byte(rest) + 1) .. string.sub(rest, 2) .. pack('re')
  end
  Alike.patterns[#Alike.patterns + 1] = pattern
  return pattern
end

local function logAgain(pattern, id)
  local run, runs = pattern.run, Log.runs
  if runs[#runs] == run and Log.count < LIMIT.events then
    S.lastEvent, Log.count = S.lastEvent + 1, Log.count + 1
    local jobs, attempts = run[10], run[11]
    local at = #jobs + 1
    jobs[at], attempts[at] = id, pattern.attempt
    return
  end
  Log.add(id, run[3], run[2], run[4], run[5], run[6], pattern.attempt, run[7], run[8], run[9])
  pattern.run = Log.runs[#Log.runs]
end

-- Does the same to another. Answers its text.
function Alike.again(pattern, key, id, lease, result)
  local before, after, rest = pattern.before, pattern.after, pattern.rest
  if result then rest = pattern.more .. pack(result) end
  local text = pattern.first .. struct.pack('>I6B', lease, #id) .. id .. rest
  pattern.count = pattern.count + 1
  texts[key], ahead[key] = text, true
  local flat = Writing.texts
  local at = #flat
  flat[at + 1], flat[at + 2] = key, text
  if before and before.place then remove(before.place, key) end
  if before and before.held then remove(before.held, key) end
  if before and before.mark then remove('st:' .. before.mark, key) end
  if after.place then add(after.place, after.score, key) end
  if after.held then add(after.held, 0, key) end
  if after.mark then add('st:' .. after.mark, (struct.unpack('>I6', key)), key) end
  if after.term then setTerm(after.term, after.deadline, key) end
  logAgain(pattern, id)
  return text
end

-- A job as answers need it.
function Alike.light(key, text, pattern, said)
  return { key = key, text = text, line = pattern.line, said = said }
end

-- Forgets a job whose head says all that there is to ask.
function Alike.forget(head, key, id, text)
  local pattern = Alike.gone[head]
  if not pattern then
    pattern = { before = head, after = false, line = head.line, count = 0 }
    Alike.gone[head] = pattern
    Alike.patterns[#Alike.patterns + 1] = pattern
  end
  pattern.count = pattern.count + 1
  countIn({ seq = (struct.unpack('>I6', key)), line = head.line }, -1)
  Writing.goneKeys[#Writing.goneKeys + 1] = key
  Writing.goneNames[#Writing.goneNames + 1] = id
  texts[key], keys[id], rows[key], ids[id] = false, false, false, false
  S.forgotten = S.forgotten + 1
  signs.ended[#signs.ended + 1] = id
  return Alike.light(key, text, pattern)
end

-- What is counted of all of them together.
function Alike.settle()
  for _, pattern in ipairs(Alike.patterns) do
    local before, after, count = pattern.before, pattern.after, pattern.count
    if count > 0 then
      local wasAlive = before and not ENDED[before.status]
      local isAlive = after and not ENDED[after.status]
      if before then tally(pattern, before.status, -count) end
      if after then tally(pattern, after.status, count) end
      if wasAlive and not isAlive then weigh(before, -count) end
      if isAlive and not wasAlive then weigh(after, count) end
    end
  end
  Alike.patterns, Alike.gone, Alike.known = {}, {}, {}
end
