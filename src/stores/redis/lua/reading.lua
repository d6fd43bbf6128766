-- Owns what several questions ask for: counts by line, slots in use, who is alive.
-- May never change anything.

local Read = {}

-- Flat: line, then how many jobs are in each of the seven states.
function Read.tallies(pool)
  local lines, flat, fields = Lines.all(pool), {}, {}
  for _, line in ipairs(lines) do
    for number = 1, #STATUS do fields[#fields + 1] = line .. ':' .. number end
  end
  local values = readAll(P .. 'tally', fields)
  for at, line in ipairs(lines) do
    flat[#flat + 1] = line
    for number = 1, #STATUS do
      flat[#flat + 1] = tonumber(values[(at - 1) * #STATUS + number]) or 0
    end
  end
  return flat
end

-- Leases and holds by line.
function Read.slots()
  local flat = {}
  for _, place in ipairs(call('SMEMBERS', P .. 'held')) do
    local line = tonumber(string.sub(place, 3))
    Lines.of(line)
    flat[#flat + 1] = line
    flat[#flat + 1] = call('SCARD', P .. place)
  end
  return flat
end

-- Leases and holds of one worker by line.
function Read.shares(holder)
  local flat = {}
  for _, line in ipairs(call('SMEMBERS', P .. 'hl:' .. holder)) do
    Lines.of(tonumber(line))
    flat[#flat + 1] = tonumber(line)
    flat[#flat + 1] = call('SCARD', P .. 'h:' .. holder .. '\0' .. line)
  end
  return flat
end

-- Each as { holder, what it said, when it counts as gone, its slots by line }.
function Read.workers()
  local found = call('ZRANGEBYSCORE', P .. 'workers', string.format('(%.0f', now), '+inf',
    'WITHSCORES')
  local workers = {}
  for at = 1, #found, 2 do
    local said = call('HGET', P .. 'worker', found[at])
    workers[#workers + 1] = { found[at], said, tonumber(found[at + 1]), Read.shares(found[at]) }
  end
  return workers
end

-- Members of a sorted set before (score, key): counted up to `most`.
function Read.before(place, score, key, most)
  local less = call('ZCOUNT', P .. place, '-inf', string.format('(%.0f', score))
  if less >= most then return most end
  local rank = call('ZRANK', P .. place, key)
  if rank then return min(rank, most) end
  local same = call('ZRANGEBYSCORE', P .. place, string.format('%.0f', score),
    string.format('%.0f', score), 'LIMIT', 0, most)
  for _, member in ipairs(same) do
    if isSmaller(member, key) then less = less + 1 end
  end
  return min(less, most)
end
