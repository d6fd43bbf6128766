// Owns how text takes room on a terminal: columns, colours, cutting and padding.
// May never let a control character through that came from outside.

import { stripVTControlCharacters } from 'node:util'

/** What the screen, or the file, that is written to can show. */
export interface Look {
  /** Infinity where nobody counts columns. */
  readonly columns: number
  readonly color: boolean
}

export type Color = 'red' | 'green' | 'yellow' | 'blue' | 'grey' | 'bold'

const CODES: Readonly<Record<Color, readonly [on: number, off: number]>> = {
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  blue: [36, 39],
  grey: [90, 39],
  bold: [1, 22],
}

export function paint(look: Look, color: Color, text: string): string {
  const [on, off] = CODES[color]
  return look.color && text !== '' ? `\x1b[${on}m${text}\x1b[${off}m` : text
}

/** One line of plain text: no escape sequences, no control characters. */
export function oneLine(text: string): string {
  return stripVTControlCharacters(text).replace(/\p{Cc}+/gu, ' ')
}

/** The same for a text of several lines. */
export function plainLines(text: string): string[] {
  return text.split(/\r?\n/).map((line) => oneLine(line.replaceAll('\t', '  ')).trimEnd())
}

/** The columns that a text takes; escape sequences take none. */
export function widthOf(text: string): number {
  let width = 0
  for (const letter of stripVTControlCharacters(text)) width += widthOfLetter(letter)
  return width
}

function widthOfLetter(letter: string): number {
  const code = letter.codePointAt(0) as number
  if (code < 0x300) return 1
  if (/^[\p{Mark}\p{Cf}]$/u.test(letter)) return 0
  return WIDE.some(([from, to]) => code >= from && code <= to) ? 2 : 1
}

/** Where East Asian letters and emoji are. */
const WIDE: readonly (readonly [number, number])[] = [
  [0x1100, 0x115f],
  [0x2e80, 0xa4cf],
  [0xac00, 0xd7a3],
  [0xf900, 0xfaff],
  [0xfe30, 0xfe6f],
  [0xff00, 0xff60],
  [0xffe0, 0xffe6],
  [0x1f300, 0x1faff],
  [0x20000, 0x3fffd],
]

/** A plain text cut to at most so many columns; the cut is marked. */
export function cut(text: string, columns: number): string {
  if (widthOf(text) <= columns) return text
  let kept = ''
  let width = 1
  for (const letter of text) {
    width += widthOfLetter(letter)
    if (width > columns) break
    kept += letter
  }
  return columns < 1 ? '' : `${kept.trimEnd()}…`
}

export function padEnd(text: string, columns: number): string {
  return text + ' '.repeat(Math.max(0, columns - widthOf(text)))
}

export function padStart(text: string, columns: number): string {
  return ' '.repeat(Math.max(0, columns - widthOf(text))) + text
}
