-- Owns putting groups of jobs in: what would become of each, and then all of them or none.
-- May never change anything before the whole group has been considered.

local WIDE = 8
local NO_PAYLOAD = 2

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
    put('HSET', P .. 'termsby', text, number)
    put('HSET', P .. 'terms', number, text)
  end
  termsOf[index] = number
  return number
end

-- A job of the group as it came; what is special about it stands in the header of what was said.
local function readJob(m, at)
  local job = {
    id = m[at], names = m[at + 1], terms = m[at + 2], flags = m[at + 3], priority = m[at + 4],
    delayMs = m[at + 5], said = m[at + 6], minted = m[at + 7],
  }
  local line = ask.lines[job.names]
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
  refusals = Room.refuse(plan.fresh)
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
  Graph.adopt(fresh)
  Rows.prepare(names)
  for _, row in ipairs(fresh) do
    if has(row, LINKED) then Graph.link(row) end
  end
  for _, row in ipairs(fresh) do Board.begin(row) end
  return { status = 'done', answers = answersOf(plan, fresh) }
end

-- Whether nothing is special about a group: no job of it is there, or asks for anything.
local function isPlainGroup(group, needsNoRoom)
  local m, seen = group.jobs, {}
  if group.fence or group.tick or not (needsNoRoom or S.bounds == 0) then return false end
  for at = 1, #m, WIDE do
    local id = m[at]
    if m[at + 3] % 2 >= SPECIAL or seen[id] or ids[id] ~= false or keys[id] then return false end
    seen[id] = true
  end
  return true
end

local function isLikeLast(m, at)
  for offset = 1, 5 do
    if m[at + offset] ~= m[at + offset - WIDE] then return false end
  end
  return true
end

-- The same as insertOne, where the rules have to be asked about the first of each kind alone.
local function insertPlain(group)
  local m, fresh, pattern = group.jobs, {}, nil
  for at = 1, #m, WIDE do
    local id, row = m[at], nil
    if pattern and #Alike.patterns > 0 and isLikeLast(m, at) then
      S.lastSeq = S.lastSeq + 1
      local key, said = Rows.key(S.lastSeq), m[at + 6]
      local text = Alike.again(pattern, key, id, 0)
      append(Writing.names, id, key)
      if said ~= '' then append(Writing.saids, key, said) end
      Alike.countIn(pattern, S.lastSeq, 1)
      keys[id], ids[id] = key, nil
      row = Alike.light(key, text, pattern, said)
      row.id, row.isNew = id, true
    else
      row = newRow(readJob(m, at))
      Rows.introduce(row)
      Board.begin(row)
      pattern = Alike.learn(false, row)
    end
    fresh[#fresh + 1] = row
  end
  Graph.adopt(fresh)
  return { status = 'done', added = fresh }
end

local function insertAll(groups, needsNoRoom)
  local names, results = {}, {}
  for _, group in ipairs(groups) do
    for at = 1, #group.jobs, WIDE do names[#names + 1] = group.jobs[at] end
  end
  Rows.prepare(names)
  for at, group in ipairs(groups) do
    if isPlainGroup(group, needsNoRoom) then
      results[at] = insertPlain(group)
    else
      results[at] = insertOne(group, needsNoRoom)
    end
  end
  return results
end

-- Per group: its status, then its refusals, or which of its jobs were added; then all jobs.
local function answerTo(results)
  local said, list = {}, {}
  for at, result in ipairs(results) do
    local what = result.refusals or {}
    for place, answer in ipairs(result.answers or {}) do
      what[place] = answer[1]
      list[#list + 1] = answer[2]
    end
    for place, row in ipairs(result.added or {}) do
      what[place] = true
      list[#list + 1] = row
    end
    said[at] = { result.status, what }
  end
  return { said, jobsOf(list) }
end
