-- Owns the call `beat`: who is alive. May never touch a job.

if ask.ttlMs == 0 then
  put('HDEL', P .. 'worker', ask.holder)
  put('ZREM', P .. 'workers', ask.holder)
else
  put('HSET', P .. 'worker', ask.holder, ask.said)
  put('ZADD', P .. 'workers', min(now + ask.ttlMs, MOST), ask.holder)
  local gone = call('ZRANGEBYSCORE', P .. 'workers', '-inf', now, 'LIMIT', 0, LIMIT.chunk)
  putAll('HDEL', P .. 'worker', gone)
  putAll('ZREM', P .. 'workers', gone)
end
saveState(true)
return pack({ {}, false, false, now, true })
