// Owns that the type tests compile, and that they would not if a type were wrong.

import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'

const root = resolve(import.meta.dirname, '../..')
const source = join(import.meta.dirname, 'toolkit.test-d.ts')
// As deep in the project as this file: the compiler finds the sources, and the types of Node.
const folder = mkdtempSync(join(root, 'node_modules', '.ax-types-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** What the compiler has to say about one file; nothing when all is well. */
function compile(name: string, text: string): string {
  const file = join(folder, `${name}.ts`)
  writeFileSync(file, text)
  const config = join(folder, `${name}.json`)
  const compilerOptions = { strict: true, exactOptionalPropertyTypes: true, skipLibCheck: false }
  const options = { extends: join(root, 'tsconfig.json'), compilerOptions, files: [file] }
  writeFileSync(config, JSON.stringify({ ...options, include: [] }))
  const tsc = join(root, 'node_modules', 'typescript', 'lib', 'tsc.js')
  try {
    return execFileSync(process.execPath, [tsc, '--noEmit', '-p', config], {
      encoding: 'utf8',
      stdio: 'pipe',
    })
  } catch (error) {
    return `${(error as { stdout: string }).stdout}`
  }
}

describe('C74: the types of the toolkit', () => {
  const text = readFileSync(source, 'utf8')

  it('are inferred, hold no any, and refuse what is wrong', () => {
    expect(compile('right', text)).toBe('')
  }, 60_000)

  it.each([
    ['a result of another type', 'const bad: Promise<string> = limit(() => 1)', 'TS2322'],
    ['an any where there is none', 'noAny<any>(true)', 'TS2345'],
    ['a type that is not the same', 'same<typeof number, Promise<unknown>>(true)', 'TS2345'],
    ['an error that is none', '// @ts-expect-error\nlimit(() => 1)', 'TS2578'],
  ])(
    'would not compile with %s',
    (name, line, code) => {
      expect(compile(name.replaceAll(' ', '-'), `${text}\n${line}\n`)).toContain(code)
    },
    60_000,
  )
})
