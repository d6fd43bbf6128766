-- Owns the call `settings`. May never change anything.

return reply({
  call('HGETALL', P .. 'pool'), call('HGETALL', P .. 'type'), call('HGETALL', P .. 'schedule'),
  S.ageing, S.budget,
})
