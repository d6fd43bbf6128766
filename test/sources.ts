// Owns how tests look at the sources as text: reading a tree of files, taking out comments,
// finding imports. May never judge what it finds: that is for the tests.

import { readdirSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Texts of files by their path inside `src`, with `/` between folders. */
export type Sources = ReadonlyMap<string, string>

/** The folder of this package. */
export const root = fileURLToPath(new URL('..', import.meta.url))

/** Every file under `src`, or nothing when there is no such folder yet. */
export function readSources(): Sources {
  const src = join(root, 'src')
  const paths = readdirSync(src, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.[cm]?[jt]sx?$/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name))
    .sort()
  return new Map(
    paths.map((path) => [
      path.slice(src.length + 1).replaceAll('\\', '/'),
      readFileSync(path, 'utf8'),
    ]),
  )
}

/**
 * What a file imports, in order: a path inside `src` for a relative import (`core/errors.ts`),
 * a path that starts with `../` when it leaves `src`, and else the specifier as it is written.
 */
export function importsOf(path: string, text: string): string[] {
  return [...withoutComments(text).matchAll(IMPORT)].map((found) => {
    const specifier = found[2]!
    return specifier.startsWith('.')
      ? posix.normalize(posix.join(posix.dirname(path), specifier))
      : specifier
  })
}

/** `import ... from 'x'`, `export ... from 'x'`, `import 'x'`, `import('x')`, `require('x')`. */
const IMPORT = /(?:(?<!['"`])\bfrom|\bimport\s*\(|\bimport|\brequire\s*\()\s*(['"`])([^'"`\n]+)\1/g

/** The text with each comment replaced by one space, so that words in prose do not count. */
export function withoutComments(text: string): string {
  return text.replace(TOKEN, (token) => (isComment(token) ? ' ' : token))
}

function isComment(token: string): boolean {
  return token.startsWith('//') || token.startsWith('/*')
}

/**
 * Strings and regular expressions are matched beside comments so that a `//` inside one of them
 * opens nothing. A slash starts a regular expression only where a value can start.
 */
const TOKEN = new RegExp(
  [
    String.raw`\/\*[\s\S]*?\*\/`,
    String.raw`\/\/[^\n]*`,
    String.raw`'(?:\\.|[^'\\\n])*'`,
    String.raw`"(?:\\.|[^"\\\n])*"`,
    '`(?:\\\\[\\s\\S]|[^`\\\\])*`',
    String.raw`(?<=(?:[(,=:[!&|?{};>]|\breturn)\s*)\/(?![*/])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[])+\/`,
  ].join('|'),
  'g',
)
