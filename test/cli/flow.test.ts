// Owns how flow files are read and checked: what is accepted, and what every problem says.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { EXIT } from '../../src/cli/exit.ts'
import { type Flow, toFlow } from '../../src/cli/flow.ts'
import { load } from '../../src/cli/load.ts'
import { FlowFault } from '../../src/cli/problems.ts'
import { root } from '../sources.ts'
import { folderOf } from './helpers.ts'

const removals: (() => void)[] = []
afterAll(() => {
  for (const remove of removals) remove()
})

/** The path of a new file, alone in a folder of its own. */
function fileOf(text: string, name = 'flow.yaml'): string {
  const { folder, remove } = folderOf({ [name]: text })
  removals.push(remove)
  return join(folder, name)
}

async function read(text: string, name?: string): Promise<Flow> {
  return toFlow(await load(fileOf(text, name)))
}

/** What is wrong with a file: `line:column sentence`, in the order in which it is told. */
async function problemsOf(text: string, name = 'flow.yaml'): Promise<string[]> {
  const file = fileOf(text, name)
  try {
    toFlow(await load(file))
  } catch (error) {
    if (!(error instanceof FlowFault)) throw error
    const lines = error.message.replaceAll(file, '').split('\n').slice(1)
    return lines.map((line) => line.trim().replace(/^:\s*/, ''))
  }
  throw new Error('there is nothing wrong with this file')
}

describe('a flow file', () => {
  it('is read from YAML with everything in it', async () => {
    const flow = await read(`
name: nightly
pools: { default: { concurrency: 4 }, db: { concurrency: 2 } }
defaults: { timeout: 30s, retries: 2, pool: db }
jobs:
  copy:
    run: node copy.mjs
    priority: 70
    retries: 1
    backoff: { type: fixed, delay: 2s }
    delay: 1s
    enqueueTimeout: 1m
    key: copy
    exclusive: disk
    idempotent: false
  ping: { http: { url: "http://127.0.0.1/x", method: post, body: { a: 1 }, expect: [200, 204] } }
  rest: { sleep: 1.5s, deps: [copy, { id: ping, on: end }], depMode: any, pool: default }
`)
    expect(flow.name).toBe('nightly')
    expect({ ...flow.pools }).toEqual({ default: { concurrency: 4 }, db: { concurrency: 2 } })
    expect(flow.jobs).toEqual([
      {
        name: 'copy',
        work: { kind: 'run', command: 'node copy.mjs' },
        deps: [],
        depMode: undefined,
        pool: 'db',
        settings: {
          timeout: 30_000,
          retries: 1,
          priority: 70,
          backoff: { type: 'fixed', delay: 2_000 },
          delay: 1_000,
          enqueueTimeout: 60_000,
          key: 'copy',
          exclusive: 'disk',
          idempotent: false,
        },
      },
      {
        name: 'ping',
        work: {
          kind: 'http',
          request: {
            url: 'http://127.0.0.1/x',
            method: 'POST',
            headers: {},
            body: { a: 1 },
            expect: [200, 204],
          },
        },
        deps: [],
        depMode: undefined,
        pool: 'db',
        settings: { timeout: 30_000, retries: 2 },
      },
      {
        name: 'rest',
        work: { kind: 'sleep', ms: 1_500 },
        deps: [
          { name: 'copy', on: 'success' },
          { name: 'ping', on: 'end' },
        ],
        depMode: 'any',
        pool: 'default',
        settings: { timeout: 30_000, retries: 2 },
      },
    ])
  })

  it('may name a job that comes later, and share settings by anchors and merge keys', async () => {
    const flow = await read(`
jobs:
  b: { <<: &slow { timeout: 5m, retries: 1 }, run: b, deps: [a] }
  a: { <<: *slow, run: a }
`)
    expect(flow.jobs.map(({ name, settings }) => [name, settings])).toEqual([
      ['b', { timeout: 300_000, retries: 1 }],
      ['a', { timeout: 300_000, retries: 1 }],
    ])
  })

  it('is called like its file if it has no name', async () => {
    expect((await read('{ "jobs": { "a": { "run": "true" } } }', 'Night-Run.json')).name).toBe(
      'Night-Run',
    )
  })

  it('is a module whose jobs are functions', async () => {
    const flow = await read(
      `export default { jobs: {
        a: { run: async () => 1, retries: 1, backoff: (attempt) => attempt },
        b: { execute() {}, deps: ['a'] },
        c: { run: 'echo hi' },
      } }`,
      'flow.mjs',
    )
    expect(flow.jobs.map(({ work }) => work.kind)).toEqual(['call', 'call', 'run'])
    expect(flow.jobs[0]?.settings.backoff).toBeTypeOf('function')
  })

  it('takes names that objects have by themselves for what they are', async () => {
    const flow = await read(
      'jobs: { __proto__: { run: a }, toString: { run: b, deps: [__proto__] } }',
    )
    expect(flow.jobs.map(({ name }) => name)).toEqual(['__proto__', 'toString'])
    expect(await problemsOf('jobs: { a: { run: a, deps: [constructor] } }')).toHaveLength(1)
  })
})

describe('the problems of a flow file', () => {
  it('are told all at once, in order, each with its place and the nearest name', async () => {
    const problems = await problemsOf(`
nmae: x
pools:
  data: { concurency: 2 }
  web: { concurrency: 0 }
defaults: { retires: 1, pool: dtaa }
jobs:
  fetch_sales:
    run: node fetch.mjs
    timeot: 8s
    priority: 500
  calc: { run: node calc.mjs, http: { url: "http://x/" }, deps: [fetch_sale] }
  send: { deps: calc, timeout: soon, backoff: { type: exponental } }
  rest: { sleep: 2 parsecs, depMode: 2, deps: [{ id: calc, when: end }] }
`)
    expect(problems).toEqual([
      "2:1: nmae is no key of a flow. Did you mean 'name'?",
      "4:11: pools.data.concurency is no key of a pool. Did you mean 'concurrency'?",
      '5:23: pools.web.concurrency must be an integer of at least 1, got 0.',
      "6:13: defaults.retires is no key of 'defaults'. Did you mean 'retries'?",
      "6:31: defaults.pool must be one of the flow's pools (did you mean 'data'?), got \"dtaa\".",
      "10:5: jobs.fetch_sales.timeot is no key of a job. Did you mean 'timeout'?",
      '11:15: jobs.fetch_sales.priority must be an integer from 1 to 100, got 500.',
      '12:31: jobs.calc has run and http, and a job does one thing only.',
      '12:66: jobs.calc.deps[0] must be a job of this flow ' +
        '(did you mean \'fetch_sales\'?), got "fetch_sale".',
      '13:3: jobs.send does nothing: it needs one of run, http, sleep.',
      '13:17: jobs.send.deps must be a list of jobs, got "calc".',
      '13:32: jobs.send.timeout must be a number of milliseconds or a text such as ' +
        "'250ms', '5s', '10m', '1h', '7d', got \"soon\".",
      "13:55: jobs.send.backoff.type must be 'fixed' or 'exponential' " +
        '(did you mean \'exponential\'?), got "exponental".',
      "14:18: jobs.rest.sleep must be a number of milliseconds or a text such as '250ms', " +
        "'5s', '10m', '1h', '7d', got \"2 parsecs\".",
      "14:38: jobs.rest.depMode must be 'all', 'any' or a number from 1 to its " +
        '1 dependencies, got 2.',
      '14:60: jobs.rest.deps[0].when is no key of a dependency. Its keys are: id, on.',
    ])
  })

  it.each([
    ['{ type: fixed, factor: 2 }', 'jobs.a.backoff.factor has no effect on a fixed delay.'],
    ['{ type: fixed, delay: 2s, max: 1s }', 'jobs.a.backoff.max must be at least the delay.'],
    ['{ delay: 2s }', "jobs.a.backoff has no type: 'fixed' or 'exponential'."],
    ['{ type: exponential, factor: 0.5 }', 'must be a number from 1 to 1000000, got 0.5.'],
    ['{ type: exponential, factor: 2000000 }', 'must be a number from 1 to 1000000, got 2000000.'],
  ])('tell of the back-off %s', async (backoff, expected) => {
    const problems = await problemsOf(`jobs: { a: { run: a, retries: 1, backoff: ${backoff} } }`)
    expect(problems).toEqual([expect.stringContaining(expected)])
  })

  it('tell of a back-off that is never used, unless it is there for others', async () => {
    expect(await problemsOf('jobs: { a: { run: a, backoff: { type: fixed } } }')).toEqual([
      '1:22: jobs.a.backoff has no effect without retries.',
    ])
    const flow = await read(
      'defaults: { backoff: { type: fixed } }\njobs: { a: { run: a }, b: { run: b, retries: 1 } }',
    )
    expect(flow.jobs.map(({ settings }) => settings)).toEqual([
      {},
      { retries: 1, backoff: { type: 'fixed' } },
    ])
  })

  it('show the loop of a cycle', async () => {
    const problems = await problemsOf(`
jobs:
  a: { run: a, deps: [c] }
  b: { run: b, deps: [a] }
  c: { run: c, deps: [b] }
`)
    expect(problems).toEqual([
      '3:22: jobs.a.deps closes a loop, which could never run: a -> b -> c -> a.',
    ])
    expect(await problemsOf('jobs: { a: { run: a, deps: [a] } }')).toEqual([
      '1:28: jobs.a.deps closes a loop, which could never run: a -> a.',
    ])
  })

  it.each([
    ['an empty file', '', ["the flow must be an object with 'jobs', got null."]],
    [
      'no jobs',
      'name: x',
      ['1:1: jobs must be an object of jobs, each under its name, got undefined.'],
    ],
    ['empty jobs', 'jobs: {}', ['1:1: jobs is empty: a flow needs a job.']],
    [
      'a list of jobs',
      'jobs: [a]',
      ['1:7: jobs must be an object of jobs, each under its name, got ["a"].'],
    ],
    [
      'an empty job',
      'jobs: { a: }',
      ["1:9: jobs.a must be an object such as '{ run: ... }', got null."],
    ],
    [
      'a function name',
      'jobs: { a: { execute: x } }',
      [
        '1:9: jobs.a does nothing: it needs one of run, http, sleep.',
        expect.stringContaining('1:14: jobs.a.execute is no key of a job.'),
      ],
    ],
    [
      'a slash in the name',
      'name: a/b\njobs: { a: { run: a } }',
      ["1:7: name must be a text without '/' and '#', got \"a/b\"."],
    ],
    [
      'a key given twice',
      'jobs: { a: { run: a, key: k }, b: { run: b, key: k } }',
      ['1:50: jobs.b.key must be unique, and a has it too.'],
    ],
    [
      'a name that needs quotes',
      'jobs: { "a b": { run: a, x: 1 } }',
      [expect.stringContaining('1:26: jobs["a b"].x is no key of a job.')],
    ],
    [
      'a very long name',
      `jobs: { ${'x'.repeat(101)}: { run: a } }`,
      [expect.stringContaining('must be a text of at most 100 bytes on one line')],
    ],
  ])('tell of %s', async (_, text, expected) => {
    expect(await problemsOf(text)).toEqual(expected)
  })

  it.each([
    [
      'url: "ftp://x"',
      'jobs.a.http.url must be an address that begins with http:// or https://, got "ftp://x".',
    ],
    ['method: GET', 'jobs.a.http has no url.'],
    ['url: "http://x", method: PSOT', '(did you mean \'POST\'?), got "PSOT".'],
    ['url: "http://x", body: 1', 'jobs.a.http.body cannot be sent by GET: give a method.'],
    ['url: "http://x", headers: { a: 1 }', 'jobs.a.http.headers.a must be a text, got 1.'],
    ['url: "http://x", headers: { "a b": x }', 'must be headers that can be sent'],
    [
      'url: "http://x", expect: ok',
      'jobs.a.http.expect must be an integer from 100 to 599, got "ok".',
    ],
    ['url: "http://x", expect: []', 'must be a status, or a list of at least one, got [].'],
    [
      'url: "http://x", hedaers: {}',
      "jobs.a.http.hedaers is no key of a request. Did you mean 'headers'?",
    ],
  ])('tell of the request { %s }', async (request, expected) => {
    const problems = await problemsOf(`jobs: { a: { http: { ${request} } } }`)
    expect(problems).toEqual([expect.stringContaining(expected)])
  })

  it('tell where YAML and JSON are broken', async () => {
    const unclosed = await problemsOf('jobs:\n  a: { run: "x }\n')
    expect(unclosed[0]).toMatch(/^\d+:\d+: Missing closing "quote\.$/)
    expect(await problemsOf('jobs: { a: { run: x }, a: { run: y } }')).toEqual([
      '1:24: Map keys must be unique.',
    ])
    expect(await problemsOf('{ "jobs": { "a": { "run": } } }', 'flow.json')).toEqual([
      expect.stringMatching(/^Unexpected token '}'/),
    ])
    expect(await problemsOf('{ "jobs": { "a": { "run": "x" } } ] }', 'flow.json')).toEqual([
      expect.stringMatching(/^1:\d+: /),
    ])
    expect(await problemsOf('{ "jobs": {', 'flow.json')).toEqual([expect.stringMatching(/^1:12: /)])
    expect(
      await problemsOf('{\n\t"jobs": { "a": {\n\t\t"run": "x", "tries": 1 } } }', 'flow.json'),
    ).toEqual([expect.stringMatching(/^3:15: jobs\.a\.tries is no key of a job/)])
    expect(
      await problemsOf('{ "jobs": { "a": { "run": "x" }, "a": { "run": "y" } } }', 'flow.json'),
    ).toEqual(['1:34: Map keys must be unique.'])
  })

  it('say what to do about a second document, and about a number for a name', async () => {
    expect(await problemsOf('jobs: { a: { run: a } }\n---\njobs: {}\n')).toEqual([
      '2:1: Another document begins here, and a flow is one. Leave it out, or give it its own file.',
    ])
    expect(await problemsOf('jobs: { 1: { run: a }, b: { run: b, deps: [1] } }')).toEqual([
      '1:44: jobs.b.deps[0] must be a text: put quotes around 1.',
    ])
  })

  it('tell of modules that cannot be loaded, or export no flow', async () => {
    expect(await problemsOf('export const jobs = {}', 'flow.mjs')).toEqual([
      expect.stringContaining("no default export, which is where a flow has to be. Write 'export"),
    ])
    expect((await problemsOf('throw new Error("no database")', 'flow.mjs'))[0]).toContain(
      'The module cannot be loaded. Error: no database',
    )
    expect(await problemsOf('export default { jobs: { a: { execute: 5 } } }', 'flow.mjs')).toEqual([
      expect.stringContaining('jobs.a.execute must be a function'),
    ])
  })

  it('tell of files that are not there, or are no flows', async () => {
    const file = fileOf('jobs: { a: { run: a } }')
    await expect(load(file.replace('flow.yaml', 'flwo.yaml'))).rejects.toThrow(
      "There is no such file. Did you mean 'flow.yaml'?",
    )
    await expect(load(join(file, '..'))).rejects.toThrow('This is a folder.')
    await expect(load(fileOf('', 'flow.toml'))).rejects.toThrow(
      'A flow is a file that ends in .yaml, .yml, .json, .js, .mjs, .cjs, .ts, .mts or .cts.',
    )
  })

  it('are told without expanding an alias bomb', async () => {
    const lines = ['a0: &a0 [x, x, x, x, x, x, x, x, x, x]']
    for (let level = 1; level < 9; level += 1) {
      lines.push(
        `a${level}: &a${level} [${Array(10)
          .fill(`*a${level - 1}`)
          .join(', ')}]`,
      )
    }
    expect(await problemsOf(lines.join('\n'))).toEqual([
      expect.stringContaining('Excessive alias count'),
    ])
  })
})

describe('the documentation', () => {
  const page = readFileSync(join(root, 'docs', 'flow.md'), 'utf8')
  const blocks = (language: string) =>
    [...page.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)]
      .filter(([, name]) => name === language)
      .map(([, , text]) => text as string)

  it('shows flows that are valid', async () => {
    const names = await Promise.all(
      blocks('yaml').map(async (text) => (await read(text)).jobs.length),
    )
    expect(names).toEqual([5, 1])
    const [module] = blocks('js')
    expect((await read(module as string, 'flow.mjs')).jobs).toHaveLength(3)
  })

  it('names every key of a job, and no other', async () => {
    const [problem] = await problemsOf(
      'export default { jobs: { a: { run() {}, qqqqqqqqqqqq: 1 } } }',
      'flow.mjs',
    )
    const keys = (/Its keys are: (.*)\.$/.exec(problem ?? '')?.[1] ?? '').split(', ')
    const section = page.slice(page.indexOf('### A job'), page.indexOf('## Commands'))
    const documented = [...section.matchAll(/^\| `(\w+)`/gm)].map(([, key]) => key)
    expect(documented.sort()).toEqual(keys.sort())
  })

  it('lists the exit codes', () => {
    const section = page.slice(page.indexOf('## Exit codes'))
    const codes = [...section.matchAll(/^\| (\d+) \|/gm)].map(([, code]) => Number(code))
    expect(codes).toEqual(Object.values(EXIT))
  })
})
