// Owns that docs/scale.md is true where that does not depend on the machine: its program compiles and
// runs on two servers, and what it says is computed follows from what it says was measured.
// May never judge a microsecond.

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { coresOf, INPUTS, restOf, shardsFor, wakeUs } from '../bench/lib/fleet-model.mjs'
import { prepare } from '../scripts/prepare.mjs'
import { blocksOf, openWorkshop, PATIENCE_MS, programsOf, promisedBy, readPage } from './pages.ts'
import { startRedis } from './servers/redis.ts'
import { ask } from './servers/resp.ts'
import { describeOnRedis } from './servers/suites.ts'

const page = readPage('scale.md')
const programs = programsOf(page)
const workshop = openWorkshop([])
const [shown = ''] = blocksOf(page, 'text')

beforeAll(prepare, 120_000)
afterAll(() => workshop.remove())

/** The first figure of a row, by what stands before it; commas are between thousands. */
function figure(name: string): number {
  const row = shown.split('\n').find((line) => line.startsWith(`${name}  `)) ?? ''
  return Number(/^ *([\d.,]+)/.exec(row.slice(name.length))?.[1]?.replaceAll(',', '') ?? Number.NaN)
}

const WAYS = ['by the thousand', 'by ten', 'one by one']
const costs = {
  lease: figure('lease'),
  overdue: figure('overdue'),
  time: figure('time'),
  beat: figure('beat'),
  extend: figure('extend'),
  extendHeld: figure('extend, holding'),
}

describe('the code of docs/scale.md', { timeout: PATIENCE_MS }, () => {
  it('compiles under strict types, and would not with a wrong option', async () => {
    const wrong = programs.map(({ title, code }) => ({
      title,
      code: code.replace("prefix: 'mail'", "prefx: 'mail'"),
    }))
    expect(await workshop.compile(wrong)).toContain("'prefx' does not exist")
    expect(await workshop.compile(programs)).toBe('')
  })
})

describeOnRedis('docs/scale.md on servers', () => {
  it('has a program that puts jobs on two of them', async () => {
    const [one, other] = await Promise.all([startRedis(), startRedis()])
    await workshop.compile(programs)
    const promised = promisedBy(programs[0]?.code ?? '')
    expect(promised).not.toBe('')
    const REDIS_URLS = `${one.url},${other.url}`
    expect(await workshop.output(0, { REDIS_URLS })).toBe(promised)
    const counts = await Promise.all([one, other].map(({ url }) => ask(url, 'HLEN', '{mail}:i')))
    expect(Number(counts[0]) + Number(counts[1])).toBe(4)
    expect(counts).not.toContain(0)
  }, 60_000)
})

describe('the figures of docs/scale.md', () => {
  const close = (value: number, to: number, by: number) => {
    expect(Math.abs(value - to)).toBeLessThanOrEqual(by)
  }

  it('are those that the program prints, with its inputs', () => {
    expect(Object.values(costs).every((us) => us > 0)).toBe(true)
    expect(shown).toMatch(/^\$ npm run bench -- fleet\n/)
    expect(shown).toContain(`leaseMs ${INPUTS.leaseMs.toLocaleString('en')}`)
    expect(shown).toContain(`a poll each ${INPUTS.pollMs} ms`)
    expect(shown).toContain(`a worker runs ${INPUTS.ratePerWorker} jobs a second`)
    expect(shown).toMatch(/All checks hold\.\n$/)
  })

  it('add up: what is computed follows from what was measured', () => {
    const rest = coresOf(restOf(10_000, costs, INPUTS))
    close(Number(/together ([\d.]+) cores/.exec(shown)?.[1]), rest, 0.02)
    const ms = wakeUs(1_000, figure('a hint'), costs) / 1_000
    close(Number(/\n +1,000 +([\d.]+) +\d+\n/.exec(shown)?.[1]), ms, 0.2)
    for (const way of WAYS) {
      const { cores } = shardsFor(1_000_000, figure(`a job, ${way}`), costs, INPUTS)
      const row = new RegExp(`\n1,000,000 +${way} +10,000 +([\\d,.]+) `).exec(shown)?.[1]
      close(Number(row?.replaceAll(',', '')), cores, 0.2)
    }
  })

  it('are the same in the table of the page', () => {
    const tables = ['100,000', '1,000,000'].map((rate) => {
      const row = new RegExp(`^\\| ${rate} a second \\| (.*) \\|$`, 'm').exec(page)?.[1] ?? ''
      return row.replaceAll(' servers', '').split(' | ')
    })
    const printed = ['100,000', '1,000,000'].map((rate) =>
      WAYS.map((way) => {
        const line = shown.split('\n').find((each) => each.trim().startsWith(`${rate}  ${way}`))
        return line?.trim().split(/ {2,}/).at(-2)
      }),
    )
    expect(tables).toEqual(printed)
  })
})
