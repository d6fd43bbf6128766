// Owns what the scripts print: the machine, tables, and the verdict at the end.
// May never change a number beyond rounding it for the eye.

import { cpus, loadavg } from 'node:os'

/** Says on what the numbers were taken; a load far above 0 before the start means noise. */
export function printMachine() {
  const [cpu] = cpus()
  const load = loadavg()
    .map((value) => value.toFixed(2))
    .join(' ')
  const build = process.env.AX_DIST === undefined ? '' : `, build ${process.env.AX_DIST}`
  print(
    `Node ${process.version}, ${cpus().length} x ${cpu?.model ?? 'unknown'}, load ${load}${build}`,
  )
}

/**
 * Columns as wide as their widest cell, numbers to the right.
 *
 * @param {readonly string[]} head
 * @param {readonly (readonly string[])[]} rows
 */
export function printTable(head, rows) {
  const all = [head, ...rows]
  const widths = head.map((_, at) => Math.max(...all.map((row) => (row[at] ?? '').length)))
  const isText = head.map((_, at) => rows.some((row) => /^[a-z]/i.test(row[at] ?? '')))
  for (const row of all) {
    const cells = row.map((cell, at) => {
      const width = widths[at] ?? 0
      return isText[at] ? cell.padEnd(width) : cell.padStart(width)
    })
    print(cells.join('  ').trimEnd())
  }
}

/** @param {string} line */
export function print(line) {
  process.stdout.write(`${line}\n`)
}

/**
 * A number with so many decimals, and commas between thousands.
 *
 * @param {number} value
 * @param {number} [decimals]
 */
export function show(value, decimals = 0) {
  if (!Number.isFinite(value)) return '-'
  const format = { minimumFractionDigits: decimals, maximumFractionDigits: decimals }
  return value.toLocaleString('en', format)
}

/**
 * A figure beside its target. Says so, and no more: targets are judged on a quiet machine.
 *
 * @param {string} what
 * @param {string} figure
 * @param {string} target
 * @param {boolean} met
 */
export function printTarget(what, figure, target, met) {
  print(`${met ? 'met   ' : 'missed'}  ${what}: ${figure} (target ${target})`)
}
