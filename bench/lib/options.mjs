// Owns the arguments of the scripts: `--name value`, with the kind of value its default has.
// May never let a name or a value pass that would have no effect.

import { parseArgs } from 'node:util'

/** @typedef {string | number | boolean | readonly number[] | readonly string[]} Value */

/**
 * Reads the arguments of this process. A number must be a positive integer; a list is written
 * with commas; a boolean is given by its name alone.
 *
 * @template {Record<string, Value>} T
 * @param {T} defaults
 * @returns {T}
 */
export function readOptions(defaults) {
  try {
    const { values } = parseArgs({ options: formsOf(defaults), strict: true })
    const given = Object.entries(values).map(([name, text]) => {
      return [name, typeof text === 'string' ? valueFor(name, text, defaults[name]) : text]
    })
    return { ...defaults, ...Object.fromEntries(given) }
  } catch (error) {
    return refuse(error instanceof Error ? error.message : String(error), defaults)
  }
}

/** @param {Record<string, Value>} defaults */
function formsOf(defaults) {
  /** @type {Record<string, { type: 'string' | 'boolean' }>} */
  const forms = {}
  for (const [name, value] of Object.entries(defaults)) {
    forms[name] = { type: typeof value === 'boolean' ? 'boolean' : 'string' }
  }
  return forms
}

/**
 * @param {string} name
 * @param {string} text
 * @param {Value | undefined} like
 * @returns {Value}
 */
function valueFor(name, text, like) {
  if (typeof like === 'string') return text
  if (typeof like === 'number') return integer(name, text)
  const parts = text.split(',').filter((part) => part !== '')
  const isNumbers = Array.isArray(like) && typeof like[0] === 'number'
  return isNumbers ? parts.map((part) => integer(name, part)) : parts
}

/**
 * @param {string} name
 * @param {string} text
 */
function integer(name, text) {
  const value = Number(text)
  if (Number.isSafeInteger(value) && value > 0) return value
  throw new Error(`--${name} must be a positive integer, got '${text}'.`)
}

/**
 * @param {string} message
 * @param {Record<string, Value>} defaults
 * @returns {never}
 */
function refuse(message, defaults) {
  const lines = Object.entries(defaults).map(([name, value]) => {
    return `  --${name}${typeof value === 'boolean' ? '' : ` ${value}`}`
  })
  process.stderr.write(`${message}\nOptions and their defaults:\n${lines.join('\n')}\n`)
  process.exit(2)
}
