// Owns that the examples work, as a newcomer would run them. May never run them in their own
// folder: what they produce belongs to whoever runs them by hand.

import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { prepare } from '../scripts/prepare.mjs'
import type { RunReport } from '../src/cli/report.ts'
import { ax } from './cli/helpers.ts'
import { run } from './pages.ts'
import { startRedis } from './servers/redis.ts'
import { ask } from './servers/resp.ts'
import { describeOnRedis } from './servers/suites.ts'
import { root } from './sources.ts'

beforeAll(prepare, 120_000)

describe('the weekly report', () => {
  const folder = mkdtempSync(join(tmpdir(), 'ax-example-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  const flow = join(folder, 'flow.yaml')
  const outbox = join(folder, 'outbox')
  const page = join(outbox, 'weekly-report-2026-05-17.html')

  beforeAll(() => {
    const example = join(root, 'examples', 'weekly-report')
    const isOutbox = (path: string) => path.startsWith(join(example, 'outbox'))
    cpSync(example, folder, { recursive: true, filter: (path) => !isOutbox(path) })
  })

  it('is delivered, and the last lines tell where', async () => {
    const { code, out } = await ax(['run', flow], folder)
    expect(out).toContain(`\nsend_email: ${page}\n\nweekly-report: all 5 jobs succeeded in `)
    expect(out).toMatch(/ fetch_ads +pending +attempt 1\/3 +EXIT: .*503 Service Unavailable\n/)
    expect(out).toMatch(/\nfetch_ads +✓ success +2\/3 .*retried after EXIT\n/)
    expect(code).toBe(0)
    expect(readdirSync(outbox)).toEqual(['weekly-report-2026-05-17.html'])
  })

  it('holds the figures of the exports', async () => {
    const { out } = await ax(['run', flow, '--json'], folder)
    const { jobs } = JSON.parse(out) as RunReport
    const figures = jobs.find(({ name }) => name === 'calc_report')?.result as {
      totals: { thisWeek: { revenue: number; orders: number; spend: number } }
    }
    // Counted again from the files, by other means.
    const lines = readFileSync(join(folder, 'data', 'sales.csv'), 'utf8')
      .trim()
      .split('\n')
    const week = lines.filter((line) => /^2026-05-1[1-7],/.test(line))
    const revenue = week
      .map((line) => /,(-?\d+),([\d.]+),[a-z]+,[A-Z]+$/.exec(line) ?? [])
      .reduce((sum, [, quantity, price]) => sum + Number(quantity) * Number(price), 0)
    const orders = new Set(week.map((line) => line.split(',')[1]).filter((id) => !/-R$/.test(id!)))
    expect(figures.totals.thisWeek.revenue).toBeCloseTo(revenue, 2)
    expect(figures.totals.thisWeek.orders).toBe(orders.size)
    const html = readFileSync(page, 'utf8')
    expect(html).toContain(`<b>${orders.size}</b>`)
    expect(html).toContain(`€${Math.round(revenue).toLocaleString('en-IE')}`)
    expect(html.match(/<rect /g)).toHaveLength(14)
    expect(html).not.toMatch(/undefined|NaN|\[object/)
  })

  it('does not care in which order the file lists its jobs', async () => {
    const text = readFileSync(flow, 'utf8')
    const [head, jobs] = text.split('jobs:\n') as [string, string]
    const reversed = jobs.trimEnd().split('\n').reverse()
    expect(reversed[0]).toContain('send_email')
    writeFileSync(join(folder, 'reversed.yaml'), `${head}jobs:\n${reversed.join('\n')}\n`)
    rmSync(outbox, { recursive: true })
    const { code, out } = await ax(['run', 'reversed.yaml'], folder)
    expect(out).toContain('all 5 jobs succeeded')
    expect(code).toBe(0)
    expect(readdirSync(outbox)).toEqual(['weekly-report-2026-05-17.html'])
  })
})

describeOnRedis('three workers, one of which is killed', () => {
  const main = join(root, 'examples', 'three-workers', 'main.mjs')

  /** Each order is charged once, and the one that the victim had charged has run again. */
  function judge(out: string): void {
    const killed = /^worker-2 has charged (order-\d+) and hangs: it is killed$/m.exec(out)?.[1]
    const again = `${killed}: worker-2 \\(lost\\), then worker-[13] \\(success\\)`
    expect(out).toMatch(new RegExp(`^${again}; the last one says: had been charged$`, 'm'))
    const rows = [...out.matchAll(/^worker-(\d) +(\d+) +(\d+)$/gm)].map((row) => row.slice(1))
    const [one, two, three] = rows.map(([, started, succeeded]) => [started, succeeded].map(Number))
    expect(rows.map(([name]) => name)).toEqual(['1', '2', '3'])
    expect(two?.[0]).toBeGreaterThan(two?.[1] as number)
    expect([one, two, three].reduce((sum, row) => sum + (row?.[1] ?? 0), 0)).toBe(60)
    expect(out).toMatch(/\n60 of 60 orders succeeded, 60 were charged\.\nCharged twice: 0\.\n$/)
  }

  it('charge every order once, on a server of their own', async () => {
    const { stdout } = await run(process.execPath, [main], {
      env: { ...process.env, REDIS_URL: '' },
    })
    expect(stdout).toMatch(/^3 workers on a Redis of its own, port \d+\n/)
    judge(stdout)
  }, 60_000)

  it('leave a server that is named as it was', async () => {
    const { url } = await startRedis()
    await ask(url, 'SET', '{ax}:state', 'of somebody else')
    const env = { ...process.env, REDIS_URL: url }
    const { stdout } = await run(process.execPath, [main], { env })
    expect(stdout).toMatch(/^3 workers on the Redis that REDIS_URL names\n/)
    judge(stdout)
    expect(await ask(url, 'KEYS', '*')).toEqual(['{ax}:state'])
  }, 60_000)

  it('say what to install where there is no server', async () => {
    const env = { ...process.env, REDIS_URL: '', AX_REDIS_SERVER: join(root, 'no-such-server') }
    const failed = await run(process.execPath, [main], { env }).then(
      () => undefined,
      (error) => error,
    )
    expect([failed.code, failed.stdout]).toEqual([1, ''])
    expect(failed.stderr).toContain('apt-get install redis-server')
  }, 60_000)
})
