// Owns what pools and ageing have to agree about: with what is stored, and with each other.
// May never keep an operator from pausing a pool because something else is wrong.

import { isAxError } from '../core/errors.ts'
import { checkOverflow, checkUrgency } from '../core/pools.ts'
import {
  changedTerms,
  type PoolTerms,
  type PoolTermsChange,
  type StoredSettings,
} from '../core/settings.ts'
import type { Hub } from './hub.ts'

/**
 * An operator's change of a pool, judged by what will hold with it. Refuses with INVALID_OPTION an
 * urgency that ageing undoes, and callers that wait for room in a queue without a bound.
 */
export async function configurePool(hub: Hub, pool: string, terms: PoolTermsChange): Promise<void> {
  const isAboutUrgency = terms.elastic !== undefined || terms.preempt !== undefined
  const isAboutRoom = terms.overflow !== undefined || terms.maxQueue !== undefined
  if (isAboutUrgency || isAboutRoom) {
    const stored = await hub.store.settings()
    const { start, operator } = saidOf(stored, pool)
    const after = { ...start, ...changedTerms(operator, terms) }
    if (isAboutUrgency) checkUrgency(pool, after, stored.ageing)
    if (isAboutRoom) checkOverflow(pool, after)
  }
  await hub.store.configure({ pool, by: 'operator', terms })
}

/**
 * Compares what this process brings along with what is stored. Its own pools against the ageing
 * that will hold: INVALID_OPTION. Its ageing against the pools of others: they are warned of, as
 * no one here can change them, and urgent jobs above the ceiling go on as before.
 */
export async function checkStart(hub: Hub): Promise<void> {
  const { pools: own, ageing, logger } = hub.settings
  if (ageing === undefined && own.size === 0) return
  const stored = await hub.store.settings()
  const holds = ageing === undefined ? stored.ageing : ageing
  for (const [name, terms] of own) {
    const { start, operator } = saidOf(stored, name)
    checkUrgency(name, { ...start, ...terms, ...operator }, holds)
  }
  if (ageing === undefined) return
  for (const name of Object.keys(stored.pools)) {
    const { start, operator } = saidOf(stored, name)
    try {
      if (!own.has(name)) checkUrgency(name, { ...start, ...operator }, ageing)
    } catch (error) {
      if (!isAxError(error)) throw error
      logger.warn({ pool: name }, error.message)
    }
  }
}

const NOTHING: { readonly start: PoolTerms; readonly operator: PoolTerms } = {
  start: {},
  operator: {},
}

function saidOf({ pools }: StoredSettings, name: string) {
  return (Object.hasOwn(pools, name) ? pools[name] : undefined) ?? NOTHING
}
