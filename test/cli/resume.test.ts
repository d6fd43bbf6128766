// Owns what becomes of a run beyond one process: resumed, refused, followed, begun anew.
// May never sleep for luck: it waits for lines and files, and so do the flows.

import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { prepare } from '../../scripts/prepare.mjs'
import { changesOf, definitionOf } from '../../src/cli/definition.ts'
import type { RunReport } from '../../src/cli/report.ts'
import type { Work } from '../../src/cli/work.ts'
import { startRedis } from '../servers/redis.ts'
import { describeOnRedis } from '../servers/suites.ts'
import { Ax, ax, type Ended, gone, ownFolders, written } from './helpers.ts'

beforeAll(prepare, 120_000)

const { inFolder } = ownFolders()

function write(folder: string, file: string, text = ''): void {
  writeFileSync(join(folder, file), text)
}

function read(folder: string, file: string): string {
  return readFileSync(join(folder, file), 'utf8')
}

/** The lines of a file that commands write to: who has run, and how often. */
function linesOf(folder: string, file: string): string[] {
  return existsSync(join(folder, file)) ? read(folder, file).trim().split('\n') : []
}

async function kill(run: Ax): Promise<void> {
  run.child.kill('SIGKILL')
  await run.ended
}

const RUN = ['run', 'flow.yaml']

function reportOf(ended: Ended): RunReport {
  return JSON.parse(ended.out) as RunReport
}

/** `b` waits for a file, and writes down that it is alive as long as it does. */
const WAITS = `
name: nightly
jobs:
  a: { run: 'echo a >> ran; echo 1' }
  b: { run: 'echo b >> ran; echo $$ > pid; while [ ! -f go ]; do echo beat >> beats; sleep 0.03; done', deps: [a] }
  c: { run: 'echo c >> ran; cat "$AX_DEPS"', deps: [b] }
`

/** A run whose process was killed while `b` ran. */
async function killed(folder: string, args: readonly string[] = RUN): Promise<void> {
  const run = new Ax(args, folder)
  await written(join(folder, 'pid'))
  await kill(run)
}

describe('the same command again', () => {
  it('after kill -9 runs only what is left, and ends first what the dead process has left', async () => {
    const folder = inFolder({
      'flow.yaml': WAITS.replace(
        'while',
        'if [ -f beats ]; then n=$(wc -l < beats); sleep 0.3; test $n = $(wc -l < beats) && echo alone; exit; fi; while',
      ),
    })
    await killed(folder)
    await written(join(folder, 'beats'))
    const orphan = read(folder, 'pid')
    const { code, out } = await ax(RUN, folder)
    expect(out).toMatch(/^Ended a command that a process which died had left behind\.\n/)
    expect(out).toContain('Resuming run 1 of nightly: 1 of 3 jobs are done.\n')
    expect(out).toContain('\nc: {"b":"alone"}\n')
    expect(linesOf(folder, 'ran')).toEqual(['a', 'b', 'b', 'c'])
    expect(code).toBe(0)
    await gone(orphan)
  })

  it('after a failure tries again what failed, and runs the branch that it had cancelled', async () => {
    const folder = inFolder({
      'flow.yaml': `
jobs:
  a: { run: 'echo a >> ran' }
  b: { run: 'echo b >> ran; test -f mended', deps: [a] }
  c: { run: 'echo c >> ran', deps: [b] }
  d: { run: 'echo d >> ran', deps: [{ id: b, on: end }] }
`,
    })
    const first = await ax(RUN, folder)
    expect(first.out).toContain('Run the same command again to resume it.')
    expect(first.code).toBe(1)
    write(folder, 'mended')
    const again = await ax([...RUN, '--json'], folder)
    expect(again.code).toBe(0)
    expect(reportOf(again)).toMatchObject({ run: 1, resumed: true, ok: true, resumable: false })
    expect(linesOf(folder, 'ran')).toEqual(['a', 'b', 'd', 'b', 'c'])
  })

  it('after Ctrl-C runs what is left; once all is done, the next one begins a new run', async () => {
    const folder = inFolder({ 'flow.yaml': WAITS })
    const run = new Ax(RUN, folder)
    await written(join(folder, 'pid'))
    run.child.kill('SIGINT')
    await run.seen(/Stopping: 1 running job/)
    write(folder, 'go')
    const stopped = await run.ended
    expect(stopped.code).toBe(130)
    expect(stopped.out).toMatch(/2 of 3 succeeded\. Run the same command again to resume it\.\n$/)
    const second = await ax(RUN, folder)
    expect(second.out).toContain('Resuming run 1 of nightly: 2 of 3 jobs are done.\n')
    expect(second.code).toBe(0)
    const third = await ax([...RUN, '--json'], folder)
    expect(reportOf(third)).toMatchObject({ run: 2, resumed: false, ok: true })
    expect(linesOf(folder, 'ran')).toEqual(['a', 'b', 'c', 'a', 'b', 'c'])
  })

  it('begins a run that died before it had any job', async () => {
    const folder = inFolder({ 'flow.yaml': WAITS, go: '' })
    const file = join(folder, 'runs.db')
    const { AxScheduler } = await import('../../src/index.ts')
    const { newRun } = await import('../../src/cli/runs.ts')
    const { sqliteStore } = await import('../../src/stores/sqlite/index.ts')
    const store = sqliteStore(file)
    const scheduler = new AxScheduler({ store, autoStart: false })
    expect((await newRun(scheduler, 'nightly', 0)).id).toBe('nightly#1')
    await scheduler.close()
    await store.close()
    const ended = await ax([...RUN, '--store', 'runs.db', '--json'], folder)
    expect(reportOf(ended)).toMatchObject({ run: 1, resumed: false, ok: true })
    expect(existsSync(join(folder, '.ax'))).toBe(false)
  })
})

describe('what must not be done twice', () => {
  const PAYS = `
name: nightly
jobs:
  a: { run: 'echo a >> ran', deps: [b] }
  b: { run: 'echo b >> ran; echo $$ > pid; while [ ! -f go ]; do sleep 0.03; done', idempotent: false }
  other: { run: 'echo other >> ran; while [ ! -f go ]; do sleep 0.03; done' }
`

  it('is not repeated by the command that finds it lost, only by the next one', async () => {
    const folder = inFolder({ 'flow.yaml': PAYS })
    await killed(folder)
    write(folder, 'go')
    write(folder, 'flow.yaml', PAYS.replace('idempotent: false', 'idempotent: false, priority: 60'))
    const found = await ax(RUN, folder)
    expect(found.code).toBe(1)
    expect(found.out).toContain('b was running when the process of this run died')
    expect(found.out).toContain('OUTCOME_UNKNOWN')
    expect(linesOf(folder, 'ran')).toContain('other')
    expect(linesOf(folder, 'ran').filter((line) => line !== 'other')).toEqual(['b'])
    expect((await ax(RUN, folder)).code).toBe(0)
    expect(linesOf(folder, 'ran').slice(-2)).toEqual(['b', 'a'])
  })

  it('is not repeated by a command that takes the run over from one that has died', async () => {
    const folder = inFolder({ 'flow.yaml': PAYS })
    const owner = new Ax(RUN, folder)
    await written(join(folder, 'pid'))
    const second = new Ax(RUN, folder)
    await second.seen(/only follows it/)
    await kill(owner)
    write(folder, 'go')
    const { code, out } = await second.ended
    expect(out).toContain('b was running when the process of this run died')
    expect(code).toBe(1)
    expect(linesOf(folder, 'ran').filter((line) => line === 'b')).toEqual(['b'])
  })
})

describe('after two crashes', () => {
  it('what was running both times runs one at a time, and that is said', async () => {
    const job = (name: string) =>
      `{ run: 'echo ${name} >> ran; while [ ! -f go ]; do sleep 0.03; done; mkdir alone && sleep 0.2 && rmdir alone' }`
    const folder = inFolder({ 'flow.yaml': `jobs: { a: ${job('a')}, b: ${job('b')} }` })
    for (const starts of [2, 4]) {
      const run = new Ax(RUN, folder)
      while (linesOf(folder, 'ran').length < starts) await new Promise((r) => setTimeout(r, 10))
      await kill(run)
    }
    write(folder, 'go')
    const { code, out } = await ax(RUN, folder)
    expect(out).toContain('2 jobs were running at two crashes, and one of them may be the cause: ')
    expect(code).toBe(0)
  })
})

describe('a lane', () => {
  it('that a stopped run keeps is named, with the run and what to do', async () => {
    const job = "{ run: 'echo $$ > pid; while [ ! -f go ]; do sleep 0.03; done', exclusive: disk }"
    const folder = inFolder({
      'flow.yaml': `jobs: { a: ${job} }`,
      'two.yaml': `jobs: { b: ${job} }`,
    })
    await killed(folder)
    const other = new Ax(['run', 'two.yaml'], folder)
    await other.seen(
      /b waits for its lane "disk", which flow#1\/a keeps, and no process runs run flow#1: finish it with the command that began it/,
    )
    other.child.kill('SIGINT')
    const { code, out } = await other.ended
    expect(code).toBe(130)
    expect(out).toContain('The run was interrupted. It waits for its lane "disk"')
    write(folder, 'go')
    expect((await ax(RUN, folder)).code).toBe(0)
    expect((await ax(['run', 'two.yaml'], folder)).code).toBe(0)
  })
})

describe('another file of the same name', () => {
  it('is not taken for the one that began a run, which is told with what helps', async () => {
    const jobs = "jobs: { a: { run: 'echo a >> ran' }, b: { run: 'exit 1' } }"
    const folder = inFolder({ 'flow.yaml': jobs, 'sub/flow.yaml': jobs, 'sub/named.yaml': '' })
    expect((await ax(RUN, folder)).code).toBe(1)
    const refused = await ax(['run', 'sub/flow.yaml'], folder)
    expect(refused.code).toBe(2)
    expect(refused.err).toContain('Run 1 of flow is not finished, and another file has begun it: /')
    expect(refused.err).toContain("/flow.yaml. Give this flow a 'name:' of its own, or ")
    expect(existsSync(join(folder, 'sub', 'ran'))).toBe(false)
    write(folder, 'sub/named.yaml', `name: sub\n${jobs}`)
    expect((await ax(['run', 'sub/named.yaml'], folder)).code).toBe(1)
    expect(linesOf(folder, 'sub/ran')).toEqual(['a'])
    const fresh = await ax(['run', 'sub/flow.yaml', '--fresh'], folder)
    expect(fresh.out).toContain('Giving up run 1 of flow')
    expect(linesOf(folder, 'sub/ran')).toEqual(['a', 'a'])
  })
})

describe('an edited file', () => {
  it('changes nothing about the jobs that it leaves as they are', async () => {
    const flow = `
name: nightly
jobs:
  late: { run: 'echo late >> ran', delay: 1h }
  b: { run: 'exit 1' }
`
    const folder = inFolder({ 'flow.yaml': flow })
    const run = new Ax(RUN, folder)
    await run.seen(/b +failed/)
    run.child.kill('SIGINT')
    await run.ended
    write(folder, 'flow.yaml', flow.replace('exit 1', 'exit 2'))
    const again = new Ax(RUN, folder)
    await again.seen(/b +failed/)
    again.child.kill('SIGINT')
    await again.ended
    const { sqliteStore } = await import('../../src/stores/sqlite/index.ts')
    const store = sqliteStore(join(folder, '.ax', 'ax.db'))
    const [late, b] = await store.get(['nightly#1/late', 'nightly#1/b'])
    await store.close()
    expect(late?.seq).toBeLessThan(b?.seq as number)
    expect(b?.starts).toBe(1)
  })

  it('fits if what has succeeded is unchanged: others change, come and go', async () => {
    const folder = inFolder({
      'flow.yaml': `
name: nightly
jobs:
  a: { run: 'echo a >> ran' }
  b: { run: 'exit 1', deps: [a] }
  c: { run: 'echo old >> ran', deps: [b] }
  old: { run: 'exit 2' }
`,
    })
    expect((await ax(RUN, folder)).code).toBe(1)
    write(
      folder,
      'flow.yaml',
      `
name: nightly
defaults: { timeout: 20s }
jobs:
  new: { run: 'echo new >> ran', deps: [a] }
  c: { run: 'echo c >> ran', deps: [b, new] }
  b: { run: 'echo b >> ran', deps: [a] }
  a: { run: 'echo a >> ran' }
`,
    )
    const again = await ax([...RUN, '--json'], folder)
    const report = reportOf(again)
    expect(report).toMatchObject({ run: 1, resumed: true, ok: true })
    expect(report.jobs.map(({ name }) => name)).toEqual(['new', 'c', 'b', 'a'])
    const [first, , , last] = linesOf(folder, 'ran')
    expect([first, last]).toEqual(['a', 'c'])
    expect(linesOf(folder, 'ran').sort()).toEqual(['a', 'b', 'c', 'new'])
  })

  it('that changes what has succeeded is refused with the difference, and nothing is touched', async () => {
    const flow = `
name: nightly
jobs:
  a: { run: 'echo a >> ran' }
  b: { run: 'echo b >> ran', deps: [a] }
  x: { run: 'echo x >> ran' }
  c: { run: 'echo c >> ran; test -f mended', deps: [b, x] }
`
    const folder = inFolder({ 'flow.yaml': flow })
    await ax(RUN, folder)
    const before = linesOf(folder, 'ran')
    const edited = flow
      .replace("'echo a >> ran'", "'echo A >> ran'")
      .replace('deps: [a]', 'deps: [a, c]')
      .replace('deps: [b, x]', 'deps: []')
      .replace(/ {2}x:.*\n/, '')
    write(folder, 'flow.yaml', edited)
    const refused = await ax(RUN, folder)
    expect(refused.code).toBe(2)
    expect(refused.err.split('\n')).toEqual([
      'This flow cannot run: Run 1 of nightly is not finished, and what has succeeded in it is not ' +
        'what the file says now:',
      '  a: run "echo a >> ran" -> run "echo A >> ran"',
      '  b: deps [a] -> [a, c]',
      '  x: it is in the file no more.',
      'Undo that to resume the run, or start over with --fresh.',
      '',
    ])
    expect(linesOf(folder, 'ran')).toEqual(before)
    write(folder, 'flow.yaml', flow)
    write(folder, 'mended')
    const resumed = await ax(RUN, folder)
    expect(resumed.out).toContain('Resuming run 1 of nightly: 3 of 4 jobs are done.')
    write(folder, 'flow.yaml', edited.replace('[a, c]', '[a]'))
    expect((await ax(RUN, folder)).code).toBe(0)
  })
})

describe('the difference that is told', () => {
  const long = (end: string) => `echo ${'x'.repeat(120)} ${end}`
  const request = (more: object) => ({
    kind: 'http' as const,
    request: { url: 'http://a/', method: 'POST', headers: {}, body: 1, expect: undefined, ...more },
  })
  const command = (text: string) => ({ kind: 'run' as const, command: text })
  const call = (body: () => unknown) => ({ kind: 'call' as const, call: body })
  it.each<[string, Work, Work, string[]]>([
    ['a body', request({}), request({ body: 2 }), ['http "POST http://a/": its body has changed']],
    ['headers', request({}), request({ headers: { token: 'new' }, expect: [201] }), []],
    ['a function', call(() => 1), call(() => 2), ['the text of its function has changed']],
    ['white space', command('a  b'), command('a b'), ['run "a b": its white space has changed']],
    [
      'the end of a long command',
      command(long('1')),
      command(long('2')),
      [`run "...${'x'.repeat(19)} 1" -> run "...${'x'.repeat(19)} 2"`],
    ],
    ['another kind', command('a'), call(() => 1), ['run "a" -> a function']],
  ])('of %s can be seen, if it matters', (_, was, is, told) => {
    const job = { name: 'a', deps: [], depMode: undefined, pool: 'default', settings: {} }
    expect(
      changesOf(definitionOf({ ...job, work: was }), definitionOf({ ...job, work: is })),
    ).toEqual(told)
  })
})

describe('a second call', () => {
  it('follows a run that is running, starts nothing, and ends as the run does', async () => {
    const folder = inFolder({ 'flow.yaml': WAITS.replace('cat', 'exit 7; cat') })
    const owner = new Ax(RUN, folder)
    await written(join(folder, 'pid'))
    const second = new Ax([...RUN, '--json'], folder)
    const third = new Ax(RUN, folder)
    await third.seen(/Run 1 of nightly is running in another process: this one only follows it\./)
    third.child.kill('SIGINT')
    const detached = await third.ended
    expect(detached.code).toBe(130)
    expect(detached.out).toMatch(/followed for .* Run 1 goes on in its own process\.\n$/)
    while (!second.err.includes('only follows it')) await new Promise((r) => setTimeout(r, 20))
    write(folder, 'go')
    const followed = await second.ended
    expect(followed.code).toBe(1)
    expect(reportOf(followed)).toMatchObject({ run: 1, followed: true, ok: false })
    expect(followed.err).toMatch(/c +failed/)
    expect((await owner.ended).code).toBe(1)
    expect(linesOf(folder, 'ran')).toEqual(['a', 'b', 'c'])
  })

  it('goes on with the run when the process that it follows dies', async () => {
    const folder = inFolder({ 'flow.yaml': WAITS })
    const owner = new Ax(RUN, folder)
    await written(join(folder, 'pid'))
    const second = new Ax(RUN, folder)
    await second.seen(/only follows it/)
    await kill(owner)
    write(folder, 'go')
    const { code, out } = await second.ended
    expect(out).toContain('The process that ran nightly has died: this one goes on with it.')
    expect(out).toContain('Resuming run 1 of nightly: 1 of 3 jobs are done.')
    expect(code).toBe(0)
    expect(linesOf(folder, 'ran')).toEqual(['a', 'b', 'b', 'c'])
  })

  it('at the same instant is one run, of one process, whoever is first', async () => {
    const folder = inFolder({ 'flow.yaml': WAITS })
    const both = [new Ax([...RUN, '--json'], folder), new Ax([...RUN, '--json'], folder)]
    await written(join(folder, 'pid'))
    while (!both.some(({ err }) => err.includes('only follows'))) {
      await new Promise((r) => setTimeout(r, 20))
    }
    write(folder, 'go')
    const ended = await Promise.all(both.map((each) => each.ended))
    expect(ended.map(({ code }) => code)).toEqual([0, 0])
    const reports = ended.map(reportOf)
    expect(reports.map(({ run }) => run)).toEqual([1, 1])
    expect(reports.map(({ followed }) => followed).sort()).toEqual([false, true])
    expect(linesOf(folder, 'ran')).toEqual(['a', 'b', 'c'])
  })
})

describe('--fresh', () => {
  it('begins a new run, whatever is left of the latest one', async () => {
    const folder = inFolder({ 'flow.yaml': WAITS })
    await killed(folder)
    const orphan = read(folder, 'pid')
    write(folder, 'go')
    const { code, out } = await ax([...RUN, '--fresh'], folder)
    expect(out).toContain('Giving up run 1 of nightly, which is not finished.')
    expect(code).toBe(0)
    await gone(orphan)
    expect(linesOf(folder, 'ran')).toEqual(['a', 'b', 'a', 'b', 'c'])
    expect(reportOf(await ax([...RUN, '--json'], folder)).run).toBe(3)
  })

  it('takes the run away from a process that runs it, which says so and ends with 1', async () => {
    const folder = inFolder({ 'flow.yaml': WAITS })
    const first = new Ax([...RUN, '--json'], folder)
    await written(join(folder, 'pid'))
    const command = read(folder, 'pid')
    const fresh = new Ax([...RUN, '--fresh'], folder)
    const ended = await first.ended
    const why =
      'Run 1 of nightly is no longer run here: it was given up by another process, which started over.'
    expect(ended.err).toContain('Run 1 of nightly was taken away: aborting 1 job.\n')
    expect(ended.err.endsWith(`\n${why}\n`)).toBe(true)
    expect(reportOf(ended)).toMatchObject({ run: 1, ok: false, resumable: false, takenAway: why })
    expect(ended.code).toBe(1)
    await gone(command)
    write(folder, 'go')
    expect((await fresh.ended).code).toBe(0)
  })
})

describe('a new run', () => {
  it('has the concurrency that its file says, whatever an earlier one was given', async () => {
    const folder = inFolder({
      'flow.yaml': 'name: f\npools: { io: { concurrency: 3 } }\njobs: { a: { sleep: 1ms } }',
    })
    const { sqliteStore } = await import('../../src/stores/sqlite/index.ts')
    const caps = async (args: readonly string[]) => {
      expect((await ax([...RUN, ...args], folder)).code).toBe(0)
      const store = sqliteStore(join(folder, '.ax', 'ax.db'))
      const { pools } = await store.settings()
      await store.close()
      return ['f/default', 'f/io'].map((name) => pools[name]?.start.concurrency)
    }
    expect(await caps(['--concurrency', '1'])).toEqual([1, 3])
    write(folder, 'flow.yaml', 'name: f\npools: { io: {} }\njobs: { a: { sleep: 1ms } }')
    expect(await caps([])).toEqual([10, 10])
  })
})

describe('a module', () => {
  it('is refused a job that nobody could run, and drops those whose type has left it', async () => {
    const flow = (page: string, type: string) => `export default { name: 'crawl', jobs: {
      split: { run: ({ submit }) => submit({ id: 'p1', type: '${type}' }).then(() => null) },
      ${page}
    } }`
    const page = "page: { run: () => { throw new Error('no') } },"
    const folder = inFolder({ 'flow.mjs': flow(page, 'pgae') })
    const refused = await ax(['run', 'flow.mjs'], folder)
    expect(refused.out).toContain('got "pgae". Did you mean \'page\'?')
    expect(refused.code).toBe(1)
    write(folder, 'flow.mjs', flow(page, 'page'))
    expect((await ax(['run', 'flow.mjs', '--fresh'], folder)).code).toBe(1)
    write(folder, 'flow.mjs', flow("more: { run: 'true' },", 'page'))
    const report = reportOf(await ax(['run', 'flow.mjs', '--json'], folder))
    expect(report).toMatchObject({ resumed: true, ok: true })
    expect(report.jobs.map(({ name }) => name)).toEqual(['split', 'more'])
  })

  it('is resumed too, with functions that submit jobs by the names of the flow', async () => {
    const folder = inFolder({
      'flow.mjs': `
        import { appendFileSync, existsSync } from 'node:fs'
        const ran = (what) => appendFileSync('ran', what + '\\n')
        export default { name: 'crawl', jobs: {
          split: { run: async ({ submit }) => {
            ran('split')
            await submit([1, 2].map((n) => ({ id: 'page-' + n, type: 'page', payload: { n } })))
          } },
          page: { run: ({ payload }) => { ran('page ' + payload?.n); return payload?.n ?? 0 }, deps: ['split'] },
          join: { run: ({ deps }) => {
            ran('join')
            if (!existsSync('mended')) throw new Error('not yet')
            return deps.page
          }, deps: ['page'] },
        } }`,
    })
    expect((await ax(['run', 'flow.mjs'], folder)).code).toBe(1)
    write(folder, 'mended')
    const report = reportOf(await ax(['run', 'flow.mjs', '--json'], folder))
    expect(report).toMatchObject({ run: 1, resumed: true, ok: true })
    expect(report.jobs.map(({ name, result }) => [name, result])).toEqual([
      ['split', null],
      ['page', 0],
      ['join', 0],
      ['page-1', 1],
      ['page-2', 2],
    ])
    const ran = linesOf(folder, 'ran')
    expect(ran.filter((line) => line === 'split')).toHaveLength(1)
    expect(ran.filter((line) => line.startsWith('page')).sort()).toEqual([
      'page 1',
      'page 2',
      'page undefined',
    ])
    expect(ran.slice(-1)).toEqual(['join'])
  })

  it('whose function has changed after it succeeded is refused', async () => {
    const flow = (text: string) =>
      `export default { jobs: { a: { run: () => ${text} }, b: { run: 'exit 1', deps: ['a'] } } }`
    const folder = inFolder({ 'flow.mjs': flow('1') })
    await ax(['run', 'flow.mjs'], folder)
    write(folder, 'flow.mjs', flow('2'))
    const { code, err } = await ax(['run', 'flow.mjs'], folder)
    expect(err).toContain('\n  a: the text of its function has changed\n')
    expect(code).toBe(2)
  })
})

describe('--store', () => {
  it('memory keeps nothing, and promises nothing', async () => {
    const folder = inFolder({ 'flow.yaml': "jobs: { a: { run: 'exit 1' } }" })
    for (const _ of [1, 2]) {
      const { code, out } = await ax([...RUN, '--store', 'memory'], folder)
      expect(code).toBe(1)
      expect(out).not.toContain('again to resume')
      expect(out).not.toContain('Resuming')
    }
    expect(existsSync(join(folder, '.ax'))).toBe(false)
  })

  it.each([
    ['mysql://me:secret@localhost/0', "there is no store for 'mysql://' in this version of ax"],
    ['postgres://localhost/ax', "What it takes now is 'memory', a file such as .ax"],
    ['nowhere/ax.db', 'the folder of nowhere/ax.db does not exist. Make it first.'],
  ])('%s is refused before anything starts', async (store, text) => {
    const folder = inFolder({ 'flow.yaml': "jobs: { a: { run: 'touch started' } }" })
    const { code, err } = await ax([...RUN, '--store', store], folder)
    expect(err).toContain(text)
    expect(err).not.toContain('secret')
    expect(code).toBe(2)
    expect(existsSync(join(folder, 'started'))).toBe(false)
  })

  it('says so where its folder is a file, or its name is empty, and tells no password', async () => {
    const folder = inFolder({ 'flow.yaml': 'jobs: { a: { sleep: 1ms } }', '.ax': 'x' })
    const file = await ax(RUN, folder)
    expect(file.err).toContain(
      "The folder '.ax' for the store cannot be made here: there is a file",
    )
    const inFile = await ax([...RUN, '--store', 'flow.yaml/ax.db'], folder)
    expect(inFile.err).toContain('flow.yaml is a file, and no folder to have one in.')
    const empty = await ax([...RUN, '--store', ''], folder)
    expect(empty.err).toContain('--store is empty.')
    const secret = await ax(
      [...RUN, '--store', 'postgres://u:s3/cr@et@h/db?password=s4cret'],
      folder,
    )
    expect(secret.err).toContain('--store postgres://***@h/db?*** cannot be used')
    expect([file, inFile, empty, secret].map(({ code }) => code)).toEqual([2, 2, 2, 2])
  })

  it('says what to do where Node.js has no SQLite and libsql is not installed', async () => {
    const folder = inFolder({
      'flow.yaml': "jobs: { a: { run: 'true' } }",
      'hooks.mjs': `
        export async function resolve(name, context, next) {
          if (name === 'libsql' || name === 'node:sqlite') throw new Error('not here')
          return next(name, context)
        }`,
      'without.mjs': `
        import { register } from 'node:module'
        register('./hooks.mjs', import.meta.url)`,
    })
    const without = { NODE_OPTIONS: `--import ${join(folder, 'without.mjs')}` }
    const { code, err } = await ax(RUN, folder, without)
    expect(err).toMatch(
      /^The store cannot be used: .* run `npm install libsql`, or use a later Node/,
    )
    expect(err).toContain('--store memory')
    expect(code).toBe(2)
    expect((await ax([...RUN, '--store', 'memory'], folder, without)).code).toBe(0)
  })
})

describeOnRedis('--store redis://', () => {
  it('keeps a run that the same command goes on with', async () => {
    const { url } = await startRedis()
    const jobs = "jobs: { a: { run: 'echo x >> ran' }, b: { run: 'test -e open', deps: [a] } }"
    const folder = inFolder({ 'flow.yaml': jobs })
    const first = await ax([...RUN, '--store', url], folder)
    expect([first.code, first.out.includes('again to resume')]).toEqual([1, true])
    writeFileSync(join(folder, 'open'), '')
    const second = await ax([...RUN, '--store', url], folder)
    expect(second.out).toContain('Resuming run 1 of flow: 1 of 2 jobs are done.')
    expect(second.code).toBe(0)
    expect(readFileSync(join(folder, 'ran'), 'utf8')).toBe('x\n')
    expect(existsSync(join(folder, '.ax'))).toBe(false)
  }, 60_000)
})
