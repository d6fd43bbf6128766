// Owns the command `ax run` from its arguments to its exit code.
// May never know how a flow is read, run or drawn.

import { Console } from 'node:console'
import { EXIT, type ExitCode } from './exit.ts'
import { toFlow } from './flow.ts'
import { listenForInterrupts } from './interrupts.ts'
import { load } from './load.ts'
import { openScreen } from './progress.ts'
import { endLines } from './render.ts'
import { runFlow } from './run.ts'
import { openStore } from './store.ts'

export interface RunOptions {
  readonly concurrency?: number
  /** Milliseconds. */
  readonly drain: number
  readonly json?: boolean
  readonly store?: string
  readonly fresh?: boolean
}

export async function runCommand(file: string, options: RunOptions): Promise<ExitCode> {
  // What the functions of a module print must not tear the picture, or get into the document.
  globalThis.console = new Console(process.stderr, process.stderr)
  // Nobody reads any more: what the jobs came to decides the exit code all the same.
  process.stdout.on('error', () => {})
  const flow = toFlow(await load(file))
  const { concurrency, drain, fresh = false } = options
  const { store, folder, isDurable } = await openStore(options.store)
  const screen = openScreen(options.json ? process.stderr : process.stdout, process.env)
  const interrupts = listenForInterrupts()
  try {
    const report = await runFlow(flow, {
      ...(concurrency === undefined ? {} : { concurrency }),
      ...(folder === undefined ? {} : { storeFolder: folder }),
      ...{ store, isDurable, drain, fresh, screen, interrupts },
    })
    if (options.json) process.stdout.write(`${JSON.stringify(report, null, 2)}\n`)
    else if (report.takenAway === undefined)
      screen.print([...(screen.isLive ? [] : ['']), ...endLines(report, screen.look())])
    if (report.ok) return EXIT.success
    if (report.takenAway !== undefined) process.stderr.write(`${report.takenAway}\n`)
    return report.interrupted ? EXIT.interrupted : EXIT.failed
  } finally {
    screen.end()
    interrupts.end()
    await store.close()
  }
}
