// Owns the connections that the comparison on one Redis server makes for itself.
// May never be counted as work of a contender that does not use them.

import { load } from './packages.mjs'

/**
 * A connection that is there: commands as methods.
 *
 * @param {string} url
 * @returns {Promise<any>}
 */
export async function connectTo(url) {
  const { Redis } = await load('ioredis')
  const client = new Redis(url, { lazyConnect: true, maxRetriesPerRequest: 0 })
  client.on('error', () => {})
  await client.connect()
  return client
}
