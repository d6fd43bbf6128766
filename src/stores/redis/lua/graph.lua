-- Owns the edges between jobs: who names whom, what became of it, remembered outcomes.
-- May never change a status: it answers what follows, and the board moves.

-- The edges of a job are one text, a byte for each; those that lead to an id are a sorted set,
-- in which the state comes before the seq: so each state is a range, in order of seq.
local STATES = { o = 0, s = 1, d = 2 }
local BAND = 2 ^ 50

local function edgeMember(key, place, on)
  return key .. struct.pack('>I3B', place, on)
end

local function edgeScore(state, seq)
  return STATES[state] * BAND + seq
end

local function edgesTo(id, state, after, limit)
  local from = string.format('(%.0f', edgeScore(state, after))
  local to = string.format('(%.0f', edgeScore(state, BAND))
  local found
  if limit == NEVER then
    found = call('ZRANGEBYSCORE', P .. 'd:' .. id, from, to)
  else
    found = call('ZRANGEBYSCORE', P .. 'd:' .. id, from, to, 'LIMIT', 0, limit)
  end
  for at, member in ipairs(found) do
    local seq, place, on = struct.unpack('>I6I3B', member)
    local key = string.sub(member, 1, 6)
    found[at] = { key = key, member = member, seq = seq, place = place, on = on }
  end
  return found
end

local function setEdge(id, edge, state)
  put('SETRANGE', P .. 'e:' .. edge.key, edge.place, state)
  put('ZADD', P .. 'd:' .. id, 'XX', edgeScore(state, edge.seq), edge.member)
end

local remembers

local function hasOutcomes()
  if remembers == nil then remembers = call('EXISTS', P .. 'outcome') == 1 end
  return remembers
end

-- How a job that has been forgotten ended, as long as that is remembered.
function Graph.outcomeOf(id)
  if not hasOutcomes() then return nil end
  local text = call('HGET', P .. 'outcome', id)
  if not text then return nil end
  local number, till = string.match(text, '^(%d):(%d+)$')
  return tonumber(till) > now and STATUS[tonumber(number)] or nil
end

function Graph.knows(id)
  return Rows.byId(id) ~= nil or Graph.outcomeOf(id) ~= nil
end

-- Whether anybody has still to be told of an end of this job.
function Graph.isWaitedFor(id)
  if S.linked == 0 then return false end
  local most = string.format('(%.0f', BAND)
  return #call('ZRANGEBYSCORE', P .. 'd:' .. id, '-inf', most, 'LIMIT', 0, 1) > 0
end

function Graph.openEdges(id, after, limit)
  local asked = limit == NEVER and NEVER or limit + 1
  local edges = edgesTo(id, 'o', after, asked)
  local isMore = #edges > limit
  if isMore then edges[#edges] = nil end
  local keys = {}
  for at, edge in ipairs(edges) do keys[at] = edge.key end
  Rows.load(keys)
  return edges, isMore
end

local function satisfies(on, status)
  return on == 1 or status == 'success'
end

local function look(id, on)
  local row = Rows.byId(id)
  local status = row and row.status or Graph.outcomeOf(id)
  if not status or not ENDED[status] then return 'o' end
  return satisfies(on, status) and 's' or 'd'
end

local function quorumOf(mode, count)
  if count == 0 then return 0 end
  if mode == 'all' then return count end
  return mode == 'any' and 1 or mode
end

-- Looks at every dependency that is not satisfied again, and counts anew. Changes nothing.
local function surveyOf(row, states)
  local header = Rows.header(row)
  local deps, found = header.deps, {}
  local total = #deps / 2
  local needs, open, dead, doomedBy = quorumOf(header.depMode, total), total, nil, nil
  local names = {}
  for at = 1, total do names[at] = deps[2 * at - 1] end
  Rows.prepare(names)
  for at = 1, total do
    local state = states and string.sub(states, at, at) or 'o'
    if state ~= 's' then state = look(names[at], deps[2 * at]) end
    found[at] = state
    if state ~= 'o' then
      if state == 'd' then dead = dead or names[at] end
      if state == 's' then needs = max(0, needs - 1) end
      open = open - 1
      if needs > 0 and open < needs then doomedBy = doomedBy or names[at] end
    end
  end
  return {
    states = found, before = states, needs = needs, open = open, dead = dead, doomedBy = doomedBy,
  }
end

function Graph.statesOf(row)
  return call('GET', P .. 'e:' .. row.key)
end

function Graph.survey(row)
  if not has(row, LINKED) then return { states = {}, needs = 0, open = 0 } end
  return surveyOf(row, Graph.statesOf(row))
end

local function culpritOf(id)
  local row = Rows.byId(id)
  return row and row.cause or id
end

local function countOf(row, survey)
  row.needs, row.open = survey.needs, survey.open
  if isDoomed(row) and survey.doomedBy then row.cause = culpritOf(survey.doomedBy) end
  touch(row)
end

-- Draws the edges of a new job. All jobs of its group have been introduced before.
function Graph.link(row)
  local deps = Rows.header(row).deps
  local survey = surveyOf(row, nil)
  S.linked = S.linked + 1
  for at, state in ipairs(survey.states) do
    local id, on = deps[2 * at - 1], deps[2 * at]
    local member = edgeMember(row.key, at - 1, on)
    put('ZADD', P .. 'd:' .. id, edgeScore(state, row.seq), member)
    put('HINCRBY', P .. 'named', id, 1)
  end
  put('SET', P .. 'e:' .. row.key, table.concat(survey.states))
  countOf(row, survey)
end

-- Writes a survey down; where the job is doomed, with the culprit.
function Graph.commit(row, survey)
  if has(row, LINKED) then
    local deps = Rows.header(row).deps
    for at, state in ipairs(survey.states) do
      if state ~= string.sub(survey.before, at, at) then
        local on = deps[2 * at]
        local member = edgeMember(row.key, at - 1, on)
        local edge = { key = row.key, member = member, seq = row.seq, place = at - 1, on = on }
        setEdge(deps[2 * at - 1], edge, state)
      end
    end
  end
  countOf(row, survey)
end

-- Tells one dependent of an end. Answers the job and what follows for it, if anything does.
function Graph.tell(edge, ended)
  local row = Rows.byKey(edge.key)
  if not row then return nil end
  local wasDoomed, isMet = isDoomed(row), satisfies(edge.on, ended.status)
  setEdge(ended.id, edge, isMet and 's' or 'd')
  local needed = row.needs
  if isMet then row.needs = max(0, row.needs - 1) end
  row.open = row.open - 1
  touch(row)
  if row.status ~= 'waiting' then return nil end
  if needed > 0 and row.needs == 0 then return row, 'released' end
  if wasDoomed or not isDoomed(row) then return nil end
  row.cause = culpritOf(ended.id)
  return row, 'doomed'
end

-- A revived job can deliver again: those that wait for it, and still can, count on it anew.
function Graph.reopen(revived)
  if S.linked == 0 then return end
  local edges, keys = edgesTo(revived.id, 'd', 0, NEVER), {}
  for at, edge in ipairs(edges) do keys[at] = edge.key end
  Rows.load(keys)
  for _, edge in ipairs(edges) do
    local row = Rows.byKey(edge.key)
    if row and row.status == 'waiting' and not isDoomed(row) then
      setEdge(revived.id, edge, 'o')
      row.open = row.open + 1
      touch(row)
    end
  end
end

-- Whether a job that is alive, failed or cancelled names this one.
function Graph.isNamed(id)
  return S.linked > 0 and call('HEXISTS', P .. 'named', id) == 1
end

local NOBODY = {}

-- A job that has succeeded no longer needs those it named. Answers who is named by nobody.
function Graph.unname(row)
  if not has(row, LINKED) then return NOBODY end
  local deps, names, free = Rows.header(row).deps, {}, {}
  for at = 1, #deps, 2 do
    names[#names + 1] = deps[at]
    count(P .. 'named', deps[at], -1)
  end
  Rows.prepare(names)
  for _, id in ipairs(names) do
    local named = Rows.byId(id)
    if named and named.parked and not Graph.isNamed(id) then free[#free + 1] = named end
  end
  return free
end

local function removeEdges(row)
  if not has(row, LINKED) then return end
  local deps = Rows.header(row).deps
  S.linked = S.linked - 1
  for at = 1, #deps, 2 do
    put('ZREM', P .. 'd:' .. deps[at], edgeMember(row.key, (at - 1) / 2, deps[at + 1]))
  end
  put('DEL', P .. 'e:' .. row.key)
end

function Graph.remember(id, status, keepMs)
  local till = string.format('%.0f', min(now + keepMs, MOST))
  put('HSET', P .. 'outcome', id, NUMBER[status] .. ':' .. till)
  put('ZADD', P .. 'outcomes', till, id)
  remembers = true
end

-- Cuts every edge of a forgotten job and remembers its outcome. Same answer as `unname`.
function Graph.forget(row, keepMs)
  local free = row.status == 'success' and NOBODY or Graph.unname(row)
  removeEdges(row)
  if S.linked > 0 then put('UNLINK', P .. 'd:' .. row.id) end
  if keepMs > 0 then Graph.remember(row.id, row.status, keepMs) end
  return free
end

-- Cuts the edges of a job that is taken out; those to it stay, and wait for its id.
function Graph.withdraw(row)
  local free = Graph.unname(row)
  removeEdges(row)
  return free
end
