#!/usr/bin/env node
// Owns the command `ax`: which commands there are, and what their exit codes are.
// May never do the work of a command itself.

import { readFileSync } from 'node:fs'
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander'
import { toMs } from '../core/duration.ts'
import { isAxError } from '../core/errors.ts'
import { runCommand } from './command.ts'
import { EXIT, EXIT_CODES, type ExitCode, WORKER_EXIT_CODES } from './exit.ts'
import { FlowFault } from './problems.ts'
import { DEFAULT_STORE } from './store.ts'
import { workerCommand } from './worker.ts'

const ABOUT_RUNS = `
A run is kept in ${DEFAULT_STORE} under the current folder. If it ends before every job has
succeeded, for a failure, Ctrl-C or a crash, the same command resumes it: only what is left runs,
and what failed is tried again. Once it has finished, the same command begins a new run; --fresh
begins one at any time. While a run is running, a second call only follows it.

Ctrl-C lets running jobs end and starts no others; once more aborts them; a third time leaves at
once.`

const ABOUT_WORKERS = `
The module exports by default an object of handlers by type, or a function that is given the
scheduler and defines them. Any number of workers share a store, on as many machines as it allows;
jobs are submitted by programs that open the same store.

It runs until it is told to stop. Ctrl-C or SIGTERM lets running jobs end and starts no others; once
more hands back what still runs, with no attempt used; a third time leaves at once.`

/** What is refused is wrong with the call, not with ax: how the message begins that says so. */
const BEFORE: Readonly<Record<string, string>> = {
  INVALID_JOB: 'This flow cannot run: ',
  CYCLE: 'This flow cannot run: ',
  TOO_LARGE: 'This flow cannot run: ',
  KEY_TAKEN: 'This flow cannot run: ',
  INVALID_OPTION: 'This cannot run: ',
  STORE_UNAVAILABLE: 'The store cannot be used: ',
}

const WITHOUT_STORE = '\nOr use --store memory: then nothing outlives the process.'

process.on('uncaughtException', giveUp)
process.exitCode = await main(process.argv.slice(2))
leaveSoon()

async function main(args: readonly string[]): Promise<ExitCode> {
  let exit: ExitCode = EXIT.success
  const program = new Command('ax')
    .description('Runs jobs under control: in order, so many at a time, again where it helps.')
    .version(version(), '-V, --version', 'print the version of ax')
    .helpOption('-h, --help', 'print this help')
    .addHelpText('after', EXIT_CODES)
    .exitOverride()
  const done = (code: ExitCode) => {
    exit = code
  }
  addRun(program, done)
  addWorker(program, done)

  try {
    await program.parseAsync(args, { from: 'user' })
    return exit
  } catch (error) {
    return tell(error)
  }
}

type Done = (exit: ExitCode) => void

function addRun(program: Command, done: Done): void {
  program
    .command('run')
    .description('run the jobs of a flow file until every one of them has ended')
    .argument('<flow>', 'a file: YAML, JSON, or a JavaScript module with a default export')
    .option('-c, --concurrency <n>', "how many jobs of the pool 'default' run at once", count)
    .addOption(drainOption())
    .option('--fresh', 'begin a new run, and give up the latest one if it is not finished')
    .option('--store <where>', `a file, redis://HOST, or 'memory' (default: ${DEFAULT_STORE})`)
    .option('--json', 'print one JSON document at the end; progress goes to standard error')
    .addHelpText('after', `${ABOUT_RUNS}\n${EXIT_CODES}`)
    .action(async (file: string, options: Parameters<typeof runCommand>[1]) => {
      done(await runCommand(file, options))
    })
}

function addWorker(program: Command, done: Done): void {
  program
    .command('worker')
    .description('run jobs of the store with the handlers of a module, until it is stopped')
    .argument('<module>', 'a JavaScript module with a default export')
    .option('-c, --concurrency <n>', 'how many jobs this process runs at once, at most', count)
    .addOption(drainOption())
    .option(
      '--name <name>',
      "how this worker is called in logs and listings (default: 'ax worker')",
    )
    .option('--store <where>', `a file, redis://HOST, or 'memory' (default: ${DEFAULT_STORE})`)
    .option('--json', 'print a line of JSON for each event')
    .addHelpText('after', `${ABOUT_WORKERS}\n${WORKER_EXIT_CODES}`)
    .action(async (file: string, options: Parameters<typeof workerCommand>[1]) => {
      done(await workerCommand(file, options))
    })
}

function drainOption(): Option {
  return new Option('--drain <duration>', 'how long running jobs may go on after Ctrl-C')
    .argParser(duration)
    .default(30_000, '30s')
}

function tell(error: unknown): ExitCode {
  // The parser has printed its message by itself.
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.success : EXIT.usage
  if (error instanceof FlowFault) {
    process.stderr.write(`${error.message}\n`)
    return EXIT.usage
  }
  if (isAxError(error)) {
    const before = BEFORE[error.code]
    if (before !== undefined) {
      const more = error.code === 'STORE_UNAVAILABLE' ? WITHOUT_STORE : ''
      process.stderr.write(`${before}${error.message}${more}\n`)
      return EXIT.usage
    }
    if (error.code === 'LEASE_LOST' || error.code === 'CANCELLED') {
      process.stderr.write(`${error.message}\n`)
      return error.code === 'CANCELLED' ? EXIT.interrupted : EXIT.failed
    }
  }
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
  process.stderr.write(`This is an error of ax itself, please report it.\n${text}\n`)
  return EXIT.internal
}

/** Thrown by nobody's job, say in a timer that a module has set: there is no way to go on. */
function giveUp(error: unknown): void {
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
  process.stderr.write(`An error was thrown outside of any job, so ax ends.\n${text}\n`)
  process.exit(EXIT.internal)
}

function count(value: string): number {
  if (/^[1-9]\d*$/.test(value)) return Number(value)
  throw new InvalidArgumentError('It must be a whole number of at least 1.')
}

function duration(value: string): number {
  try {
    return toMs(/^\d+$/.test(value) ? Number(value) : value, '--drain')
  } catch {
    throw new InvalidArgumentError("It must be a time such as '500ms', '10s' or '2m'.")
  }
}

function version(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  return (JSON.parse(text) as { version: string }).version
}

/** A function of a module that ignores its signal must not keep the command from ending. */
function leaveSoon(): void {
  const timer = setInterval(() => {
    if (process.stdout.writableLength + process.stderr.writableLength === 0) process.exit()
  }, 1_000)
  timer.unref()
}
