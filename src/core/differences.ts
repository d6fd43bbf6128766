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

/** Of rates: they follow from what people say. */
const DERIVED = ['intervalUs', 'toleranceUs']

/**
 * Where a worker was given something else than what processes have stored last, one text each.
 * What operators have set is left out: it holds for all. O(what was said).
 */
export function differences(said: string, stored: StoredSettings): readonly string[] {
  const given = saidOf(said)
  const list: string[] = []
  const compare = (name: string, mine: unknown, holds: unknown): void => {
    if (mine === undefined || mine === holds) return
    if (!isObject(mine) || !isObject(holds)) {
      const other = holds === undefined ? 'nothing' : shown(holds)
      list.push(`${name} is ${shown(mine)} there, and ${other} holds`)
      return
    }
    for (const key of new Set([...Object.keys(mine), ...Object.keys(holds)])) {
      if (DERIVED.includes(key)) continue
      compare(`${name}.${key}`, mine[key] ?? null, holds[key] ?? null)
    }
  }
  /** What was not said is no difference. */
  const compareSaid = (name: string, mine: unknown, holds: unknown): void => {
    if (!isObject(mine) || !isObject(holds)) compare(name, mine, holds)
    else {
      for (const [key, value] of Object.entries(mine)) {
        if (key === 'terms') compareSaid(`${name}.${key}`, value, holds[key])
        else compare(`${name}.${key}`, value, holds[key] ?? null)
      }
    }
  }
  for (const [pool, terms] of Object.entries(given.pools ?? {})) {
    const start = Object.hasOwn(stored.pools, pool) ? stored.pools[pool]?.start : undefined
    for (const [key, value] of Object.entries(terms ?? {})) {
      compare(`pools.${pool}.${key}`, value, start?.[key as keyof typeof start])
    }
  }
  for (const [type, setting] of Object.entries(given.types ?? {})) {
    const holds = Object.hasOwn(stored.types, type) ? stored.types[type] : undefined
    compareSaid(`types.${type}`, setting, holds)
  }
  compare('ageing', given.ageing, stored.ageing)
  compare('retryBudget', given.budget, stored.budget)
  return list
}

/** What follows from the rest is not shown either. */
function shown(value: unknown): string {
  if (!isObject(value)) return show(value)
  return show(Object.fromEntries(Object.entries(value).filter(([key]) => !DERIVED.includes(key))))
}

function saidOf(text: string): Said {
  try {
    const said: unknown = JSON.parse(text)
    return typeof said === 'object' && said !== null ? said : {}
  } catch {
    return {}
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
}
