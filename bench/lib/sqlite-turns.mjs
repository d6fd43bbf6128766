// Owns what the comparison on one SQLite file tells the shared one: its contenders and its floor.
// May never judge a figure itself.

import { Comparison } from './queue-turns.mjs'
import { absence, CONTENDERS } from './sqlite-contenders.mjs'

export const comparison = new Comparison({
  contenders: CONTENDERS,
  floor: 'rows',
  absence,
  labelOf: ({ contender, sync }) => {
    // better-queue's store knows one kind of durability, and that is none.
    const durability = contender === 'better-queue' ? 'OFF' : String(sync).toUpperCase()
    return `${contender} ${durability}`
  },
})
