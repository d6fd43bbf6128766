// Owns what becomes of tests whose server is not installed here: they are skipped, by a name that
// says what to do. May never let such a test pass.

import { describe } from 'vitest'
import { REMEDY, redisServer } from '../../scripts/redis-server.mjs'

/** A suite whose tests start Redis servers. Under CI, `npm test` counts a skipped one as failed. */
export function describeOnRedis(name: string, tests: () => void): void {
  if (redisServer() === undefined) describe.skip(`${name} (needs redis-server: ${REMEDY})`, tests)
  else describe(name, tests)
}
