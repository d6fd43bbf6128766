-- Owns the call `insert`. May never let a group see another's half.

local results, list = insertAll(ask.groups, false)
Pools.takeRoom()
return finish(function() return answerTo(results, list) end)
