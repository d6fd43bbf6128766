// Owns the check that the table of cases is true: complete, and about tests that exist.

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ON_EVERY_STORE } from '../engine/stores.ts'
import { CASES, IDS, type StoreName } from './table.ts'

const ROOT = resolve(import.meta.dirname, '../..')

/** The lists that the ids come from, where they lie beside the project. */
const SHARED = resolve(ROOT, '../shared')

const ID = /(?:C\d{2}|B\d{2}|DQ-\d{2}|ES-\d{2})(?: \(\w\))?/
const TITLE =
  /(?:if \((inMemory\(\))\)\s+)?\b(?:it|test|describe)(?:\.\w+(?:\([^)]*\)+)?)*\(\s*(['"`])((?:(?!\2)[\s\S])*)\2/g
const IDS_OF_TITLE = new RegExp(`^(${ID.source}(?:, ${ID.source})*):`)

/** The ids at the beginning of the titles of a file of tests, and whether memory alone has them. */
function idsIn(text: string): ReadonlyMap<string, boolean> {
  const ids = new Map<string, boolean>()
  for (const [, guard, , title = ''] of text.matchAll(TITLE)) {
    const [, head = ''] = IDS_OF_TITLE.exec(title) ?? []
    for (const [id] of head.matchAll(/(?:C|B|DQ-|ES-)\d{2}/g)) {
      ids.set(id, guard !== undefined && ids.get(id) !== false)
    }
  }
  return ids
}

const EVERYWHERE = new Set(ON_EVERY_STORE.flat().map((name) => `test/engine/${name}.test.ts`))

/** The stores that a file's tests of a case run on. */
function storesOf(file: string, memoryAlone: boolean): readonly StoreName[] {
  if (file.startsWith('test/stores/sqlite')) return ['sqlite']
  if (file.startsWith('test/stores/redis')) return ['redis']
  if (file.startsWith('test/cli/')) return ['memory']
  if (!file.startsWith('test/engine/')) return []
  return EVERYWHERE.has(file) && !memoryAlone ? ['memory', 'redis', 'sqlite'] : ['memory']
}

function testFiles(): ReadonlyMap<string, ReadonlyMap<string, boolean>> {
  const files = readdirSync(resolve(ROOT, 'test'), { recursive: true, encoding: 'utf8' })
  const tests = files.map((file) => `test/${file.replaceAll('\\', '/')}`)
  return new Map(
    tests
      .filter((file) => file.endsWith('.test.ts') && !file.startsWith('test/cases/'))
      .map((file) => [file, idsIn(readFileSync(resolve(ROOT, file), 'utf8'))]),
  )
}

/** What one of the lists beside the project names. */
function listed(file: string, pattern: RegExp, from = '', to = ''): readonly string[] {
  const text = readFileSync(resolve(SHARED, file), 'utf8')
  const begin = from === '' ? 0 : text.indexOf(from)
  const end = to === '' ? text.length : text.indexOf(to, begin)
  return [...text.slice(begin, end).matchAll(pattern)].map(([, id = '']) => id)
}

describe('the table of cases', () => {
  it('names every id once, in the order of the lists', () => {
    expect(CASES.map(({ id }) => id)).toEqual(IDS)
    expect(new Set(IDS).size).toBe(IDS.length)
  })

  it('gives each a title and, where it is not tested, a reason', () => {
    for (const each of CASES) {
      expect(each.title, each.id).toMatch(/\w.{9,}/)
      if ('later' in each) expect(each.later, each.id).toMatch(/waits? for|part of/)
      else if ('struck' in each) expect(each.struck, each.id).toMatch(/\w.{19,}/)
      else expect(each.where.length, each.id).toBeGreaterThan(0)
    }
  })

  it('points at tests that exist, and every test that names a case is in it', () => {
    const found = testFiles()
    const claimed: string[] = []
    for (const each of CASES) {
      if ('where' in each) claimed.push(...each.where.map((file) => `${each.id} ${file}`))
    }
    const actual = [...found].flatMap(([file, ids]) => [...ids.keys()].map((id) => `${id} ${file}`))
    expect(claimed.sort()).toEqual(actual.sort())
  })

  it('says which stores each case runs on', () => {
    const found = testFiles()
    for (const each of CASES) {
      if (!('where' in each)) continue
      const stores = new Set<StoreName>()
      for (const file of each.where) {
        const memoryAlone = found.get(file)?.get(each.id) ?? false
        for (const store of storesOf(file, memoryAlone)) stores.add(store)
      }
      expect([each.id, each.on ?? []]).toEqual([each.id, [...stores].sort()])
    }
  })

  it.skipIf(!existsSync(SHARED))('agrees with the lists beside the project', () => {
    const inprocess = 'background/inprocess.md'
    const durable = 'background/durable.md'
    const engines = 'background/engines.md'
    const ids = [
      ...listed('CASES.md', /^\| \*\*(C\d{2})\*\*/gm),
      ...listed(inprocess, /^\*\*(B\d{2}) /gm, '## 4. Bugs', '## 5.'),
      ...listed(durable, /^\*\*(DQ-\d{2}) /gm, '## 5. Twenty', '## 6.'),
      ...listed(engines, /^(\d+)\. \*\*/gm, '## 5. Fault', '## 6.').map(
        (n) => `ES-${n.padStart(2, '0')}`,
      ),
    ]
    expect(ids).toEqual(IDS)
  })
})
