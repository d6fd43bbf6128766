// Owns the comparison of what a worker was given with what holds for all.
// May never fail on what it cannot read: then there is nothing to compare.

import { show } from './options.ts'
import type { StoredSettings } from './settings.ts'

/** What a worker says of itself, as JSON: only what it was given explicitly. */
interface Said {
  readonly pools?: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  readonly types?: Readonly<Record<string, unknown>>
  readonly ageing?: unknown
  readonly budget?: unknown
}

/**
 * Where a worker was given something else than what processes have stored last, one text each.
 * What operators have set is left out: it holds for all. O(what was said).
 */
export function differences(said: string, stored: StoredSettings): readonly string[] {
  const given = saidOf(said)
  const list: string[] = []
  const compare = (name: string, mine: unknown, holds: unknown) => {
    if (mine === undefined || isSame(mine, holds)) return
    list.push(`${name} is ${show(mine)} there, and ${show(holds)} holds`)
  }
  for (const [pool, terms] of Object.entries(given.pools ?? {})) {
    const start = Object.hasOwn(stored.pools, pool) ? stored.pools[pool]?.start : undefined
    for (const [key, value] of Object.entries(terms ?? {})) {
      compare(`pools.${pool}.${key}`, value, start?.[key as keyof typeof start])
    }
  }
  for (const [type, setting] of Object.entries(given.types ?? {})) {
    const holds = Object.hasOwn(stored.types, type) ? stored.types[type] : undefined
    compare(`types.${type}`, setting, holds)
  }
  compare('ageing', given.ageing, stored.ageing)
  compare('retryBudget', given.budget, stored.budget)
  return list
}

function saidOf(text: string): Said {
  try {
    const said: unknown = JSON.parse(text)
    return typeof said === 'object' && said !== null ? said : {}
  } catch {
    return {}
  }
}

/** Equal as JSON, in whatever order the keys come. */
function isSame(a: unknown, b: unknown): boolean {
  if (a === b) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  const keys = Object.keys(a)
  if (keys.length !== Object.keys(b).length) return false
  return keys.every((key) => {
    return isSame((a as Record<string, unknown>)[key], (b as Record<string, unknown>)[key])
  })
}
