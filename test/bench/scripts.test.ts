// Owns that every benchmark runs: each at a size that says nothing about speed. May never judge a
// figure, nor install what the benchmarks compare ax with.

import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { prepare } from '../../scripts/prepare.mjs'
import { describeOnRedis } from '../servers/suites.ts'
import { root } from '../sources.ts'

const folder = mkdtempSync(join(tmpdir(), 'ax-bench-'))

/** A diamond whose last job names one of its dependencies twice. */
const DIAMOND = [
  { id: 'a', deps: [], durationMs: 1000 },
  { id: 'b', deps: ['a'], durationMs: 2000 },
  { id: 'c', deps: ['a'], durationMs: 1000 },
  { id: 'd', deps: ['b', 'c', 'c'], durationMs: 1000 },
]
const STATS = { nodes: 4, edges: 4, depth: 3, P4: { lowerBoundMs: 4000, grahamUpperMs: 4250 } }

/** Without the libraries that are compared, ax's own share of a script still runs. */
const hasPeers = existsSync(join(root, 'bench', 'node_modules'))
const only = (...own: string[]) => (hasPeers ? [] : ['--only', own.join()])

beforeAll(prepare, 120_000)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

function bench(name: string, ...args: string[]): { code: number | null; output: string } {
  const script = join(root, 'bench', `${name}.mjs`)
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, ...args], {
    encoding: 'utf8',
  })
  return { code: status, output: stdout + stderr }
}

function writeGraphs(stats: object): void {
  writeFileSync(join(folder, 'd01-small.json'), JSON.stringify({ nodes: DIAMOND }))
  writeFileSync(
    join(folder, 'd02-two.json'),
    JSON.stringify({ graphs: { one: [{ id: 'x', deps: [] }], none: [] } }),
  )
  writeFileSync(join(folder, 'expected.json'), JSON.stringify({ 'd01-small.json': { stats } }))
}

/** Rows of a workload log: job, submit, wait, run, processors, processor time, ..., user. */
function writeArrivals(): void {
  const rows = [1, 2, 3, 4, 5, 6].map((job) => {
    const run = job === 2 ? -1 : 3
    return [job, job, 0, run, 1, 4, -1, 1, 9, -1, 1, job, 1, -1, -1, 1, -1, -1].join(' ')
  })
  writeFileSync(join(folder, 'd11-hpc2n-1000.swf'), `; Version: 2.2\n${rows.join('\n')}\n`)
}

describe('the benchmarks', () => {
  it('run graphs and check them', () => {
    writeGraphs(STATS)
    const { code, output } = bench('graphs', '--dags', folder, '--tries', '1000')
    expect(output).toMatch(/d01-small +4 +4 +3 +16 +2 /)
    expect(output).toMatch(/d02-two one +1 +0 +1 +1 +1 /)
    expect(output).toMatch(/All checks hold\.\n$/)
    expect(code).toBe(0)
  })

  it('fail where a graph is not what it should be', () => {
    writeGraphs({ ...STATS, edges: 5 })
    const { code, output } = bench('graphs', '--dags', folder, '--tries', '1000')
    expect(output).toContain('FAULT  d01-small has 4 jobs, 4 edges, depth 3')
    expect(code).toBe(1)
  })

  it.each(['graphs', 'arrivals'])('say so where the inputs of %s are absent', (name) => {
    const { code, output } = bench(name, '--dags', join(folder, 'nowhere'))
    expect(output).toContain('There is no f')
    expect(code).toBe(0)
  })

  it('replay arrivals and check them', () => {
    writeArrivals()
    const { code, output } = bench('arrivals', '--dags', folder, '--cap', '1')
    expect(output).toContain('6 rows')
    expect(output).toContain('1 rows with an unknown run time')
    // Five runs of 3 s and one of 4 s; each of the two orders keeps its bounds.
    expect(output.match(/done after 0\.0; slots in use: 100\.0 %/g)).toHaveLength(2)
    expect(output.match(/Every wait is within its bound/g)).toHaveLength(2)
    expect(output).toMatch(/All checks hold\.\n$/)
    expect(code).toBe(0)
  })

  it('measure queues of two sizes', () => {
    const sizes = ['--sizes', '50,200', '--repeats', '1,1', '--warm', '10']
    const { code, output } = bench('scale', ...sizes)
    expect(output).toMatch(/\nnone +200 /)
    expect(output).toMatch(/\njson +200 /)
    expect(output).toMatch(/All checks hold\.\n$/)
    expect(code).toBe(0)
  })

  it('compare with p-queue', () => {
    const own = only('addJob', 'addJob-execute', 'addJob-result', 'addJobs')
    const { code, output } = bench('pqueue', '--sizes', '100', '--repeats', '1', ...own)
    expect(output).toMatch(/\naddJobs +100 /)
    expect(output).toMatch(/All checks hold\.\n$/)
    expect(code).toBe(0)
  })

  it('compare with p-graph', () => {
    const own = only('ax-execute', 'ax-handler', 'ax-unheard')
    const { code, output } = bench('dag', '--nodes', '500', '--repeats', '1', ...own)
    expect(output).toMatch(/\nax-handler +500 /)
    expect(output).toMatch(/All checks hold\.\n$/)
    expect(code).toBe(0)
  })

  it('compare queues that keep their jobs in one SQLite file', () => {
    const sizes = ['--jobs', '40', '--starts', '2', '--repeats', '1']
    const { code, output } = bench('sqlite', ...sizes, '--only', 'ax,rows')
    const cells = ['bulk', 'single', 'concurrent', 'drain', 'cycle', 'cycle-full', 'idle', 'across']
    for (const cell of cells) expect(output).toMatch(new RegExp(`\n${cell}: .*\n.*\nax `))
    expect(output).toMatch(/ax NORMAL beside rows NORMAL, drain: .* \(target >= 0\.45 x\)/)
    expect(output).toMatch(/ax, across, p99: .* \(target <= 41\.67 ms, 0\.6 of it\)/)
    expect(output).toMatch(/All checks hold\.\n$/)
    expect(code).toBe(0)
  }, 60_000)

  it('compare with those of these queues that are installed, and name the others', () => {
    const sizes = ['--jobs', '40', '--repeats', '1', '--cells', 'drain']
    const { code, output } = bench('sqlite', ...sizes)
    for (const peer of ['plainjob', 'better-queue', 'liteque']) {
      expect(output).toMatch(new RegExp(`\n(${peer} [A-Z]+ +\\d|skipped ${peer}: .)`))
    }
    expect(output).toMatch(/\nax NORMAL +40 +1 /)
    expect(output).toMatch(/All checks hold\.\n$/)
    expect(code).toBe(0)
  }, 60_000)

  it('say which cells and which contenders on SQLite there are', () => {
    const { code, output } = bench('sqlite', '--cells', 'nope', '--only', 'ax,never')
    expect(output).toContain("There is no cell 'nope': bulk,single,")
    expect(output).toContain("There is no contender 'never': ax,plainjob,")
    expect(code).toBe(1)
  })

  it('compare the toolkit with its peers and with floors', () => {
    const { code, output } = bench('toolkit', '--quick', '--divide', '1000')
    expect(output).toMatch(/\nmin-slots +20 +1 /)
    expect(output).toMatch(/\nax +20 +1 /)
    expect(output).toMatch(/ x by cpu, .* \(target >= /)
    expect(output).toMatch(/All checks hold\.\n$/)
    expect(code).toBe(0)
  }, 120_000)

  it('say which cells of the toolkit there are', () => {
    const { code, output } = bench('toolkit', '--only', 'nope')
    expect(output).toContain("There is no cell 'nope': limit,")
    expect(code).toBe(1)
  })

  it('refuse an option that is none', () => {
    const { code, output } = bench('scale', '--size', '5')
    expect(output).toContain("Unknown option '--size'")
    expect(code).toBe(2)
  })

  it('are all listed by the script that runs them', () => {
    const { code, output } = bench('run')
    const names = readdirSync(join(root, 'bench')).filter((file) => file.endsWith('.mjs'))
    for (const name of names.filter((file) => file !== 'run.mjs')) {
      expect(output).toMatch(new RegExp(`^  ${name.replace('.mjs', '')} +[a-z]`, 'm'))
    }
    expect(code).toBe(0)
  })

  it('have no other names', () => {
    const { code, output } = bench('run', 'nope')
    expect(output).toContain("There is no benchmark 'nope'.")
    expect(code).toBe(2)
  })
})

describeOnRedis('the benchmark on Redis', () => {
  const all = ['ax', 'bullmq', 'bee-queue', 'lua']

  it('measures in every cell those that are here, and names the others', () => {
    const { code, output } = bench('redis', '--jobs', '40', '--starts', '2', '--repeats', '1')
    const absent = all.filter((name) => output.includes(`\nskipped ${name}: `))
    const isIoredisHere = existsSync(join(root, 'bench', 'node_modules', 'ioredis'))
    expect(absent.includes('lua')).toBe(!isIoredisHere)
    const cells = ['single', 'concurrent', 'bulk', 'drain-1', 'drain-10', 'drain', 'cycle', 'idle']
    for (const cell of cells) {
      const text = output.split('\n\n').find((each) => each.startsWith(`${cell}: `))
      const measured = all.filter((name) => new RegExp(`\n${name} +\\d`).test(text ?? ''))
      expect([...measured, ...absent].sort()).toEqual([...all].sort())
    }
    expect(output).toMatch(/All checks hold\.\n$/)
    expect(code).toBe(0)
  }, 120_000)

  it('says which cells and which contenders there are', () => {
    const { code, output } = bench('redis', '--cells', 'nope', '--only', 'lua,never')
    expect(output).toContain("There is no cell 'nope': single,")
    expect(output).toContain("There is no contender 'never': ax,bullmq,")
    expect(code).toBe(1)
  })
})

describeOnRedis('the benchmark of a fleet', () => {
  it('measures what calls cost, and computes servers from that', () => {
    const sizes = ['--jobs', '40', '--workers', '30', '--idle', '2', '--listeners', '3']
    const { code, output } = bench('fleet', ...sizes, '--rates', '1000', '--held', '2')
    for (const way of ['by the thousand', 'by ten', 'one by one']) {
      expect(output).toMatch(new RegExp(`\na job, ${way} +[\\d,.]+ `))
      expect(output).toMatch(new RegExp(`\n *1,000 +${way} +10 +[\\d,.]+ +[\\d.]+ +\\d+ `))
    }
    expect(output).toMatch(/\nComputed: 30 workers on one server while nothing happens\n/)
    // A poll each 875 ms, and a heartbeat each five seconds.
    expect(output).toMatch(/\npoll: lease +34 /)
    expect(output).toMatch(/\nheartbeat: beat +6 /)
    expect(output).toMatch(/All checks hold\.\n$/)
    expect(code).toBe(0)
  }, 120_000)
})
