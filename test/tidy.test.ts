// Owns the habits that no linter checks. May never forbid what helps a reader.

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { readSources, root } from './sources.ts'

const MAX_COLUMNS = 100

/** Files of 350 lines are the aim; past this many a file surely owns two things. */
const MAX_LINES = 450

/** One sentence for each habit that a source file breaks. */
function faultsOf(path: string, text: string): string[] {
  const lines = text.replace(/\n$/, '').split('\n')
  const faults: string[] = []
  if (!/^(#!.*\n)?(\/\/|\/\*|-- )/.test(text)) faults.push(`${path} does not open with a comment`)
  if (lines.length > MAX_LINES) faults.push(`${path} has ${lines.length} lines`)
  for (const [index, line] of lines.entries()) {
    const place = `${path}:${index + 1}`
    if ([...line].length > MAX_COLUMNS) faults.push(`${place} is over ${MAX_COLUMNS} columns`)
    if (/\b(TODO|FIXME)\b/.test(line)) faults.push(`${place} leaves something for later`)
  }
  return faults
}

/**
 * Where a lock file says a package is downloaded from. Addresses of people who ask for support
 * are no such place.
 */
function placesIn(lockFile: string): string[] {
  const lines = JSON.stringify(JSON.parse(lockFile, dropFunding), null, 1).split('\n')
  return lines.filter((line) => /"resolved"|https?:|git\+/.test(line)).map((line) => line.trim())
}

function dropFunding(key: string, value: unknown): unknown {
  return key === 'funding' ? undefined : value
}

/** Scripts that run in the server of a store, by their path inside `src`. */
function readScripts(): ReadonlyMap<string, string> {
  const folder = 'stores/redis/lua'
  const names = readdirSync(join(root, 'src', folder))
  return new Map(
    names.map((name) => [
      `${folder}/${name}`,
      readFileSync(join(root, 'src', folder, name), 'utf8'),
    ]),
  )
}

describe('tidiness', () => {
  it('is kept by every source file', () => {
    const faults = [...readSources()].flatMap(([path, text]) => faultsOf(path, text))
    expect(faults).toEqual([])
  })

  it('is kept by every script of a server', () => {
    const scripts = [...readScripts()]
    expect(scripts.length).toBeGreaterThan(0)
    expect(scripts.flatMap(([path, text]) => faultsOf(path, text))).toEqual([])
  })

  it.each(['package-lock.json', 'bench/package-lock.json'])('names no host in %s', (name) => {
    expect(existsSync(join(root, name))).toBe(true)
    expect(placesIn(readFileSync(join(root, name), 'utf8'))).toEqual([])
  })

  it('pins every dependency exactly', () => {
    for (const name of ['package.json', 'bench/package.json']) {
      const { dependencies, devDependencies, optionalDependencies } = JSON.parse(
        readFileSync(join(root, name), 'utf8'),
      )
      const all = { ...dependencies, ...devDependencies, ...optionalDependencies }
      const versions = Object.values<string>(all)
      expect(versions.filter((version) => !/^(npm:[a-z-]+@)?\d+\.\d+\.\d+$/.test(version))).toEqual(
        [],
      )
    }
  })
})

describe('the test of tidiness', () => {
  it.each([
    ['code before any comment', "import './b.ts'\n"],
    ['a long line', `// ${'x'.repeat(98)}\n`],
    ['a long file', '// x\n'.repeat(451)],
    ['work left for later', '// A file. TODO: write it.\n'],
  ])('sees %s', (_, text) => {
    expect(faultsOf('core/a.ts', text)).toHaveLength(1)
  })

  it.each([
    ['a comment first', '// Owns a.\n'],
    ['a command', '#!/usr/bin/env node\n// Owns a.\n'],
    ['a line of 100 columns', `// ${'x'.repeat(97)}\n`],
    ['a file of 450 lines', '// x\n'.repeat(450)],
  ])('is content with %s', (_, text) => {
    expect(faultsOf('core/a.ts', text)).toEqual([])
  })

  it('sees hosts in a lock file', () => {
    const lock = (entry: object) => JSON.stringify({ packages: { 'node_modules/a': entry } })
    expect(placesIn(lock({ resolved: 'https://example.org/a.tgz' }))).toHaveLength(1)
    expect(placesIn(lock({ version: 'git+ssh://example.org/a' }))).toHaveLength(1)
    expect(placesIn(lock({ version: '1.0.0', funding: { url: 'https://example.org' } }))).toEqual(
      [],
    )
  })
})
