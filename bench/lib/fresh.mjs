// Owns measuring in processes of their own: what ran before in a process (compiled code, a grown
// heap) would change the number. May never run two of them at once.

import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const FLAG = '--measure'

/**
 * What this process has been started to measure, or undefined in the one that was started by
 * hand. A script asks this first.
 *
 * @returns {any}
 */
export function assignment() {
  const [flag, text] = process.argv.slice(2)
  return flag === FLAG && text !== undefined ? JSON.parse(text) : undefined
}

/**
 * Ends this process's part: its figures go to the process that started it.
 *
 * @param {Record<string, number>} figures
 */
export function answer(figures) {
  process.stdout.write(`${JSON.stringify(figures)}\n`)
}

/**
 * Runs a script for one measurement and gives its figures.
 *
 * @param {string} script the script's `import.meta.url`
 * @param {Record<string, string | number>} task
 * @param {readonly string[]} [flags] for Node.js itself
 * @returns {Promise<Record<string, number>>}
 */
export async function measure(script, task, flags = []) {
  const args = [...flags, fileURLToPath(script), FLAG, JSON.stringify(task)]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  let output = ''
  child.stdout.on('data', (/** @type {Buffer} */ chunk) => {
    output += chunk
  })
  /** @type {number | null} */
  const code = await new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', resolve)
  })
  const what = Object.values(task).join(', ')
  if (code !== 0) throw new Error(`The measurement of ${what} ended with code ${code}.`)
  const line = output.trim().split('\n').at(-1) ?? ''
  return JSON.parse(line)
}

/**
 * Measures each task so many times, taking turns: a slow minute of the machine hits them all.
 *
 * @template {Record<string, string | number>} T
 * @param {string} script
 * @param {readonly T[]} tasks
 * @param {number} repeats
 * @param {readonly string[]} [flags]
 * @returns {Promise<Map<T, Record<string, number>[]>>}
 */
export async function takeTurns(script, tasks, repeats, flags = []) {
  /** @type {Map<T, Record<string, number>[]>} */
  const figures = new Map(tasks.map((task) => [task, []]))
  for (let round = 0; round < repeats; round += 1) {
    for (const task of tasks) figures.get(task)?.push(await measure(script, task, flags))
  }
  return figures
}

/**
 * Time, processor time and the largest resident size of what `act` does.
 *
 * @param {() => Promise<void>} act
 */
export async function watched(act) {
  const cpuBefore = process.cpuUsage()
  const startedAt = performance.now()
  await act()
  const ms = performance.now() - startedAt
  const { user, system } = process.cpuUsage(cpuBefore)
  return { ms, cpuMs: (user + system) / 1000, rssMb: process.resourceUsage().maxRSS / 1024 }
}
