// Owns how the tests are run. Never aliases a module: tests import the sources by relative
// path, so that a fresh clone is tested without a build.
import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    pool: 'forks',
    globals: false,
    testTimeout: 20_000,
    hookTimeout: 20_000,
    // Where many tests fail there is one cause, and each of them may have waited for its time-out.
    bail: process.env.CI ? 20 : 0,
  },
})
