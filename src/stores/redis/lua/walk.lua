-- Owns walks over jobs in order of seq, block by block.
-- May never look at more jobs than it was told.

local Walk = {}

-- Calls `each` for the jobs after a number until it answers false, or `most` have been looked at.
-- Answers the last number looked at, or nil at the end. `line`: those of one line alone.
function Walk.from(after, most, line, each)
  local key = P .. 'b' .. (line and ':' .. line or '')
  local looked, first = 0, after + 1
  while looked < most do
    local block = call('ZRANGEBYSCORE', key, floor(first / 128), '+inf', 'LIMIT', 0, 1)[1]
    if not block then return nil end
    local start, keys = max(first, block * 128), {}
    local last = block * 128 + 127
    for seq = start, min(last, S.lastSeq) do keys[#keys + 1] = Rows.key(seq) end
    Rows.load(keys)
    for _, name in ipairs(keys) do
      local row = rows[name]
      if row and (not line or row.line == line) then
        looked = looked + 1
        if not each(row) then return row.seq end
      end
    end
    looked = looked + 1
    first = last + 1
  end
  return first - 1
end
