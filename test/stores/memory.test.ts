// Owns the proof that the memory store keeps the promises of the port.

import { describe, expect, it } from 'vitest'
import { memoryStore } from '../../src/store/memory.ts'
import { conformance } from '../../src/testing/conformance.ts'

conformance('memory', async (clock) => memoryStore({ now: () => clock.now() }), {
  describe,
  it,
  expect,
})
