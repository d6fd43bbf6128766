// The world outside: a ledger of charges. Each charge is a file whose name is the key of the
// operation, so that the same one cannot be made twice: whoever comes second finds it made.

import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** @param {string} folder */
export function openLedger(folder) {
  mkdirSync(folder, { recursive: true })
  return {
    /**
     * True if it was made now, false if it had been made before.
     *
     * @param {string} key
     * @param {{ order: string, by: string }} charge
     */
    charge(key, charge) {
      try {
        writeFileSync(join(folder, encodeURIComponent(key)), JSON.stringify(charge), { flag: 'wx' })
        return true
      } catch (error) {
        if (/** @type {NodeJS.ErrnoException} */ (error).code === 'EEXIST') return false
        throw error
      }
    },

    /** @returns {{ order: string, by: string }[]} */
    charges: () =>
      readdirSync(folder).map((name) => JSON.parse(readFileSync(join(folder, name), 'utf8'))),
  }
}
