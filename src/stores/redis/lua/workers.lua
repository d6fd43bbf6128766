-- Owns the call `workers`. May never change anything.

local workers = Read.workers()
return reply(workers)
