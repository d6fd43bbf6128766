// Owns running many seeds: the account of them all, the check that one run in twenty repeats
// itself, and what is said of a failure. May never stop at the first failure it is told to count.

import { type Outcome, runPlan, simulate } from '../simulate.ts'
import type { Op, Plan } from './plan.ts'
import { shrink } from './shrink.ts'
import { drawPlan } from './workload.ts'

/** One run in so many is run twice. */
const REPEATED = 20

export interface Account {
  runs: number
  operations: number
  jobs: number
  starts: number
  events: number
  repeated: number
  readonly failures: { readonly seed: number; readonly invariant: number; readonly text: string }[]
  readonly counts: Record<string, number>
}

export function emptyAccount(): Account {
  return {
    runs: 0,
    operations: 0,
    jobs: 0,
    starts: 0,
    events: 0,
    repeated: 0,
    failures: [],
    counts: {},
  }
}

/** Runs seeds one after the other, until `maxFailures` of them have failed. */
export async function runSeeds(seeds: readonly number[], maxFailures: number): Promise<Account> {
  const account = emptyAccount()
  for (const seed of seeds) {
    const outcome = await simulate({ seed })
    addOutcome(account, outcome)
    if (outcome.violation === undefined && account.runs % REPEATED === 0) {
      const again = await simulate({ seed })
      account.repeated += 1
      if (again.hash !== outcome.hash) {
        const text = `two runs differ: ${outcome.hash} and ${again.hash}`
        account.failures.push({ seed, invariant: 0, text })
      }
    }
    if (account.failures.length >= maxFailures) break
  }
  return account
}

function addOutcome(account: Account, outcome: Outcome): void {
  account.runs += 1
  account.operations += outcome.operations
  account.jobs += outcome.jobs
  account.starts += outcome.starts
  account.events += outcome.events
  addCounts(account, outcome.coverage)
  const { seed, violation } = outcome
  if (violation === undefined) return
  account.failures.push({ seed, invariant: violation.invariant, text: violation.text })
}

function addCounts(account: Account, counts: Readonly<Record<string, number>>): void {
  for (const [cell, count] of Object.entries(counts)) {
    account.counts[cell] = (account.counts[cell] ?? 0) + count
  }
}

export function mergeAccounts(into: Account, other: Account): void {
  for (const name of ['runs', 'operations', 'jobs', 'starts', 'events', 'repeated'] as const) {
    into[name] += other[name]
  }
  into.failures.push(...other.failures)
  addCounts(into, other.counts)
}

/** A failing seed for people: what broke, the shortest plan found, logs, processes. */
export async function describeFailure(seed: number, withTrace: boolean): Promise<string> {
  const first = await simulate({ seed })
  const { violation } = first
  if (violation === undefined) return `Seed ${seed}: no invariant fails.`
  const { invariant } = violation
  const small = await shrink(drawPlan(seed), async (plan) => {
    const outcome = await runPlan(plan)
    return outcome.violation?.invariant === invariant
  })
  const { violation: found = violation, trace } = await runPlan(small, 2_000)
  return [
    `Seed ${seed} breaks invariant ${invariant}: ${violation.text}`,
    `Shortest plan found (${small.ops.length} operations, ${small.faults.length} faults):`,
    ...planLines(small),
    `It ends with: ${found.text}`,
    ...Object.entries(found.logs).flatMap(([id, log]) => [
      `Log of ${id}:`,
      ...log.map((event) => `  ${JSON.stringify(event)}`),
    ]),
    'Processes:',
    ...found.nodes.map((line) => `  ${line}`),
    ...(withTrace ? ['Trace of the shortest plan:', ...trace.map((line) => `  ${line}`)] : []),
    `Replay: npm run simulate -- --seed ${seed} --trace`,
  ].join('\n')
}

function planLines(plan: Plan): string[] {
  const { settings, nodes, ops, faults } = plan
  return [
    `  settings ${JSON.stringify(settings)}`,
    ...nodes.map((node) => `  node ${JSON.stringify(node)}`),
    ...[...ops.map(opLine), ...faults.map((fault) => [fault.at, JSON.stringify(fault)] as const)]
      .sort(([one], [other]) => one - other)
      .map(([at, text]) => `  ${String(at).padStart(6)} ${text}`),
  ]
}

function opLine(op: Op): readonly [number, string] {
  const { at, ...rest } = op
  return [at, JSON.stringify(rest)]
}
