// Owns that docs/policies.md is true: its code compiles under strict types and prints what the
// page says, the retry storm comes and does not come as it tells, every reason and link is there.
// May never run the code of the page inside this process.

import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { prepare } from '../scripts/prepare.mjs'
import { ADVICE } from '../src/core/advise.ts'
import { FINDINGS } from '../src/core/doctor.ts'
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

  const happen = async (...args: string[]) =>
    (await run(process.execPath, [main, ...args, '--svg', join(folder, 'a.svg')])).stdout

  /** A figure by what stands before it, for the setting in that place; NaN for `never`. */
  function figure(table: string, name: string, place: number): number {
    const row = table.split('\n').find((line) => line.startsWith(`${name}  `)) ?? ''
    const cell = row.slice(name.length).trim().split(/ {2,}/)[place] ?? ''
    return Number.parseFloat(cell.replaceAll(',', ''))
  }

  let both = ''
  beforeAll(async () => {
    both = await happen('naive', 'budget')
  }, PATIENCE_MS)

  it('is told on the page as it happens', () => {
    const shown = commandsOf(page).map((one) => one.shown)
    expect(shown).toEqual([`$ node examples/retry-storm/main.mjs\n${both}`])
  })

  it('goes on for ever with naive retries', () => {
    const naive = (name: string) => figure(both, name, 0)
    expect(naive('exports broken at one instant')).toBe(200)
    expect(naive('most calls in any second')).toBeGreaterThan(200)
    expect(naive('jobs still at it after two minutes')).toBeGreaterThan(200)
    expect(naive('the last one ended after')).toBeNaN()
  })

  it('does not begin with a retry budget and a rate', () => {
    const budget = (name: string) => figure(both, name, 1)
    expect(budget('exports broken at one instant')).toBe(200)
    // Case C18: retries within the budget in every second, first attempts not held up by it.
    expect(budget('most retries in any second')).toBe(10)
    expect(budget('most calls in any second')).toBeLessThanOrEqual(20)
    expect(budget('jobs that succeeded')).toBe(500)
    // Each export twice, each lookup once.
    expect(budget('calls in all')).toBe(700)
    // The last of 200 retries is released 19.9 s after the first, and takes its half minute.
    expect(budget('the last one ended after')).toBeLessThanOrEqual(20 + 1 + 20 + 30)
    // Two calls of one instant are 50 ms apart at 20 a second: that is the rate, and not the budget.
    expect(budget('longest wait of a first attempt')).toBeLessThanOrEqual(100)
  })

  it('is over with three retries only because nobody has one left', async () => {
    const failed = figure(await happen('few'), 'jobs that failed', 0)
    expect(failed).toBeGreaterThan(200)
    expect(page).toContain(`${failed} jobs have failed`)
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
  const dags = join(root, '..', 'shared', 'dags')

  it.skipIf(!existsSync(dags))(
    'has the waits that the arrivals of a real cluster come to',
    async () => {
      const { stdout } = await run(process.execPath, [join(root, 'bench', 'arrivals.mjs')])
      const worst = (priority: number) => {
        const row = new RegExp(`^ *${priority} .*$`, 'm').exec(stdout)?.[0] ?? ''
        const cells = row.trim().split(/ +/)
        return [cells[4], cells[7]].map((hours) => Math.round(Number(hours)))
      }
      const [lowest, highest] = [worst(10), worst(50)]
      const words = page.replace(/\s+/g, ' ')
      expect(words).toContain(
        `the lowest waits up to ${lowest[0]} h and the highest ${highest[0]} h`,
      )
      expect(words).toContain(`per six hours it is ${lowest[1]} h and ${highest[1]} h`)
      const days = Math.round(Number(/for ([\d.]+) days on end/.exec(stdout)?.[1]))
      expect(words).toContain(`for ${days} days on end`)
    },
  )

  it.each([
    ['reason', REASONS],
    ['finding', FINDINGS],
    ['advice', ADVICE],
  ])('has every %s that there is, and no other', (what, kinds) => {
    const table = new RegExp(`\\| ${what} \\|.*?\\n\\n`, 's').exec(page)?.[0] ?? ''
    const named = [...table.matchAll(/^\| (.*?) \|/gm)].flatMap(([, cell]) =>
      [...(cell as string).matchAll(/`([a-z-]+)`/g)].map(([, kind]) => kind as string),
    )
    expect(named.sort()).toEqual([...kinds].sort())
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
