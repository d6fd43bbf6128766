// Owns that docs/policies.md is true: its code compiles under strict types and prints what the
// page says, the retry storm comes and does not come as it tells, every reason and link is there.
// May never run the code of the page inside this process.

import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { prepare } from '../scripts/prepare.mjs'
import { REASONS } from '../src/core/explain.ts'
import {
  commandsOf,
  openWorkshop,
  PATIENCE_MS,
  type Program,
  programsOf,
  promisedBy,
  readPage,
  run,
} from './pages.ts'
import { root } from './sources.ts'

const page = readPage('policies.md')
const programs = programsOf(page)
const storm = join('retry-storm', 'main.mjs')
const workshop = openWorkshop([join('policies', 'clock.mjs'), storm])

beforeAll(prepare, 120_000)
afterAll(() => workshop.remove())

describe('the code of docs/policies.md', { timeout: PATIENCE_MS }, () => {
  // First, while nothing good lies in the folder: what cannot compile is found.
  it('would not compile with a wrong option', async () => {
    const wrong = programs.map(({ title, code }) => ({
      title,
      code: code.replace('retryBudget: {', 'retryBudgets: {'),
    }))
    expect(await workshop.compile(wrong)).toContain("'retryBudgets' does not exist")
  })

  it('compiles under strict types, like the examples', async () => {
    expect(await workshop.compile(programs)).toBe('')
  })

  it.each(programs.map(({ title }, index) => [title, index] as const))(
    '%s: prints what it says',
    async (_, index) => {
      const program = programs[index] as Program
      const promised = promisedBy(program.code)
      expect(promised).not.toBe('')
      expect(await workshop.output(index)).toBe(promised)
    },
  )
})

describe('the retry storm', { timeout: PATIENCE_MS }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'ax-storm-'))
  const main = join(root, 'examples', storm)
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  /** The figures of the table, by what stands before them, for each setting. */
  async function figuresOf(...args: string[]): Promise<Map<string, number[]>> {
    const { stdout } = await run(process.execPath, [main, ...args])
    const rows = [...stdout.matchAll(/^([a-z][a-z ]+?) {2,}(\S.*)$/gm)]
    return new Map(
      rows.map(([, name, cells]) => [
        name as string,
        (cells as string).split(/ {2,}/).map((cell) => Number(cell.replace(/[,a-z ]/g, '') || NaN)),
      ]),
    )
  }

  it('is told on the page as it happens', async () => {
    const commands = commandsOf(page)
    expect(commands).toHaveLength(1)
    for (const { command, shown } of commands) {
      const args = command.split(' ').slice(2)
      const { stdout } = await run(process.execPath, [...args, '--svg', join(folder, 'a.svg')], {
        cwd: root,
      })
      expect(`${command}\n${stdout}`).toBe(shown)
    }
  })

  it('goes on for ever with naive retries, and has not begun with a budget and a rate', async () => {
    const figures = await figuresOf('naive', 'budget', '--svg', join(folder, 'b.svg'))
    const [naive, budget] = [0, 1].map((at) => (name: string) => figures.get(name)?.[at]) as [
      (name: string) => number,
      (name: string) => number,
    ]
    expect([naive, budget].map((of) => of('exports broken at one instant'))).toEqual([200, 200])

    expect(naive('most calls in any second')).toBeGreaterThan(200)
    expect(naive('jobs still at it after two minutes')).toBeGreaterThan(200)
    expect(naive('the last one ended after')).toBeNaN()

    // Case C18: retries within the budget in every second, first attempts not held up by it.
    expect(budget('most retries in any second')).toBe(10)
    expect(budget('most calls in any second')).toBeLessThanOrEqual(20)
    expect(budget('jobs that succeeded')).toBe(500)
    // Each export twice, each lookup once.
    expect(budget('calls in all')).toBe(700)
    // The last of 200 retries is released 19.9 s after the first, and takes its half minute.
    expect(budget('the last one ended after')).toBeLessThanOrEqual(20 + 21 + 30)
    expect(budget('longest wait of a first attempt')).toBeLessThanOrEqual(150)
  })

  it('is over with three retries only because nobody has one left', async () => {
    const figures = await figuresOf('few', '--svg', join(folder, 'c.svg'))
    expect(page).toContain(`${figures.get('jobs that failed')?.[0]} jobs have failed`)
    expect(figures.get('jobs that failed')?.[0]).toBeGreaterThan(200)
  })

  it('is drawn as a picture, too', async () => {
    const file = join(folder, 'chart.svg')
    const { stderr } = await run(process.execPath, [main, 'budget', '--svg', file])
    expect(stderr).toContain(file)
    const svg = readFileSync(file, 'utf8')
    expect(svg).toMatch(/^<svg xmlns="http:\/\/www\.w3\.org\/2000\/svg" .*<\/svg>\n$/s)
    expect(svg.match(/<rect x=/g)?.length).toBeGreaterThan(50)
    expect(svg).not.toMatch(/undefined|NaN|Infinity/)
    expect(svg.length).toBeLessThan(20_000)
  })

  it.each([['nive'], ['--sgv', 'x']])(
    'names the settings where one is wrong: %s',
    async (...args) => {
      const wrong = await run(process.execPath, [main, ...args]).catch((failed) => failed)
      expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('naive, few, budget')])
    },
  )
})

describe('the page', () => {
  it('has every reason that explain gives, and no other', () => {
    const table = /\| reason \|.*?\n\n/s.exec(page)?.[0] ?? ''
    const named = [...table.matchAll(/^\| (.*?) \|/gm)].flatMap(([, cell]) => [
      ...(cell as string).matchAll(/`([a-z-]+)`/g),
    ])
    expect(named.map(([, reason]) => reason).sort()).toEqual([...REASONS].sort())
  })

  it('has no link that leads nowhere', () => {
    const anchorOf = (heading: string) =>
      heading
        .toLowerCase()
        .replace(/[^\w\s-]/g, '')
        .replaceAll(' ', '-')
    const anchors = (text: string) =>
      [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading]) => anchorOf(heading as string))
    const broken = [...page.matchAll(/\]\(([^)]+)\)/g)]
      .map(([, link]) => (link as string).replace(/\s+/g, ''))
      .filter((link) => {
        const [file = '', anchor] = link.split('#')
        const path = join(root, 'docs', file)
        if (!existsSync(path)) return true
        if (anchor === undefined) return false
        return !anchors(file === '' ? page : readFileSync(path, 'utf8')).includes(anchor)
      })
    expect(broken).toEqual([])
  })
})
