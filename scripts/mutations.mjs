// Owns the proof that the simulator bites: faults planted one at a time into a copy of the
// sources, each of which must make it fail. May never touch the sources themselves.

import { spawn } from 'node:child_process'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { root, say } from './prepare.mjs'

/** Seeds given to each fault before it counts as having survived. */
const SEEDS = 300

/** Faults that are tried side by side. */
const AT_ONCE = 2

/**
 * @typedef {object} Mutation
 * @property {string} name
 * @property {string} file
 * @property {string} find stands exactly once in the file
 * @property {string} replace
 * @property {number} [from] the first seed: faults that few seeds meet start near one that does
 */

/** @type {readonly Mutation[]} */
export const MUTATIONS = [
  {
    name: 'the comparison of leases is dropped',
    file: 'store/memory/moves.ts',
    find: "return lease?.number === expect.lease && lease.hold === (step === 'settle')",
    replace: "return lease !== undefined && lease.hold === (step === 'settle')",
  },
  {
    name: 'the comparison of revisions is dropped',
    file: 'store/memory/moves.ts',
    find: 'if (record.seq !== expect.seq || record.rev !== expect.rev) return false',
    replace: 'if (record.seq !== expect.seq) return false',
  },
  {
    name: 'an overdue job is not looked at again',
    file: 'store/memory/moves.ts',
    find: 'return !expect.overdue || (record.deadline > 0 && record.deadline <= this.#board.now)',
    replace: 'return true',
  },
  {
    name: 'what is named is forgotten',
    file: 'store/memory/moves.ts',
    find: 'if ((record.node?.namers ?? 0) > 0) {',
    replace: 'if (record.node === null) {',
  },
  {
    name: 'a hand-back is charged as an attempt',
    file: 'store/memory/moves.ts',
    find: "if (move.charge === 'attempt') return",
    replace: "if (move.charge !== 'lost') return",
  },
  {
    name: 'a lane is freed as soon as its job is cancelled',
    file: 'store/memory/moves.ts',
    find: 'if (record.lease === undefined) this.#board.releaseLane(record)',
    replace: 'this.#board.releaseLane(record)',
    from: 40,
  },
  {
    name: 'the cascade is dropped',
    file: 'core/machine.ts',
    find: "if (job.status === 'waiting' && isDoomed(job)) return { ...cascade(job, keep), expect }",
    replace: "if (job.status === 'waiting' && isDoomed(job)) return null",
  },
  {
    name: 'an unknown outcome is tried again',
    file: 'core/machine.ts',
    find: "if (!mayRepeat(job)) return unknownOutcome(move, job, text, keep, 'timeout')",
    replace: '',
  },
  {
    name: 'one attempt too many',
    file: 'core/machine.ts',
    find: 'return job.attempts - job.attemptsBefore <= job.terms.retries',
    replace: 'return job.attempts - job.attemptsBefore <= job.terms.retries + 1',
  },
  {
    name: 'the order by rank is reversed',
    file: 'store/memory/queues.ts',
    find: 'line.heap.push(record, record.rank, record.seq)',
    replace: 'line.heap.push(record, -record.rank, record.seq)',
  },
  {
    name: 'a hold takes no slot',
    file: 'store/memory/board.ts',
    find: 'record.queue.pool.held.add(record)',
    replace: 'if (!hold) record.queue.pool.held.add(record)',
  },
  {
    name: 'a paused pool goes on',
    file: 'store/memory/pick.ts',
    find: 'const room = rules.paused ? 0 : rules.concurrency - pool.held.size',
    replace: 'const room = rules.concurrency - pool.held.size',
  },
  {
    name: 'the quorum is one short',
    file: 'core/quorum.ts',
    find: "return depMode === 'any' ? 1 : depMode",
    replace: "return depMode === 'any' ? 1 : Math.max(1, depMode - 1)",
  },
  {
    name: 'a satisfied edge counts twice',
    file: 'core/quorum.ts',
    find: 'needs: satisfied ? Math.max(0, counts.needs - 1) : counts.needs,',
    replace: 'needs: satisfied ? Math.max(0, counts.needs - 2) : counts.needs,',
  },
  {
    name: 'the owner of a key is not compared',
    file: 'store/memory/moves.ts',
    find: 'if (owner !== undefined && owner !== record) {',
    replace: 'if (owner === null) {',
    from: 60,
  },
  {
    name: 'a lease that nobody heard of is charged',
    file: 'store/memory/moves.ts',
    find: '    record.attempts -= 1\n    board.setDeadline(record, 0)',
    replace: '    board.setDeadline(record, 0)',
  },
  {
    name: 'bodies outlive their lease',
    file: 'engine/pulse.ts',
    find: 'if (run.safeUntil - margin <= now) this.#worker.fence(run)',
    replace: 'if (run.safeUntil - margin <= -now) this.#worker.fence(run)',
  },
  {
    name: 'zombies do not hold anybody back',
    file: 'engine/worker.ts',
    find: 'if (this.isFull) return',
    replace: '',
    from: 20,
  },
  {
    name: 'there is room for one zombie too many',
    file: 'kit/zombies.ts',
    find: 'const isZombie = this.#zombies.size < this.max',
    replace: 'const isZombie = this.#zombies.size <= this.max',
    from: 75,
  },
  {
    name: 'who becomes a zombie late keeps its lease',
    file: 'engine/forced.ts',
    find: 'if (!next.left) this.#leave(next)',
    replace: 'next.left = true',
    from: 110,
  },
  {
    name: 'a worker takes more than its share',
    file: 'store/memory/pick.ts',
    find: 'const hasRoom = pool.held.size < cap && inUse(pool, call) < share',
    replace: 'const hasRoom = pool.held.size < cap',
  },
  {
    name: 'the cap of a type forgets holds',
    file: 'store/memory/slots.ts',
    find: 'if (this.#caps.size > 0) this.#caps.get(record.type)?.held.add(record)',
    replace: 'if (record.lease?.hold === false) this.#caps.get(record.type)?.held.add(record)',
    from: 390,
  },
  {
    name: 'a worker takes two suspects',
    file: 'store/memory/pick.ts',
    find: 'if (suspects && call.suspects.count(call.holder) > 0) return true',
    replace: 'if (suspects && call.suspects.count(call.holder) > 1) return true',
  },
  {
    name: 'old losses make a suspect',
    file: 'core/suspect.ts',
    find: 'return lost - lostBefore >= SUSPECT_LOSSES',
    replace: 'return lostBefore >= 0 && lost >= SUSPECT_LOSSES',
  },
  {
    name: 'explain does not know of suspects',
    file: 'core/explain-ready.ts',
    find: 'if (!standing.barred) return undefined',
    replace: 'if (standing.barred || !standing.barred) return undefined',
  },
  {
    name: 'a rate lets one start too early',
    file: 'core/gcra.ts',
    find: 'const spaced = burst === undefined ? count - size + 1 : count',
    replace: 'const spaced = count + 1',
  },
  {
    name: 'a start is not charged to the rate',
    file: 'store/memory/pick.ts',
    find: 'if (rate !== null) pool.tat = taken(rate, pool.tat, call.now, 1)',
    replace: 'if (rate !== null) pool.tat = taken(rate, pool.tat, call.now, 0)',
  },
  {
    name: 'a change of a rate gives a burst anew',
    file: 'store/memory/queues.ts',
    find: 'pool.tat = carried(before.rate, rate, pool.tat, now)',
    replace: 'if (before.rate !== rate) pool.tat = 0',
  },
  {
    name: 'urgent jobs go one beyond the raise',
    file: 'store/memory/pick.ts',
    find: 'cap: concurrency + raiseOf(concurrency, elastic),',
    replace: 'cap: concurrency + raiseOf(concurrency, elastic) + 1,',
  },
  {
    name: 'everybody goes above the cap',
    file: 'store/memory/pick.ts',
    find: 'if (elastic === null || !isUrgent(record.priority, elastic.minPriority, call.ageing)) {',
    replace: 'if (elastic === null) {',
  },
  {
    name: 'the victim is too urgent itself',
    file: 'core/preempt.ts',
    find: 'return job.priority + minGap <= urgent.priority',
    replace: 'return job.priority + minGap <= urgent.priority + minGap',
  },
  {
    name: 'an urgent job starts beside its victim',
    file: 'store/memory/pick.ts',
    find: 'else if ((line.heap.peek() as JobRecord).has.victim === undefined) return line',
    replace: 'else if (line.heap.size > 0) return line',
  },
  {
    name: 'an urgent job evicts one after the other',
    file: 'store/memory/pick.ts',
    find: 'if (terms === null || record.has.displaced) return',
    replace: 'if (terms === null) return',
  },
  {
    name: 'a job gives way without end',
    file: 'core/preempt.ts',
    find: 'if (!job.terms.preemptible || job.preempted >= MAX_DISPLACED) return false',
    replace: 'if (!job.terms.preemptible || job.preempted > MAX_DISPLACED) return false',
  },
  {
    name: 'giving way costs an attempt',
    file: 'core/machine.ts',
    find: "const move: Move = { ...held(job, 'preempt', 'ready'), charge: 'preempted', keepRank: true }",
    replace:
      "const move: Move = { ...held(job, 'preempt', 'ready'), charge: 'attempt', keepRank: true }",
  },
  {
    name: 'the budget is not charged',
    file: 'store/memory/retries.ts',
    find: 'this.#tat = taken(terms, this.#tat, now, count)',
    replace: '',
  },
  {
    name: 'the budget lets the worst go first',
    file: 'store/memory/retries.ts',
    find: 'this.#held.push(record, record.rank, record.seq)',
    replace: 'this.#held.push(record, -record.rank, record.seq)',
  },
  {
    name: 'a timeout escapes the budget',
    file: 'store/memory/board.ts',
    find: "const again = step === 'retry' || step === 'timeout'",
    replace: "const again = step === 'retry'",
  },
  {
    name: 'nobody is ranked anew',
    file: 'store/memory/board.ts',
    find: 'record.rank += old - record.weight',
    replace: '',
  },
  {
    name: 'ageing reaches above its ceiling',
    file: 'core/rank.ts',
    find: 'if (ageing === null || priority > ageing.ceiling) return priority * STRICT_WEIGHT',
    replace: 'if (ageing === null) return priority * STRICT_WEIGHT',
  },
  {
    name: 'a breaker lets two probes through',
    file: 'core/breaker.ts',
    find: '    this.#probing = true\n    return this.#period',
    replace: '    return this.#period',
  },
  {
    name: 'a breaker counts what shows nothing',
    file: 'core/machine.ts',
    find: "const verdict = fact.transient === true ? 'failure' : 'neutral'",
    replace: "const verdict = 'failure'",
  },
  {
    name: 'nobody is asked before another start',
    file: 'engine/confirm.ts',
    find: 'if (!unknown) return false',
    replace: 'if (unknown) return false',
  },
  {
    name: 'the heartbeat is not watched',
    file: 'engine/worker.ts',
    find: 'this.#force.listen(run)',
    replace: '',
  },
  {
    name: 'progress is no sign of life',
    file: 'engine/worker.ts',
    find: 'if (run.job.terms.heartbeatMs > 0) run.aliveAt = this.#hub.runtime.monotonic()',
    replace: 'if (run.job.terms.heartbeatMs < 0) run.aliveAt = this.#hub.runtime.monotonic()',
  },
  {
    name: 'a queue takes one too many',
    file: 'store/memory/room.ts',
    find: 'const free = maxQueue - pool.room.queued',
    replace: 'const free = maxQueue - pool.room.queued + 1',
  },
  {
    name: 'those who wait for room are never told',
    file: 'engine/rooms.ts',
    find: 'for (const pool of [...this.#lines.keys()]) this.#retry(pool)',
    replace: '',
  },
  {
    name: 'the instant of a tick is not compared',
    file: 'core/schedule.ts',
    find: 'if (now?.nextAt !== at || !isSameSchedule(now, then)) return false',
    replace: 'if (now === undefined || at <= 0 || !isSameSchedule(now, then)) return false',
  },
  {
    name: 'missed instants are lost',
    file: 'core/schedule.ts',
    find: "const isMissed = missed === 'skip' && now - latest > LATE_MS",
    replace: 'const isMissed = now - latest > LATE_MS',
  },
  {
    name: 'explain forgets the budget',
    file: 'core/explain.ts',
    find: 'if (standing.budgetAt > 0) {',
    replace: 'if (standing.budgetAt < 0) {',
  },
]

/**
 * @typedef {object} Verdict
 * @property {Mutation} mutation
 * @property {{ seed: number, invariant: number, text: string } | undefined} found
 * @property {number} ms
 */

/**
 * Tries every mutation and says of each which seed found it.
 *
 * @param {readonly Mutation[]} mutations
 * @param {(verdict: Verdict) => void} [onVerdict]
 * @returns {Promise<Verdict[]>}
 */
export async function tryMutations(mutations, onVerdict = () => {}) {
  const folder = mkdtempSync(join(tmpdir(), 'ax-mutations-'))
  /** @type {Verdict[]} */
  const verdicts = []
  const base = join(folder, 'base')
  takeCopy(root, base)
  const left = [...mutations.entries()]
  const work = async () => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) {
      const [index, mutation] = next
      const verdict = await tryOne(base, join(folder, String(index)), mutation)
      verdicts[index] = verdict
      onVerdict(verdict)
    }
  }
  try {
    await Promise.all(Array.from({ length: AT_ONCE }, work))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
  return verdicts
}

/**
 * What a build needs, once: the sources may change while this runs.
 *
 * @param {string} from
 * @param {string} to
 */
function takeCopy(from, to) {
  mkdirSync(to, { recursive: true })
  for (const each of ['src', 'tsconfig.json', 'tsconfig.build.json', 'package.json']) {
    cpSync(join(from, each), join(to, each), { recursive: true })
  }
  symlinkSync(join(root, 'node_modules'), join(to, 'node_modules'), 'junction')
}

/**
 * @param {string} base
 * @param {string} folder
 * @param {Mutation} mutation
 * @returns {Promise<Verdict>}
 */
async function tryOne(base, folder, mutation) {
  const startedAt = performance.now()
  takeCopy(base, folder)
  plant(folder, mutation)
  const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc')
  const built = await collect([tsc, '-p', join(folder, 'tsconfig.build.json'), '--noCheck'])
  if (built.code !== 0) throw new Error(`${mutation.name}: ${built.output}`)
  const cli = join(folder, 'dist', 'testing', 'cli.js')
  const range = ['--seeds', String(SEEDS), '--from', String(mutation.from ?? 1)]
  const args = [...range, '--max-failures', '1', '--jobs', '1', '--json']
  const { output } = await collect([cli, ...args])
  if (output === '') throw new Error(`${mutation.name}: the simulator said nothing`)
  const { failures } = JSON.parse(output)
  return { mutation, found: failures[0], ms: performance.now() - startedAt }
}

/**
 * @param {string} folder
 * @param {Mutation} mutation
 */
function plant(folder, { name, file, find, replace }) {
  const path = join(folder, 'src', file)
  const parts = readFileSync(path, 'utf8').split(find)
  if (parts.length !== 2) {
    throw new Error(
      `"${name}" no longer fits: its line stands ${parts.length - 1} times in ${file}`,
    )
  }
  writeFileSync(path, parts.join(replace))
}

/**
 * @param {readonly string[]} args
 * @returns {Promise<{ code: number, output: string }>}
 */
function collect(args) {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    let output = ''
    child.stdout.on('data', (chunk) => {
      output += chunk
    })
    child.on('error', reject)
    child.on('close', (code) => resolve({ code: code ?? 1, output }))
  })
}

async function main() {
  // Those whose name has this in it; all of them without an argument.
  const [wanted = ''] = process.argv.slice(2)
  const chosen = MUTATIONS.filter(({ name }) => name.includes(wanted))
  const verdicts = await tryMutations(chosen, ({ mutation, found, ms }) => {
    const seconds = (ms / 1_000).toFixed(1).padStart(5)
    const how =
      found === undefined ? 'SURVIVED' : `invariant ${found.invariant}, seed ${found.seed}`
    say(`${seconds} s  ${mutation.name.padEnd(48)} ${how}`)
  })
  const survivors = verdicts.filter(({ found }) => found === undefined)
  say(`${verdicts.length - survivors.length} of ${verdicts.length} planted faults were found.`)
  process.exitCode = survivors.length === 0 ? 0 : 1
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await main()
}
