// Owns what can be wrong with a file that says what to run, and how it is told.
// May never stop at the first problem: a person mends a file in one go.

/** Where something is in a flow file: keys and positions from the top. */
export type Path = readonly (string | number)[]

/** Counted from 1. */
export interface Place {
  readonly line: number
  readonly column: number
}

export interface Problem {
  /** One sentence that names the key. */
  readonly text: string
  readonly place?: Place | undefined
}

/** A flow file, or the module of a worker, that cannot be used, with all that is wrong with it. */
export class FlowFault extends Error {
  readonly file: string
  readonly problems: readonly Problem[]

  constructor(file: string, problems: readonly Problem[], what: 'flow' | 'worker' = 'flow') {
    super(tell(file, problems, what))
    this.name = 'FlowFault'
    this.file = file
    this.problems = problems
  }
}

/** One line per problem, in the form that editors and terminals turn into a link. */
function tell(file: string, problems: readonly Problem[], what: string): string {
  const count =
    problems.length === 1 ? 'there is a problem' : `there are ${problems.length} problems`
  const lines = [...problems].sort(byPlace).map(({ text, place }) => {
    const where = place === undefined ? file : `${file}:${place.line}:${place.column}`
    return `  ${where}: ${text}`
  })
  return [`This ${what} cannot run: ${count} in its file.`, ...lines].join('\n')
}

function byPlace(a: Problem, b: Problem): number {
  if (a.place === undefined || b.place === undefined) return 0
  return a.place.line - b.place.line || a.place.column - b.place.column
}

/** A path as people write it: `jobs.fetch_sales.deps[0]`, `jobs["build linux"]`. */
export function showPath(path: Path): string {
  if (path.length === 0) return 'the flow'
  return path.map((step, index) => showStep(step, index === 0)).join('')
}

function showStep(step: string | number, isFirst: boolean): string {
  if (typeof step === 'number') return `[${step}]`
  if (/^[\w-]+$/.test(step)) return isFirst ? step : `.${step}`
  return `[${JSON.stringify(step)}]`
}
