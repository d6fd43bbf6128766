// Owns the scripts: which pieces each is made of, and the constants that they share with the core.
// May never be called with more than two keys, one of them never there, and one argument: the rest
// is packed.

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { StepName } from '../../core/job.ts'
import { MAX_DISPLACED } from '../../core/preempt.ts'
import { STRICT_WEIGHT } from '../../core/rank.ts'
import { poolRules } from '../../core/settings.ts'
import { eventOf, STEPS } from '../../core/steps.ts'
import { SUSPECT_LOSSES } from '../../core/suspect.ts'
import { LIMITS } from '../../store/limits.ts'
import { assemble } from './assembly.ts'
import { VERSION } from './schema.ts'

/** Terms that jobs share at most: as many as there are types, and some more. */
const MOST_TERMS = 1_000

/** Jobs that one page of a walk looks at. */
const MOST_WALKED = 5_000

const CORE = ['session', 'lines', 'rows', 'answers'] as const
const BOARD = ['writing', 'alike', 'board', 'gates', 'lanes'] as const
const RULES = [...CORE, ...BOARD, 'pools', 'rates'] as const
const LOOKING = ['session', 'lines', 'pools', 'slots', 'prospects'] as const
const GRANTING = ['rates', 'pick', 'victims', 'promotion'] as const
const LINKING = [...RULES, 'graph'] as const
const LOOKS = [...CORE, 'board', 'gates', 'lanes', 'graph', 'reading', 'walk'] as const
const ADDING = [...LINKING, 'timetable', 'room', 'loops', 'insertion'] as const

/** The pieces of each script, in order; the last one is the call itself. */
const PIECES = {
  insert: [...ADDING, 'insert'],
  replace: [...ADDING, 'replace'],
  lease: [...LOOKING, 'rows', 'answers', ...BOARD, ...GRANTING, 'lease'],
  overdue: [...LINKING, 'timetable', 'walk', 'terms', 'overdue'],
  apply: [...LINKING, 'moves', 'turns', 'apply'],
  extend: [...RULES, 'moves', 'turns', 'extend'],
  configure: [...RULES, 'timetable', 'configure'],
  beat: ['session', 'beat'],
  get: [...CORE, 'get'],
  list: [...CORE, 'walk', 'list'],
  count: [...CORE, 'reading', 'count'],
  standing: [...LOOKS, 'standing'],
  dependents: [...CORE, 'board', 'graph', 'dependents'],
  events: [...CORE, 'events'],
  settings: [...CORE, 'settings'],
  workers: [...CORE, 'reading', 'workers'],
  inspect: [...LOOKS, 'terms', 'inspect'],
} as const

/** Those that change nothing: a server that is full, or a replica, may run them as well. */
const READING: ReadonlySet<string> = new Set([
  'get',
  'list',
  'count',
  'standing',
  'dependents',
  'events',
  'settings',
  'workers',
  'inspect',
])

export type ScriptName = keyof typeof PIECES

export interface Script {
  readonly text: string
  /** By which the server knows it. */
  readonly sha: string
}

/** All calls, for a server that keeps functions (7.0 on). Its name says what is in it. */
export interface Library {
  readonly text: string
  /** What its functions are called, for calls that change nothing and for all others. */
  readonly reads: string
  readonly writes: string
}

const scripts = new Map<ScriptName, Script>()

/** One call as a script, put together when it is asked for the first time. */
export function scriptOf(name: ScriptName): Script {
  const known = scripts.get(name)
  if (known !== undefined) return known
  const text = `${assemblyOf([name])}\nreturn make()('${name}', KEYS, ARGV)`
  const script = { text, sha: createHash('sha1').update(text).digest('hex') }
  scripts.set(name, script)
  return script
}

let made: Library | undefined

export function isReading(name: ScriptName): boolean {
  return READING.has(name)
}

/** While a library is loaded its server has nothing to call yet: its first call makes the rest. */
export function library(): Library {
  if (made !== undefined) return made
  const body = `${assemblyOf(Object.keys(PIECES) as ScriptName[])}\n${TOGETHER}`
  const id = createHash('sha1').update(body).digest('hex').slice(0, 16)
  const [reads, writes] = [`ax_${id}_read`, `ax_${id}_write`]
  const text = [
    `#!lua name=ax_${id}`,
    body,
    `local reads = { function_name = '${reads}', callback = all, flags = { 'no-writes' } }`,
    'redis.register_function(reads)',
    `redis.register_function('${writes}', all)`,
  ].join('\n')
  made = { text, reads, writes }
  return made
}

/** The arguments are names of calls, each with what it asks. An error ends all. */
const TOGETHER = `local run
local function all(keys, argv)
run = run or make()
local answers = {}
for at = 1, #argv, 2 do
local answer = run(argv[at], keys, { argv[at + 1] })
if type(answer) == 'table' then return answer end
answers[#answers + 1] = answer
end
return answers
end`

function assemblyOf(names: readonly ScriptName[]): string {
  const calls = new Map(names.map((name) => [name, PIECES[name] as readonly string[]]))
  const pieces = new Map([...calls.values()].flat().map((name) => [name, pieceOf(name)]))
  return assemble({ header: header(), pieces, calls })
}

function pieceOf(name: string): string {
  return readFileSync(new URL(`./lua/${name}.lua`, import.meta.url), 'utf8')
}

/** What the rules of the core are made of, so that no number stands in two places. */
function header(): string {
  const limits: Readonly<Record<string, number>> = {
    chunk: LIMITS.chunk,
    prune: LIMITS.prune,
    moves: LIMITS.moves,
    page: LIMITS.page,
    events: LIMITS.events,
    position: LIMITS.position,
    attempts: LIMITS.attempts,
    held: LIMITS.held,
    flowMs: LIMITS.flowMs,
    terms: MOST_TERMS,
    walk: MOST_WALKED,
    displaced: MAX_DISPLACED,
    strictWeight: STRICT_WEIGHT,
    suspectLosses: SUSPECT_LOSSES,
    concurrency: poolRules({}, {}).concurrency,
  }
  const listed = Object.entries(limits).map(([name, value]) => `${name} = ${value}`)
  const lines = [`local VERSION = ${VERSION}`, `local LIMIT = { ${listed.join(', ')} }`]
  return [...lines, 'local EVENT = {', ...legal(), '}'].join('\n')
}

/** Every legal transition, `step from to`, with what the log calls it. */
function legal(): readonly string[] {
  return (Object.keys(STEPS) as StepName[]).flatMap((step) => {
    const { from, to } = STEPS[step]
    return from.flatMap((begin) =>
      to.map((end) => {
        const event = end === 'gone' ? STEPS[step].event : eventOf(step, end)
        return `['${step} ${begin} ${end}'] = '${event}',`
      }),
    )
  })
}
