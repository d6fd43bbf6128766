// Owns the simulator's command: arguments, the processes that share the work, the printing.
// May never hold logic that a simulation needs.

import { type ChildProcess, fork } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import {
  type Account,
  describeFailure,
  emptyAccount,
  mergeAccounts,
  runSeeds,
} from './sim/batch.ts'
import { Coverage } from './sim/coverage.ts'

const HELP = `Runs the real engine on simulated time, against a store that misbehaves.

  npm run simulate -- --seeds 1000           run seeds 1 to 1000
  npm run simulate -- --seeds 50 --from 7    run seeds 7 to 56
  npm run simulate -- --list 3,17            run these seeds
  npm run simulate -- --seed 42 --trace      run one seed; shrink and explain a failure

  --jobs N           processes that share the work (default: one per core)
  --max-failures N   stop after so many failing seeds (default 5)
  --coverage         a hole in the coverage is a failure, too
  --json             print the account as JSON

Ends with 0 if no invariant failed, else with 1.
`

/** Failures that are shrunk and printed in full; the rest are a line each. */
const TOLD = 1

interface Work {
  readonly seeds: readonly number[]
  readonly maxFailures: number
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      seeds: { type: 'string', default: '100' },
      from: { type: 'string', default: '1' },
      list: { type: 'string' },
      seed: { type: 'string' },
      trace: { type: 'boolean', default: false },
      jobs: { type: 'string', default: String(availableParallelism()) },
      'max-failures': { type: 'string', default: '5' },
      coverage: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  })
  if (values.help) return say(HELP)
  if (values.seed !== undefined) return runOne(Number(values.seed), values.trace)
  const from = Number(values.from)
  const seeds =
    values.list === undefined
      ? Array.from({ length: Number(values.seeds) }, (_, index) => from + index)
      : values.list.split(',').map(Number)
  const account = await runAll(seeds, Number(values.jobs), Number(values['max-failures']))
  if (values.json) say(`${JSON.stringify(account)}\n`)
  else await report(account)
  const holes = values.coverage ? coverageOf(account).holes().length : 0
  return account.failures.length + holes > 0 ? 1 : 0
}

async function runOne(seed: number, trace: boolean): Promise<number> {
  const text = await describeFailure(seed, trace)
  say(`${text}\n`)
  return text.includes('breaks invariant') ? 1 : 0
}

/** Deals the seeds out to processes of their own, round robin. */
async function runAll(seeds: readonly number[], jobs: number, maxFailures: number) {
  const sum = emptyAccount()
  const count = Math.min(Math.max(1, jobs), seeds.length)
  if (count <= 1) return runSeeds(seeds, maxFailures)
  const accounts = await Promise.all(
    Array.from({ length: count }, (_, worker) => {
      return runChild({ seeds: seeds.filter((_, at) => at % count === worker), maxFailures })
    }),
  )
  for (const account of accounts) mergeAccounts(sum, account)
  return sum
}

function runChild(work: Work): Promise<Account> {
  return new Promise((resolve, reject) => {
    const child: ChildProcess = fork(fileURLToPath(import.meta.url), ['child'])
    let account: Account | undefined
    child.on('message', (message) => {
      account = message as Account
    })
    child.on('error', reject)
    child.on('close', (code) => {
      if (account !== undefined) resolve(account)
      else reject(new Error(`a simulating process ended with code ${code} and said nothing`))
    })
    child.send(work)
  })
}

function beChild(): void {
  process.once('message', async (message) => {
    const { seeds, maxFailures } = message as Work
    const account = await runSeeds(seeds, maxFailures)
    process.send?.(account, () => process.disconnect())
  })
}

function coverageOf(account: Account): Coverage {
  const coverage = new Coverage()
  coverage.merge(account.counts)
  return coverage
}

async function report(account: Account): Promise<void> {
  const { runs, operations, jobs, starts, events, repeated, failures } = account
  const each = (sum: number) => Math.round(sum / Math.max(1, runs))
  say(`${coverageOf(account).report()}\n`)
  say(
    `${runs} seeds: ${each(operations)} operations, ${each(jobs)} jobs, ${each(starts)} starts, ` +
      `${each(events)} events each; ${repeated} run twice.\n`,
  )
  for (const { seed, invariant, text } of failures) {
    say(`Seed ${seed} breaks invariant ${invariant}: ${text.split('\n')[0]}\n`)
  }
  for (const { seed } of failures.slice(0, TOLD)) say(`\n${await describeFailure(seed, false)}\n`)
  say(failures.length === 0 ? 'No invariant failed.\n' : `${failures.length} seeds failed.\n`)
}

function say(text: string): number {
  process.stdout.write(text)
  return 0
}

if (process.argv[2] === 'child') beChild()
else process.exitCode = await main()
