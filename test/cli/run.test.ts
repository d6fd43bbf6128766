// Owns `ax run` as people meet it: a child process, its output, its exit code.
// May never sleep for luck: it waits for lines, and the flows wait for files.

import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { prepare } from '../../scripts/prepare.mjs'
import type { JobReport, RunReport } from '../../src/cli/report.ts'
import { Ax, ax, type Ended, gone, ownFolders, written } from './helpers.ts'

beforeAll(prepare, 120_000)

const { cleanUps, inFolder } = ownFolders()

/** Runs a flow and gives its report, with the jobs by name. */
async function reportOf(flow: string, file = 'flow.yaml', ...more: readonly string[]) {
  const folder = inFolder({ [file]: flow })
  const ended = await ax(['run', file, '--json', ...more], folder)
  return { ...read(ended), folder, ended }
}

function read(ended: Ended) {
  const report = JSON.parse(ended.out) as RunReport
  const jobs = Object.fromEntries(report.jobs.map((job) => [job.name, job]))
  return { report, jobs: jobs as Readonly<Record<string, JobReport>> }
}

/** Lines of the log as `job state`, without times. */
function transitions(out: string): string[] {
  return [...out.matchAll(/^[\d:.]{12} {2}(\S+) +(\S+)/gm)].map(([, job, to]) => `${job} ${to}`)
}

describe('a run', () => {
  it('that goes well ends with 0, having run everything in order', async () => {
    const folder = inFolder({
      'flow.yaml': `
name: build
jobs:
  deploy: { run: 'echo deployed', deps: [test, lint] }
  test: { run: 'cat "$AX_DEPS"', deps: [compile] }
  lint: { run: 'true' }
  compile: { run: 'echo "{\\"files\\": 3}"' }
`,
    })
    const { code, out, err } = await ax(['run', 'flow.yaml'], folder)
    expect(err).toBe('')
    const told = transitions(out)
    expect(told).toHaveLength(8)
    expect(told.indexOf('compile success')).toBeLessThan(told.indexOf('test running'))
    expect(told.slice(-2)).toEqual(['deploy running', 'deploy success'])
    expect(out).toContain('\ndeploy: deployed\n')
    expect(out).toMatch(/\nbuild: all 4 jobs succeeded in .+\.\n$/)
    expect(code).toBe(0)
  })

  it('tries a flaky job again', async () => {
    const { jobs, ended } = await reportOf(`
defaults: { retries: 2, backoff: { type: fixed, delay: 10ms } }
jobs:
  flaky: { run: 'echo "not yet" >&2; test $AX_ATTEMPT = 3 && echo $AX_ATTEMPT' }
`)
    expect(jobs.flaky).toMatchObject({
      state: 'success',
      attempts: 3,
      failures: ['EXIT', 'EXIT'],
      result: 3,
    })
    expect(ended.err).toContain('EXIT: The command ended with exit status 1: not yet')
    expect(ended.code).toBe(0)
  })

  it('that fails ends with 1, cancels the branch and says why', async () => {
    const folder = inFolder({
      'flow.yaml': `
name: nightly
jobs:
  load: { run: 'echo "Traceback" >&2; echo "ValueError: no rows" >&2; exit 3' }
  other: { run: 'true' }
  publish: { run: 'touch published', deps: [load, other] }
  notify: { run: 'touch notified', deps: [publish] }
  mourn: { run: 'echo sorry', deps: [{ id: load, on: end }] }
`,
    })
    const { code, out } = await ax(['run', 'flow.yaml'], folder)
    expect(code).toBe(1)
    expect(existsSync(join(folder, 'published')) || existsSync(join(folder, 'notified'))).toBe(
      false,
    )
    expect(out).toMatch(/\nload +✗ failed .*EXIT: .*exit status 3: ValueError: no rows\n/)
    expect(out).toMatch(/\npublish +– cancelled .*because of load\n/)
    expect(out).toMatch(/\nnotify +– cancelled .*because of (load|publish)\n/)
    expect(out).toMatch(/\nmourn +✓ success /)
    expect(out).toContain('\nload failed after 1 attempt (EXIT)\n  The command ended with')
    expect(out).toMatch(
      /\nnightly: ended after .+: 1 failed \(load\), 2 cancelled, 2 of 5 succeeded\. Run .+\n$/,
    )
  })

  it('prints one JSON document and nothing else with --json', async () => {
    const { report, ended, folder } = await reportOf(`
name: tiny
jobs: { a: { run: 'echo "[1,2]"' }, b: { run: 'exit 1', deps: [a] }, c: { run: c, deps: [b] } }
`)
    expect(ended.code).toBe(1)
    expect(transitions(ended.err)).toContain('b failed')
    expect(report).toMatchObject({ flow: 'tiny', ok: false, interrupted: false })
    expect(report.jobs.map(({ name, state }) => `${name} ${state}`)).toEqual([
      'a success',
      'b failed',
      'c cancelled',
    ])
    expect(report.jobs[0]).toMatchObject({ id: `tiny#${report.run}/a`, result: [1, 2] })
    expect(report.jobs[1]?.error).toEqual({
      code: 'EXIT',
      message: 'The command ended with exit status 1.',
    })
    expect(report.jobs[2]).toMatchObject({ cause: 'b', attempts: 0, deps: ['b'] })
    expect(existsSync(folder)).toBe(true)
  })

  it('runs so many jobs at once, the urgent ones first', async () => {
    const folder = inFolder({
      'flow.yaml': `
jobs:
  a: { run: 'true', priority: 10 }
  b: { run: 'true', priority: 90 }
  c: { run: 'true' }
`,
    })
    const { out } = await ax(['run', 'flow.yaml', '--concurrency', '1'], folder)
    expect(transitions(out)).toEqual(
      ['b', 'c', 'a'].flatMap((job) => [`${job} running`, `${job} success`]),
    )
  })
})

describe('a command of a flow', () => {
  it('finds the results it depends on in AX_DEPS, and who it is in its environment', async () => {
    const { jobs, report } = await reportOf(`
name: env
jobs:
  number: { run: 'echo 7' }
  text: { run: 'printf "two\\nlines\\n"' }
  none: { sleep: 1ms }
  all: { run: 'cat "$AX_DEPS"', deps: [number, text, none] }
  self: { run: 'echo "$AX_JOB_ID $AX_ATTEMPT $AX_IDEMPOTENCY_KEY"; cat "$AX_DEPS"' }
`)
    expect(jobs.all?.result).toEqual({ number: 7, text: 'two\nlines', none: null })
    const id = `env#${report.run}/self`
    expect(jobs.self?.result).toMatch(new RegExp(`^${id} 1 ${id}:[\\w-]{12}\\n{}$`))
  })

  it('runs in the folder of the flow file', async () => {
    const folder = inFolder({
      'sub/flow.yaml': 'jobs: { a: { run: cat data.json } }',
      'sub/data.json': '{"here":true}',
    })
    const { jobs } = read(await ax(['run', 'sub/flow.yaml', '--json'], folder))
    expect(jobs.a?.result).toEqual({ here: true })
  })

  it('is ended with everything it started when its time is over', async () => {
    const { jobs, folder } = await reportOf(`
jobs:
  slow: { run: 'sleep 1000 & echo $! > child; echo $$ > shell; wait', timeout: 400ms }
`)
    expect(jobs.slow).toMatchObject({ state: 'failed', error: { code: 'EXECUTION_TIMEOUT' } })
    await gone(readFileSync(join(folder, 'shell'), 'utf8'))
    await gone(readFileSync(join(folder, 'child'), 'utf8'))
  })

  it('is killed when it does not listen, and fails only once', async () => {
    const { jobs, folder } = await reportOf(`
jobs:
  deaf: { run: 'trap "" TERM; echo $$ > shell; while :; do sleep 0.1; done', timeout: 300ms }
`)
    expect(jobs.deaf).toMatchObject({ state: 'failed', error: { code: 'EXECUTION_TIMEOUT' } })
    await gone(readFileSync(join(folder, 'shell'), 'utf8'))
  })

  it('fails for good when it prints more than a result can hold', async () => {
    const { jobs } = await reportOf(`
defaults: { retries: 3 }
jobs: { chatty: { run: 'yes' } }
`)
    expect(jobs.chatty).toMatchObject({
      state: 'failed',
      attempts: 1,
      error: { code: 'TOO_LARGE' },
    })
  })

  it('DQ-18: is started afresh when its process was killed, and costs nobody else an attempt', async () => {
    const { jobs } = await reportOf(`
pools: { default: { concurrency: 1 } }
jobs:
  a: { run: '[ $AX_ATTEMPT = 2 ] && echo done || kill -9 $$', retries: 1, backoff: { type: fixed, delay: 1ms } }
  b: { run: 'echo next' }
`)
    expect(jobs.a).toMatchObject({ state: 'success', attempts: 2, result: 'done' })
    expect(jobs.a?.failures).toEqual(['EXIT'])
    expect(jobs.b).toMatchObject({ state: 'success', attempts: 1, result: 'next' })
  })

  it('that is killed by somebody else says so', async () => {
    const { jobs } = await reportOf("jobs: { a: { run: 'kill -9 $$' } }")
    expect(jobs.a?.error).toEqual({ code: 'EXIT', message: 'The command was ended by SIGKILL.' })
  })
})

describe('a request of a flow', () => {
  async function serve(answer: (request: IncomingMessage, response: ServerResponse) => void) {
    const server = createServer(answer)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    cleanUps.push(() => server.close())
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  }

  it('waits as long as Retry-After says, then tries again', async () => {
    const times: number[] = []
    const url = await serve((_, response) => {
      times.push(performance.now())
      const isFirst = times.length === 1
      response.writeHead(isFirst ? 429 : 200, isFirst ? { 'retry-after': '1' } : {})
      response.end(isFirst ? 'slow down' : '{"spend": 12}')
    })
    const { jobs, ended } = await reportOf(`
jobs:
  ads: { http: { url: "${url}/ads" }, retries: 1, backoff: { type: fixed, delay: 1ms } }
`)
    expect(jobs.ads).toMatchObject({ state: 'success', result: { spend: 12 } })
    expect(jobs.ads?.failures).toEqual(['HTTP_429'])
    expect(ended.err).toContain(`HTTP_429: GET ${url}/ads answered 429 Too Many Requests.`)
    // The scheduler's own delay is a millisecond: what kept it was the header, never too early.
    expect((times[1] as number) - (times[0] as number)).toBeGreaterThan(990)
  })

  it('sends what the flow says, with the same idempotency key each time', async () => {
    const seen: { method: string | undefined; type: string | undefined; key: unknown }[] = []
    const bodies: string[] = []
    const url = await serve((request, response) => {
      const { method, headers } = request
      seen.push({ method, type: headers['content-type'], key: headers['idempotency-key'] })
      let body = ''
      request.on('data', (chunk) => {
        body += chunk
      })
      request.on('end', () => {
        bodies.push(body)
        response.writeHead(seen.length === 1 ? 503 : 201).end('made')
      })
    })
    const { jobs } = await reportOf(`
defaults: { retries: 1, backoff: { type: fixed, delay: 1ms } }
jobs:
  make: { http: { url: "${url}", method: POST, body: { size: 2 }, expect: 201 } }
`)
    expect(jobs.make).toMatchObject({ state: 'success', attempts: 2, result: 'made' })
    expect(bodies).toEqual(['{"size":2}', '{"size":2}'])
    expect(seen[0]).toMatchObject({ method: 'POST', type: 'application/json' })
    expect(seen[0]?.key).toContain(encodeURIComponent(`${jobs.make?.id}:`))
    expect(seen[1]?.key).toBe(seen[0]?.key)
  })

  it('is repeated after a refusal however long its page is', async () => {
    let asked = 0
    const url = await serve((_, response) => {
      asked += 1
      if (asked === 1) response.writeHead(503).end('sorry '.repeat(300_000))
      else response.end('"well"')
    })
    const { jobs } = await reportOf(`
defaults: { retries: 1, backoff: { type: fixed, delay: 1ms } }
jobs:
  page: { http: { url: "${url}" } }
`)
    expect(jobs.page).toMatchObject({ state: 'success', attempts: 2, result: 'well' })
  })

  it('is not repeated when it was wrong; when nobody answers, it is', async () => {
    const url = await serve((_, response) => response.writeHead(404).end('no such thing'))
    const { jobs } = await reportOf(`
defaults: { retries: 2, backoff: { type: fixed, delay: 1ms } }
jobs:
  wrong: { http: { url: "${url}/x" } }
  nobody: { http: { url: "http://127.0.0.1:1/" } }
`)
    expect(jobs.wrong).toMatchObject({ attempts: 1, error: { code: 'HTTP_404' } })
    expect(jobs.wrong?.error?.message).toBe(`GET ${url}/x answered 404 Not Found.\nno such thing`)
    expect(jobs.nobody).toMatchObject({ state: 'failed', attempts: 3 })
    expect(jobs.nobody?.error?.message).toMatch(/^GET http:\/\/127\.0\.0\.1:1\/ failed: /)
  })

  it('is broken off at its timeout', async () => {
    const url = await serve(() => {})
    const { jobs } = await reportOf(`jobs: { a: { http: { url: "${url}" }, timeout: 200ms } }`)
    expect(jobs.a?.error?.code).toBe('EXECUTION_TIMEOUT')
  })
})

describe('a module', () => {
  it('runs functions, with the results of their dependencies by name', async () => {
    const { jobs, ended } = await reportOf(
      `export default {
        name: 'calc',
        jobs: {
          two: { run: async ({ attempt, signal }) => ({ attempt, live: !signal.aborted }) },
          shell: { run: 'echo 40' },
          sum: { execute: ({ deps, progress }) => {
            progress({ done: 1, total: 2 })
            return deps.shell + deps.two.attempt + 1
          }, deps: ['two', 'shell'] },
          bad: { run() { throw Object.assign(new Error('no such table'), { code: 'E_TABLE' }) } },
        },
      }`,
      'flow.mjs',
    )
    expect(jobs.two?.result).toEqual({ attempt: 1, live: true })
    expect(jobs.sum?.result).toBe(42)
    expect(jobs.bad?.error).toMatchObject({ code: 'E_TABLE', message: 'no such table' })
    expect(jobs.bad?.error?.stack).toMatch(/flow\.mjs:\d+:\d+\)?$/)
    expect(ended.code).toBe(1)
  })

  it('in TypeScript runs where Node.js can, and else says what to do', async () => {
    const folder = inFolder({
      'package.json': '{ "type": "module" }',
      'flow.ts': 'export default { jobs: { a: { run: (): number => 1 } } }',
    })
    const { code, err } = await ax(['run', 'flow.ts'], folder)
    const canRun = 'typescript' in process.features && process.features.typescript !== false
    expect(code).toBe(canRun ? 0 : 2)
    if (!canRun) expect(err).toContain('does not run TypeScript. Use Node.js 22.18 or newer')
  })

  it('backs off as its function says', async () => {
    const { jobs } = await reportOf(
      `export default { jobs: {
        a: {
          run({ attempt }) { if (attempt < 3) throw new Error('again'); return attempt },
          retries: 2,
          backoff: (failure) => failure,
        },
      } }`,
      'flow.mjs',
    )
    expect(jobs.a).toMatchObject({ state: 'success', result: 3 })
  })

  it('retries as the file says now, whatever it said when it was another', async () => {
    const flowOf = (more: string) => `import { appendFileSync } from 'node:fs'
      export default { jobs: { a: {
        run() { appendFileSync('starts.txt', 'x'); throw new Error('no') }, ${more}
      } } }`
    const folder = inFolder({ 'flow.mjs': flowOf('retries: 2, backoff: () => 1') })
    await ax(['run', 'flow.mjs'], folder)
    writeFileSync(join(folder, 'flow.mjs'), flowOf(''))
    await ax(['run', 'flow.mjs', '--fresh'], folder)
    expect(readFileSync(join(folder, 'starts.txt'), 'utf8')).toHaveLength(3 + 1)
  })

  it('may submit further jobs, which are part of the run', async () => {
    const { report } = await reportOf(
      `export default { jobs: { split: { run: async ({ submit }) => {
        await submit([1, 2].map((n) => ({ id: 'part-' + n, execute: () => n })))
      } } } }`,
      'flow.mjs',
      ...['--store', 'memory'],
    )
    expect(report.ok).toBe(true)
    expect(report.jobs.map(({ name, result }) => [name, result])).toEqual([
      ['split', null],
      ['part-1', 1],
      ['part-2', 2],
    ])
  })

  it('cannot keep the command from ending by ignoring its signal', async () => {
    const folder = inFolder({
      'flow.mjs': `export default { jobs: {
        deaf: { run: () => new Promise(() => setInterval(() => {}, 1000)), timeout: '100ms' },
      } }`,
    })
    const { code, out } = await ax(['run', 'flow.mjs'], folder)
    expect(out).toContain('EXECUTION_TIMEOUT')
    expect(code).toBe(1)
  })
})

describe('Ctrl-C', () => {
  const SLOW = `
jobs:
  slow: { run: 'echo $$ > shell; while [ ! -f go ]; do sleep 0.02; done; echo finished' }
  next: { run: 'touch started', deps: [slow] }
`

  it('lets what runs end, starts nothing more, and exits with 130', async () => {
    const folder = inFolder({ 'flow.yaml': SLOW })
    const run = new Ax(['run', 'flow.yaml'], folder)
    await run.seen(/slow +running/)
    run.child.kill('SIGINT')
    await run.seen(/Stopping: 1 running job has up to 30 s to end/)
    writeFileSync(join(folder, 'go'), '')
    const { code, out } = await run.ended
    expect(out).toMatch(/\nslow +✓ success/)
    expect(out).toMatch(/\nnext +○ ready .*The run was interrupted\.\n/)
    expect(out).toMatch(/interrupted after .+: 1 not finished, 1 of 2 succeeded\. Run the same/)
    expect(out).not.toContain('Aborting')
    expect(existsSync(join(folder, 'started'))).toBe(false)
    expect(code).toBe(130)
  })

  it('a second time aborts what runs', async () => {
    const folder = inFolder({ 'flow.yaml': SLOW })
    const run = new Ax(['run', 'flow.yaml'], folder)
    await run.seen(/slow +running/)
    await written(join(folder, 'shell'))
    run.child.kill('SIGINT')
    await run.seen(/Stopping/)
    run.child.kill('SIGTERM')
    const { code, out } = await run.ended
    expect(out).toContain('Aborting 1 running job.')
    expect(out).toMatch(/\nslow +○ ready +0\/1 .*The run was interrupted\.\n/)
    await gone(readFileSync(join(folder, 'shell'), 'utf8'))
    expect(code).toBe(130)
  })

  it('aborts by itself when the time to drain is over', async () => {
    const folder = inFolder({ 'flow.yaml': SLOW })
    const run = new Ax(['run', 'flow.yaml', '--drain', '50ms'], folder)
    await run.seen(/slow +running/)
    run.child.kill('SIGINT')
    const { code, out } = await run.ended
    expect(out).toContain('Aborting 1 running job.')
    expect(code).toBe(130)
  })

  it('a third time leaves at once, and nothing stays behind', async () => {
    const folder = inFolder({
      'flow.yaml': `
jobs: { deaf: { run: 'trap "" TERM; echo $$ > shell; while :; do sleep 0.1; done' } }
`,
    })
    const run = new Ax(['run', 'flow.yaml'], folder)
    await run.seen(/deaf +running/)
    await written(join(folder, 'shell'))
    run.child.kill('SIGINT')
    await run.seen(/Stopping/)
    run.child.kill('SIGTERM')
    await run.seen(/Aborting/)
    run.child.kill('SIGHUP')
    const { code, out } = await run.ended
    expect(out).not.toContain('succeeded')
    expect(code).toBe(130)
    if (existsSync(join(folder, 'shell'))) {
      await gone(readFileSync(join(folder, 'shell'), 'utf8'))
    }
  })

  it('pressed when everything is about to be done does not spoil a success', async () => {
    const folder = inFolder({
      'flow.yaml': `jobs: { slow: { run: 'while [ ! -f go ]; do sleep 0.02; done' } }`,
    })
    const run = new Ax(['run', 'flow.yaml'], folder)
    await run.seen(/slow +running/)
    run.child.kill('SIGINT')
    await run.seen(/Stopping/)
    writeFileSync(join(folder, 'go'), '')
    expect((await run.ended).code).toBe(0)
  })
})

describe('a wrong call', () => {
  it('with an invalid file ends with 2, tells every problem, and starts nothing', async () => {
    const folder = inFolder({
      'flow.yaml': `jobs:
  a: { run: 'touch started', timeot: 8s }
  b: { run: 'true', deps: [calc_reprot] }
  calc_report: { run: 'true' }
`,
    })
    const { code, out, err } = await ax(['run', 'flow.yaml'], folder)
    expect(code).toBe(2)
    expect(out).toBe('')
    expect(err.split('\n')).toEqual([
      'This flow cannot run: there are 2 problems in its file.',
      "  flow.yaml:2:30: jobs.a.timeot is no key of a job. Did you mean 'timeout'?",
      '  flow.yaml:3:28: jobs.b.deps[0] must be a job of this flow ' +
        '(did you mean \'calc_report\'?), got "calc_reprot".',
      '',
    ])
    expect(existsSync(join(folder, 'started'))).toBe(false)
  })

  it.each([
    [['run', 'flow.yaml', '--jsno'], 'Did you mean --json?'],
    [['rnu', 'flow.yaml'], 'Did you mean run?'],
    [['run'], "missing required argument 'flow'"],
    [['run', 'a.yaml', 'b.yaml'], 'too many arguments'],
    [['run', 'flow.yaml', '--concurrency', '0'], 'It must be a whole number of at least 1.'],
    [['run', 'flow.yaml', '--drain', 'soon'], "It must be a time such as '500ms'"],
    [['run', 'nothing.yaml'], 'There is no such file.'],
    [[], 'Usage: ax'],
  ])('%j ends with 2 and a hint', async (args, hint) => {
    const { code, out, err } = await ax(args)
    expect(err).toContain(hint)
    expect(out).toBe('')
    expect(code).toBe(2)
  })

  it.each([['--help'], ['run', '--help'], ['--version']])('%s ends with 0', async (...args) => {
    const { code, out, err } = await ax(args)
    expect(err).toBe('')
    expect(out).toMatch(args.includes('--version') ? /^\d+\.\d+\.\d+\n$/ : /130 {2}interrupted/)
    expect(code).toBe(0)
  })

  it('says in its help how a run is resumed', async () => {
    const { out } = await ax(['run', '--help'])
    expect(out).toContain('the same command resumes it')
    expect(out).toContain('--fresh')
  })
})
