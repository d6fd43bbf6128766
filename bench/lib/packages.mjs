// Owns what is known of the packages that take part: whether they are there, and which version.
// May never install one.

import { existsSync, readFileSync } from 'node:fs'

/**
 * A module whose types are not known where it need not be there.
 *
 * @param {string} name
 * @returns {Promise<any>}
 */
export async function load(name) {
  return await import(name)
}

/**
 * Why one of these packages cannot be used here; undefined if all can.
 *
 * @param {readonly string[]} needs
 */
export async function lack(needs) {
  for (const needed of needs) {
    if (version(needed) === undefined) return `${needed} is not installed`
    const failure = await load(needed).then(
      () => undefined,
      (error) => String(error).split('\n')[0],
    )
    if (failure !== undefined) return `${needed} cannot be loaded: ${failure}`
  }
  return undefined
}

/**
 * Name and version of every package that is compared, once each, for the head of a report.
 *
 * @param {Record<string, { needs: readonly string[] }>} contenders
 */
export function versionsOf(contenders) {
  const names = new Set(Object.values(contenders).flatMap(({ needs }) => needs))
  return [...names].flatMap((name) => {
    const found = version(name)
    return found === undefined ? [] : [`${name} ${found}`]
  })
}

/** @param {string} name */
function version(name) {
  const file = new URL(`../node_modules/${name}/package.json`, import.meta.url)
  return existsSync(file) ? String(JSON.parse(readFileSync(file, 'utf8')).version) : undefined
}
