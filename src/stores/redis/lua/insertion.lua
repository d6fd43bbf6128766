-- Owns putting groups of jobs in: what would become of each, and then all of them or none.
-- May never change anything before the whole group has been considered.

-- A job is { id, kind, said }; a kind is { line, terms, flags, priority, delayMs, minted }.
local WIDE = 3
local NO_PAYLOAD = 2

local function namesOf(group, names)
  for at = 1, #group.jobs, WIDE do names[#names + 1] = group.jobs[at] end
  return names
end

-- The numbers of the terms of this call, which are written down if nobody had agreed on them.
local termsOf = {}

local function termsAt(index)
  local known = termsOf[index]
  if known then return known end
  local text = ask.terms[index]
  local number = call('HGET', P .. 'termsby', text)
  if number then
    number = tonumber(number)
  elseif S.lastTerms >= LIMIT.terms then
    number = 0
  else
    S.lastTerms = S.lastTerms + 1
    number = S.lastTerms
    saveState(true)
    put('HSET', P .. 'termsby', text, number)
    put('HSET', P .. 'terms', number, text)
  end
  termsOf[index] = number
  return number
end

-- A job of the group as it came; what is special about it stands in the header of what was said.
local function readJob(m, at)
  local kind = ask.kinds[m[at + 1]]
  local job = {
    id = m[at], terms = kind[2], flags = kind[3], priority = kind[4], delayMs = kind[5],
    said = m[at + 2], minted = kind[6],
  }
  local line = ask.lines[kind[1]]
  job.pool, job.type = line[1], line[2]
  job.header = Rows.header(job)
  return job
end

local function payloadOf(job)
  if job.flags % 4 >= NO_PAYLOAD then return nil end
  if not has(job, SPECIAL) then return Rows.said(job) end
  local at = cmsgpack.unpack_one(Rows.said(job))
  return at == -1 and '' or string.sub(job.said, at + 1)
end

local function newRow(job)
  S.lastSeq = S.lastSeq + 1
  local weight = weightOf(job.priority)
  local row = {
    seq = S.lastSeq, key = Rows.key(S.lastSeq), id = job.id, line = Lines.by(job.pool, job.type),
    status = 'waiting', rev = 1, priority = job.priority, flags = job.flags,
    terms = termsAt(job.terms), createdAt = now, weight = weight, rank = now - weight,
    availableAt = now + job.delayMs, readyAt = 0, startedAt = 0, finishedAt = 0, starts = 0,
    attempts = 0, lost = 0, lostBefore = 0, again = 0, needs = 0, open = 0, deadline = 0,
    lease = 0, holder = false, said = job.said, header = job.header,
  }
  if row.terms == 0 then row.ownTerms = ask.terms[job.terms] end
  return row
end

local function keyRefusal(job, index, plan)
  local key = job.header.key
  if not key then return nil end
  local owner = plan.keys[key]
  if not owner then
    local by = Keys.ownerOf(key)
    owner = by and by.id
  end
  if not owner then
    plan.keys[key] = job.id
    return nil
  end
  if not job.minted then return { index, 'key', key, owner } end
  plan.answers[#plan.answers + 1] = Rows.byId(owner) or owner
  return true
end

-- `given`: the ids of the group, where a dependency that nobody knows is refused.
local function consider(job, index, plan, given)
  local id = job.id
  if plan.ids[id] then return { index, 'duplicate', id } end
  plan.ids[id] = true
  local known = Rows.byId(id)
  if known then
    local isSame = Lines.of(known.line).type == job.type and payloadOf(known) == payloadOf(job)
    if not isSame then return { index, 'duplicate', id } end
    plan.answers[#plan.answers + 1] = known
    return nil
  end
  local refusal = keyRefusal(job, index, plan)
  if refusal == true then return nil end
  if refusal then return refusal end
  local deps = job.header.deps
  if given then
    for at = 1, #deps, 2 do
      if not given[deps[at]] and not Graph.knows(deps[at]) then
        return { index, 'unknown', deps[at] }
      end
    end
  end
  if #deps > 0 then plan.linked = true end
  job.index = index
  plan.fresh[#plan.fresh + 1] = job
  plan.answers[#plan.answers + 1] = id
  return nil
end

-- What would become of each job of a group: nothing is changed yet.
local function planOf(group, needsNoRoom)
  local plan = { ids = {}, fresh = {}, answers = {}, keys = {}, linked = false }
  local jobs, refusals, given = {}, {}, nil
  for at = 1, #group.jobs, WIDE do jobs[#jobs + 1] = readJob(group.jobs, at) end
  if group.reject then
    given = {}
    for _, job in ipairs(jobs) do given[job.id] = true end
  end
  for at, job in ipairs(jobs) do
    local refusal = consider(job, at - 1, plan, given)
    if refusal then refusals[#refusals + 1] = refusal end
  end
  if #refusals > 0 then return nil, refusals end
  local path = plan.linked and Loops.find(plan.fresh)
  if path then
    local on, first = {}, 0
    for _, id in ipairs(path) do on[id] = true end
    for at = #jobs, 1, -1 do
      if on[jobs[at].id] then first = at - 1 end
    end
    return nil, { { first, 'cycle', path } }
  end
  if needsNoRoom or S.bounds == 0 then return plan end
  refusals = Room.refuse(plan.fresh, group.behind or {})
  if #refusals > 0 then return nil, refusals end
  return plan
end

local function holds(fence)
  local row = Rows.byId(fence[1])
  return row and row.lease > 0 and row.lease == fence[2] and not row.hold
end

-- Two jobs of one group that share a key share a row: only the first has added it.
local function answersOf(plan, fresh)
  local answers, following = {}, 1
  for at, answer in ipairs(plan.answers) do
    if type(answer) ~= 'string' then
      answers[at] = { false, answer }
    elseif fresh[following] and fresh[following].id == answer then
      answers[at] = { true, fresh[following] }
      following = following + 1
    else
      answers[at] = { false, Rows.byId(answer) }
    end
  end
  return answers
end

local hadOutcomes

-- New jobs by ids that were others': the old outcomes no longer count.
local function adopt(names)
  putAll('HDEL', P .. 'outcome', names)
  putAll('ZREM', P .. 'outcomes', names)
end

local function hasOutcomes()
  if hadOutcomes == nil then hadOutcomes = call('EXISTS', P .. 'outcome') == 1 end
  return hadOutcomes
end

local function insertOne(group, needsNoRoom)
  if group.fence and not holds(group.fence) then return { status = 'stale' } end
  if group.tick and not Timetable.stands(group.tick) then return { status = 'stale' } end
  local plan, refusals = planOf(group, needsNoRoom)
  if not plan then return { status = 'refused', refusals = refusals } end
  if group.tick then Timetable.moveOn(group.tick.name, group.tick.nextAt) end
  local fresh, names = {}, {}
  for at, job in ipairs(plan.fresh) do
    fresh[at] = newRow(job)
    Rows.introduce(fresh[at])
    local deps = job.header.deps
    for place = 1, #deps, 2 do names[#names + 1] = deps[place] end
  end
  -- Edges, lanes and keys name these numbers before the rest is written.
  if #fresh > 0 then saveState(true) end
  if hasOutcomes() then
    local own = {}
    for at, row in ipairs(fresh) do own[at] = row.id end
    adopt(own)
  end
  Rows.prepare(names)
  for _, row in ipairs(fresh) do
    if has(row, LINKED) then Graph.link(row) end
  end
  for _, row in ipairs(fresh) do Board.begin(row) end
  return { status = 'done', answers = answersOf(plan, fresh) }
end

-- Whether nothing is special about a group: no job of it is there, or asks for anything.
-- `seen`: who is there, or has come with this call.
local function isPlainGroup(group, needsNoRoom, seen)
  local m = group.jobs
  if group.fence or group.tick or not (needsNoRoom or S.bounds == 0) then return false end
  for at = 1, #m, WIDE do
    local id = m[at]
    if seen[id] or ask.kinds[m[at + 1]][3] % 2 >= SPECIAL then return false end
    seen[id] = true
  end
  return true
end

-- Whether others may ask for a job by its id before the call is over.
local hasOthers = false

-- The others of a kind that follow, as the rules have put the first in. Answers where it ends.
local function repeatFrom(pattern, m, at, list)
  local kind, rest, first, pack6 = m[at + 1], pattern.rest, S.lastSeq + 1, struct.pack
  local names, saids, write = writing.names, writing.saids, writing.texts
  local nameAt, saidAt, base = #names, #saids, #write
  local seq, keyList, idList, count = S.lastSeq, {}, {}, 0
  local id, length, start = m[at], -1, nil
  while id and m[at + 1] == kind do
    if #id ~= length then
      length = #id
      start = Alike.startOf(pattern, length)
    end
    seq, count = seq + 1, count + 1
    local key, said, text = pack6('>I6', seq), m[at + 2], start .. id .. rest
    keyList[count], idList[count] = key, id
    names[nameAt + 1], names[nameAt + 2], nameAt = id, key, nameAt + 2
    write[base + 1], write[base + 2], base = key, text, base + 2
    if said ~= '' then
      saids[saidAt + 1], saids[saidAt + 2], saidAt = key, said, saidAt + 2
    end
    if hasOthers then keys[id], ids[id] = key, nil end
    at = at + WIDE
    id = m[at]
  end
  S.lastSeq = seq
  answerRun(list, count, keyList[1], write[base - 2 * count + 2])
  Alike.countIn(pattern, first, seq)
  Alike.again(pattern, keyList, idList)
  return at
end

-- The same as insertOne, where the rules have to be asked about the first of each kind alone.
local function insertPlain(group, list)
  local m, at = group.jobs, 1
  while at <= #m do
    local kind = m[at + 1]
    local pattern = alike.known[kind]
    if pattern then
      at = repeatFrom(pattern, m, at, list)
    else
      local row = newRow(readJob(m, at))
      Rows.introduce(row)
      Board.begin(row)
      if hasOthers or kind == m[at + 1 + WIDE] then
        alike.known[kind] = Alike.learn(false, row)
      end
      answer(list, row)
      at = at + WIDE
    end
  end
  if hasOutcomes() then adopt(namesOf(group, {})) end
  return { status = 'done', added = #m / WIDE }
end

-- Takes those of a group in hand that were there. `found`: their keys, from a place on.
local function prepare(group, found, from)
  local m, names = group.jobs, {}
  for at = 1, #m, WIDE do
    local id, key = m[at], found[from + (at - 1) / WIDE]
    names[#names + 1] = id
    if ids[id] == nil and not keys[id] then
      keys[id] = key
      if not key then ids[id] = false end
    end
  end
  Rows.prepare(names)
end

-- Answers what became of each group, and the jobs that were added or there, group by group.
local function insertAll(groups, needsNoRoom)
  local names, seen, results, list, from = {}, {}, {}, newList(), 1
  for _, group in ipairs(groups) do namesOf(group, names) end
  local found = readAll(P .. 'i', names)
  for at = 1, #found do
    if found[at] then seen[names[at]] = true end
  end
  hasOthers = #groups > 1
  for at, group in ipairs(groups) do
    if isPlainGroup(group, needsNoRoom, seen) then
      results[at] = insertPlain(group, list)
    else
      prepare(group, found, from)
      results[at] = insertOne(group, needsNoRoom)
      for _, each in ipairs(results[at].answers or {}) do
        if each[2] then answer(list, each[2]) end
      end
    end
    from = from + #group.jobs / WIDE
  end
  return results, list
end

-- Per group: its status, then its refusals, or which of its jobs were added; then all jobs.
local function answerTo(results, list)
  local said = {}
  for at, result in ipairs(results) do
    local what = result.refusals or {}
    for place, each in ipairs(result.answers or {}) do what[place] = each[1] end
    for place = 1, result.added or 0 do what[place] = true end
    said[at] = { result.status, what }
  end
  return { said, flatOf(list) }
end
