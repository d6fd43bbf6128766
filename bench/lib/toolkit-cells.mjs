// Owns the cells of the toolkit's comparison: who takes part, and the targets.
// May never hold ax's figures against those of another run.

import { print, printTable, printTarget, show } from './report.mjs'
import { absence } from './toolkit-contenders.mjs'
import { find, judge, printResults, takeTurns } from './toolkit-turns.mjs'

/**
 * @typedef {import('./toolkit-turns.mjs').Trial} Trial
 * @typedef {import('./toolkit-turns.mjs').Turn} Turn
 * @typedef {import('./toolkit-turns.mjs').Result} Result
 */

const CONCURRENCY = 10
const WARM = 20_000

/** @type {Record<string, { about: string, run: (trial: Trial) => Promise<void> }>} */
export const CELLS = {
  limit: { about: 'no-op tasks queued at once, ten at a time', run: limit },
  turns: { about: 'the same, but each task takes a turn of the event loop', run: turning },
  memory: { about: 'the heap that a waiting call keeps', run: memory },
  growth: { about: 'the same in queues of three sizes, cold and with warm code', run: growth },
  priority: { about: 'random priorities from 1 to 100', run: priority },
  map: { about: 'an array mapped, every result looked at', run: map },
  runner: { about: 'timeout, retry, dedup, timeline and statistics; and without', run: runner },
  idle: { about: 'from the call to the start where nothing runs', run: idle },
}

/**
 * @param {readonly string[]} contenders
 * @param {Omit<Turn, 'contender' | 'concurrency'> & { concurrency?: number }} rest
 * @returns {Turn[]}
 */
function turns(contenders, rest) {
  return contenders.map((contender) => ({ contender, concurrency: CONCURRENCY, ...rest }))
}

/**
 * Says so where a cell is of something that this build of ax does not have.
 *
 * @param {string} needs
 */
async function skips(needs) {
  const reason = await absence(needs)
  if (reason !== undefined) print(`skipped: ${reason}`)
  return reason !== undefined
}

/** @param {Trial} trial */
async function limit(trial) {
  const peers = ['p-limit', 'p-queue', 'fastq', 'henrygd', 'async.queue']
  const floors = ['min-semaphore', 'min-slots', 'min-slots als', 'unlimited']
  const results = await takeTurns(trial, [
    ...turns(['ax', ...peers, ...floors], { measure: 'queue', size: 1e5 }),
    // Two milliseconds a task: its own timers, whatever the size.
    ...turns(['bottleneck'], { measure: 'queue', size: 500 }),
    // With the promise that ax keeps as well, it takes so long that one size less must do.
    ...turns(['ax', 'henrygd als'], { measure: 'queue', size: 1e4 }),
  ])
  printResults(results, 'ax')
  const own = find(results, 'ax')
  const floor = find(results, 'min-slots')
  judge(own, find(results, 'henrygd'), 0.85, floor)
  judge(own, find(results, 'p-limit'), 2.3, floor)
  judge(own, find(results, 'p-queue'), 2.5, floor)
  judge(own, floor, 0.85)
  judge(own, find(results, 'min-semaphore'), 0.85)
}

/** @param {Trial} trial */
async function turning(trial) {
  const contenders = ['ax', 'ax unwatched', 'p-limit', 'p-queue', 'fastq', 'henrygd']
  const shape = /** @type {const} */ ({ measure: 'queue', body: 'immediate', size: 1e5 })
  const all = [...contenders, 'min-slots', 'min-slots als']
  printResults(await takeTurns(trial, turns(all, shape)), 'ax')
}

/** @param {Trial} trial */
async function memory(trial) {
  const own = ['ax', 'ax unwatched', 'runner all', 'runner bare']
  const peers = ['p-limit', 'p-queue', 'p-queue timeout', 'fastq', 'henrygd', 'async.queue']
  const contenders = [...own, ...peers, 'min-semaphore', 'min-slots', 'min-slots als']
  const shape = /** @type {const} */ ({ measure: 'bytes', size: 5e4, most: 1 })
  const results = await takeTurns(trial, turns(contenders, shape))
  const ax = find(results, 'ax')
  const rows = results.map(({ label, bytes }) => {
    return [label, show(bytes), show(bytes / (ax?.bytes ?? NaN), 2)]
  })
  printTable(['contender', 'bytes per waiting call', 'x ax'], rows)
}

/** @param {Trial} trial */
async function growth(trial) {
  const contenders = ['ax', 'p-limit', 'henrygd', 'min-slots']
  const wanted = [1e4, 1e5, 1e6].flatMap((size) => {
    return [0, WARM].flatMap((warm) => turns(contenders, { measure: 'queue', size, warm }))
  })
  const results = await takeTurns(trial, wanted)
  const rows = contenders.flatMap((contender) => {
    return [false, true].flatMap((warm) => {
      const row = bySize(results, contender, warm)
      const [least, , most] = row
      if (least === undefined || most === undefined) return []
      const cpu = row.map(({ cpuUs }) => show(cpuUs, 2))
      const wall = row.map(({ us }) => show(us, 2))
      const ratios = [show(most.cpuUs / least.cpuUs, 2), show(most.us / least.us, 2)]
      return [[contender, warm ? 'warm' : 'cold', ...cpu, ...wall, ...ratios, show(most.rssMb)]]
    })
  })
  const sizes = bySize(results, 'ax', false).map(({ turn }) => show(turn.size))
  const units = ['cpu us', 'us'].flatMap((unit) => sizes.map((size) => `${unit} ${size}`))
  printTable(['contender', 'code', ...units, 'cpu x', 'time x', 'rss MB'], rows)
  for (const warm of [false, true]) judgeGrowth(results, warm)
}

/**
 * @param {readonly Result[]} results
 * @param {string} contender
 * @param {boolean} warm
 */
function bySize(results, contender, warm) {
  return results.filter(({ label, turn }) => label === contender && (turn.warm ?? 0) > 0 === warm)
}

/**
 * @param {readonly Result[]} results
 * @param {boolean} warm
 */
function judgeGrowth(results, warm) {
  const [least, , most] = bySize(results, 'ax', warm)
  const peer = bySize(results, 'p-limit', warm).at(-1)
  if (least === undefined || most === undefined) return
  const code = warm ? 'warm' : 'cold'
  const grown = most.cpuUs / least.cpuUs
  const figure = `${show(grown, 2)} x by cpu, ${show(most.us / least.us, 2)} x by time`
  printTarget(`time per task, largest to smallest, ${code}`, figure, '<= 1.3 x', grown <= 1.3)
  if (peer === undefined) return
  const share = most.rssMb / peer.rssMb
  const sizes = `${show(most.rssMb)} MB, ${show(share, 2)} x p-limit`
  printTarget(`memory of the largest, ${code}`, sizes, '<= 0.65 x', share <= 0.65)
}

/** @param {Trial} trial */
async function priority(trial) {
  const others = ['ax', 'async.priorityQueue', 'min-prio-bucket']
  const shape = /** @type {const} */ ({ measure: 'queue', priorities: 100 })
  const results = await takeTurns(trial, [
    ...turns([...others, 'p-queue'], { ...shape, size: 1e5 }),
    ...turns(others, { ...shape, size: 3e5 }),
    // It takes a quarter of a minute.
    ...turns(['p-queue'], { ...shape, size: 3e5, most: 2 }),
  ])
  printResults(results, 'ax')
  for (const [at, own] of results.filter(({ label }) => label === 'ax').entries()) {
    const { size } = own.turn
    const floor = find(results, 'min-prio-bucket', size)
    judge(own, find(results, 'p-queue', size), at === 0 ? 10 : 30, floor)
    judge(own, find(results, 'async.priorityQueue', size), 1, floor)
    judge(own, floor, 0.8)
  }
}

/** @param {Trial} trial */
async function map(trial) {
  if (await skips('limit.map')) return
  const contenders = ['ax', 'ax unordered', 'promise-pool', 'p-limit.map']
  const floors = ['min-pool', 'min-stream']
  const shape = /** @type {const} */ ({ measure: 'map', size: 1e5 })
  const all = [...contenders, ...floors]
  const cells = /** @type {const} */ ([
    { body: 'micro', concurrency: 10, least: 3 },
    { body: 'immediate', concurrency: 100, least: 40 },
  ])
  for (const { body, concurrency, least } of cells) {
    const results = await takeTurns(trial, turns(all, { ...shape, body, concurrency }))
    const own = find(results, 'ax')
    print(`${body} tasks, ${concurrency} at a time`)
    printResults(results, 'ax')
    judge(own, find(results, 'promise-pool'), least, find(results, 'min-stream'))
    judge(own, find(results, 'min-pool'), 0.45)
    judge(own, find(results, 'min-stream'), 0.45)
  }
}

/** @param {Trial} trial */
async function runner(trial) {
  if (await skips('createRunner')) return
  const contenders = ['runner all', 'runner bare', 'ax', 'p-queue timeout', 'p-queue']
  const results = await takeTurns(trial, turns(contenders, { measure: 'queue', size: 1e5 }))
  printResults(results, 'ax')
  judge(find(results, 'runner all'), find(results, 'p-queue timeout'), 1)
  judge(find(results, 'runner bare'), find(results, 'ax'), 0.5)
}

/** @param {Trial} trial */
async function idle(trial) {
  const peers = ['fastq', 'henrygd', 'p-limit', 'p-queue', 'async.queue']
  const contenders = ['ax', ...peers, 'min-slots', 'unlimited']
  const shape = /** @type {const} */ ({ measure: 'idle', size: 2e4, warm: WARM })
  const results = await takeTurns(trial, turns(contenders, shape))
  const rows = results.map(({ label, times, p50, p99 }) => {
    return [label, show(times), show(p50 / 1000, 3), show(p99 / 1000, 3)]
  })
  printTable(['contender', 'runs', 'p50 us', 'p99 us'], rows)
  const own = find(results, 'ax')
  const peer = find(results, 'fastq')
  if (own === undefined || peer === undefined) return
  const figure = `p99 ${show(own.p99 / 1000, 3)} us`
  printTarget('ax beside fastq', figure, `<= ${show(peer.p99 / 1000, 3)} us`, own.p99 <= peer.p99)
}
