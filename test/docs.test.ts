// The code in the README compiles under strict types, and runs; both languages show the same code.

import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { root } from './sources.ts'

const run = promisify(execFile)

/** The fenced blocks of TypeScript of a page, in order. */
function codeOf(page: string): string[] {
  const text = readFileSync(join(root, page), 'utf8')
  return [...text.matchAll(/```ts\n(.*?)```/gs)].map((match) => match[1] as string)
}

/** Its programs: a block that imports begins one, the others go on with the one before. */
function programsOf(page: string): string[] {
  const programs: string[] = []
  for (const code of codeOf(page)) {
    if (code.startsWith('import')) programs.push(code)
    else programs.push(`${programs.pop()}\n${code}`)
  }
  return programs
}

/** Stands in for the shop that the examples download from: nothing leaves this machine. */
const SHOP = `globalThis.fetch = async (url) => Response.json({ from: String(url) })\n`

let folder = ''

beforeAll(() => {
  mkdirSync(join(root, 'node_modules', '.ax-docs'), { recursive: true })
  folder = mkdtempSync(join(root, 'node_modules', '.ax-docs', 'run-'))
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
})

afterAll(() => rmSync(folder, { recursive: true, force: true }))

async function compile(code: string): Promise<string> {
  writeFileSync(join(folder, 'page.ts'), `${code}\n`)
  const options = {
    target: 'ES2022',
    lib: ['ES2023', 'ESNext.Disposable', 'DOM'],
    module: 'NodeNext',
    moduleResolution: 'NodeNext',
    strict: true,
    exactOptionalPropertyTypes: true,
    skipLibCheck: true,
    types: ['node'],
    paths: { 'ax-scheduler': [join(root, 'dist', 'index.d.ts')] },
  }
  const config = { compilerOptions: options, files: ['page.ts'] }
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config))
  const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc')
  const { stdout } = await run(process.execPath, [tsc, '-p', folder]).catch((failed) => failed)
  return stdout
}

async function output(program: string): Promise<string> {
  expect(await compile(program)).toBe('')
  const entry = new URL('../dist/index.js', import.meta.url).href
  const code = readFileSync(join(folder, 'page.js'), 'utf8')
  writeFileSync(join(folder, 'page.js'), SHOP + code.replace("'ax-scheduler'", `'${entry}'`))
  return (await run(process.execPath, [join(folder, 'page.js')])).stdout
}

const [jobs = '', toolkit = ''] = programsOf('README.md')

it('README.md: the scheduler compiles and runs to the report', async () => {
  const stdout = await output(jobs)
  expect(stdout).toContain("{ from: 'https://shop.example/stock' }")
  expect(stdout).toMatch(/running success undefined/)
})

it('README.md: the toolkit compiles and runs', async () => {
  expect(await output(toolkit)).toBe('1\n2\n3\n200 1 1\n')
})

it('README.md: a wrong option in it would not compile', async () => {
  expect(await compile(jobs.replace('retries: 3', 'retrys: 3'))).toContain(
    "'retrys' does not exist",
  )
})

it('README.zh-CN.md shows the same code', () => {
  const bare = (code: string) => code.replace(/\/\/.*$/gm, '').replace(/\s+\n/g, '\n')
  expect(codeOf('README.zh-CN.md').map(bare)).toEqual(codeOf('README.md').map(bare))
})
