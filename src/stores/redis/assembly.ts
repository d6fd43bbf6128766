// Owns how pieces of Lua become scripts, and one library: what is made once, what in each call.
// May never change what a piece does: names keep their meaning, and their order.

/**
 * A server that runs a script makes all of its functions anew, each time; those of a library are
 * there. So each piece is taken apart: its functions, and what is named in capitals or begins with
 * one, are made once and may hold nothing of a call; whatever else stands at its top level is done
 * when a call begins. (A single letter is no such name.) Names that other pieces ask for are
 * declared before all of them; a name that only one piece knows is closed in there. A call is a
 * piece as well, which nobody else asks for anything; its top level answers.
 */
export interface Assembly {
  /** What all pieces know. */
  readonly header: string
  /** The texts of pieces by name, those of calls included, in the order in which they are made. */
  readonly pieces: ReadonlyMap<string, string>
  /** By call, the pieces that begin with it, in order; its own is the last. */
  readonly calls: ReadonlyMap<string, readonly string[]>
}

/** A text that declares `make()`, which answers a function of the name of a call, keys and argv. */
export function assemble({ header, pieces, calls }: Assembly): string {
  const parsed = Array.from(pieces, ([name, text]) => parse(name, text))
  const rules = parsed.filter(({ name }) => !calls.has(name))
  const shared = new Set(rules.flatMap((piece) => sharedOf(piece, parsed)))
  for (const name of shared) checkOnce(name, rules)
  const steps = Array.from(calls, ([name, list]) => {
    const of = (table: string) => list.map((each) => `${table}.${each}`).join(', ')
    return `${name} = { begins = { ${of('begins')} }, ends = { ${of('ends')} } },`
  })
  return [
    header,
    'local function make()',
    'local KEYS, ARGV',
    `local ${[...shared].join(', ')}`,
    'local begins, ends = {}, {}',
    ...parsed.map((piece) => blockOf(piece, calls.has(piece.name) ? new Set() : shared)),
    'local calls = {',
    ...steps,
    '}',
    RUN,
    'end',
  ].join('\n')
}

/** A piece may answer before the others begin. Nothing of a call is kept when it is over. */
const RUN = `return function(name, keys, argv)
KEYS, ARGV = keys, argv
local answer
local steps = calls[name]
for _, begin in ipairs(steps.begins) do
answer = begin()
if answer ~= nil then break end
end
for _, over in ipairs(steps.ends) do over() end
KEYS, ARGV = nil, nil
return answer
end`

interface Piece {
  readonly name: string
  /** Functions and constants, as they are written. */
  readonly once: readonly Statement[]
  readonly each: readonly Statement[]
  readonly code: string
}

interface Statement {
  readonly text: string
  /** What it declares. */
  readonly names: readonly string[]
}

/** A line that begins a statement, as against one that goes on with it or ends it. */
const BEGINS = /^(?!end\b|else|until\b|--)\w/

const DECLARES = /^local (?:function (\w+)|([\w, ]+?))(?= =|\(|$)/

function parse(name: string, text: string): Piece {
  const statements: string[][] = []
  for (const line of text.split('\n')) {
    if (BEGINS.test(line)) statements.push([line])
    else if (line !== '' && !line.startsWith('--')) statements.at(-1)?.push(line)
  }
  const all = statements.map((lines) => {
    const [, own, list = ''] = DECLARES.exec(lines[0] as string) ?? []
    const names = own === undefined ? list.split(',').map((each) => each.trim()) : [own]
    return { text: lines.join('\n'), names: names.filter((each) => each !== '') }
  })
  const once = all.filter(isMadeOnce)
  const each = all.filter((statement) => !isMadeOnce(statement))
  return { name, once, each, code: codeOf(text) }
}

function isMadeOnce({ text, names }: Statement): boolean {
  if (/^(?:local )?function\b/.test(text)) return true
  return names.length > 0 && names.every((name) => /^[A-Z]\w/.test(name))
}

function declaredIn({ once, each }: Piece): string[] {
  return [...once, ...each].flatMap(({ names }) => names)
}

function sharedOf(piece: Piece, all: readonly Piece[]): string[] {
  const others = all
    .filter((other) => other !== piece)
    .map((other) => ({ code: other.code, own: new Set(declaredIn(other)) }))
  return declaredIn(piece).filter((name) => {
    const asked = new RegExp(`(?<![\\w.:])${name}\\b`)
    return others.some(({ code, own }) => !own.has(name) && asked.test(code))
  })
}

function checkOnce(name: string, pieces: readonly Piece[]): void {
  const by = pieces.filter((piece) => declaredIn(piece).includes(name))
  if (by.length === 1) return
  throw new Error(`${name} is declared by ${by.map((piece) => piece.name).join(' and ')}`)
}

function blockOf(piece: Piece, shared: ReadonlySet<string>): string {
  const isOwn = (name: string) => !shared.has(name)
  const own = new Set(declaredIn(piece).filter(isOwn))
  const state = piece.each.flatMap(({ names }) => names)
  const lines = ['do']
  if (own.size > 0) lines.push(`local ${[...own].join(', ')}`)
  lines.push(...piece.once.map(({ text }) => text.replace(/^local /, '')))
  lines.push(`begins.${piece.name} = function()`, ...piece.each.map(begun), 'end')
  const over = state.length > 0 ? `${state.join(', ')} = nil` : ''
  lines.push(`ends.${piece.name} = function() ${over} end`, 'end')
  return lines.join('\n')
}

/** A declaration as an assignment: the name itself has been declared. */
function begun({ text, names }: Statement): string {
  if (names.length === 0) return text
  const first = text.split('\n', 1)[0] as string
  return first.includes(' = ') ? text.replace(/^local /, '') : `${names.join(', ')} = nil`
}

/** Without comments and texts. */
function codeOf(piece: string): string {
  return piece.replace(/--[^\n]*|'(?:\\.|[^'\\\n])*'/g, '')
}
