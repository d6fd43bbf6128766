-- Owns the call `insert`. May never let a group see another's half.

local results = insertAll(ask.groups, false)
Pools.takeRoom()
return finish(function() return answerTo(results) end)
