// Owns how pieces of Lua become one script in which little stays open.
// May never change what a piece does: names keep their meaning, and their order.

/**
 * A function of Lua that uses a local of the script around it has to find it anew in each call of
 * the script, in a list of all that are used so: with 150 locals and 150 functions that takes
 * longer than the call. So each piece becomes a block of its own, and what only it uses is closed
 * at its end; what others use is declared before it. Values that never change are copied to where
 * they are used: the last ones of the list are found first. `lazy`: by place, the tables that the
 * functions of a piece are in that few calls need.
 */
export function assemble(
  header: string,
  pieces: readonly string[],
  lazy: readonly (readonly string[] | undefined)[] = [],
): string {
  const parts = [header]
  const constants = new Set<string>(['LIMIT', 'EVENT'])
  for (const [at, piece] of pieces.entries()) {
    if (at === pieces.length - 1) {
      parts.push(copied(piece, constants), piece)
      break
    }
    const later = pieces
      .slice(at + 1)
      .map(codeOf)
      .join('\n')
    const names = declaredIn(piece).filter((name) => mentions(later, name))
    const copies = copied(piece, constants)
    const tables = lazy[at]
    if (tables !== undefined && names.length === 0) parts.push(deferred(tables, copies, piece))
    else {
      if (names.length > 0) parts.push(`local ${names.join(', ')}`)
      parts.push('do', copies, opened(piece, new Set(names)), 'end')
    }
    for (const name of names) if (!CHANGING.has(name)) constants.add(name)
  }
  return parts.join('\n')
}

/** A piece whose functions are in tables: they are made when the first of them is asked for. */
function deferred(tables: readonly string[], copies: string, piece: string): string {
  const open = tables.map((table) => `setmetatable(${table}, nil)`).join(' ')
  const find = `local found = { __index = function(of, name) ${open} load() return of[name] end }`
  const set = tables.map((table) => `setmetatable(${table}, found)`).join(' ')
  return ['do', 'local function load()', copies, piece, 'end', find, set, 'end'].join('\n')
}

/** What a call assigns anew after it has been declared. */
const CHANGING: ReadonlySet<string> = new Set([
  'put',
  'wrote',
  'flush',
  'dirty',
  'dirtyCount',
  'tallies',
  'weighs',
  'failures',
  'remembers',
])

const DECLARATION = /^local (?:function (\w+)|([\w, ]+?))(?= =|\(|$)/gm

/** The locals of a piece itself, outside of its functions. */
function declaredIn(piece: string): string[] {
  return [...piece.matchAll(DECLARATION)].flatMap(([, name, names = '']) => {
    return name === undefined ? names.split(',').map((each) => each.trim()) : [name]
  })
}

/** The piece with these names declared elsewhere. */
function opened(piece: string, names: ReadonlySet<string>): string {
  return piece.replace(DECLARATION, (whole, name: string | undefined, list = '', at: number) => {
    if (name !== undefined) return names.has(name) ? `function ${name}` : whole
    const all = (list as string).split(',').map((each) => each.trim())
    const own = all.filter((each) => !names.has(each))
    if (own.length === all.length) return whole
    const declared = own.length === 0 ? '' : `local ${own.join(', ')} `
    const isAssigned = piece[at + whole.length] === ' '
    return isAssigned ? `${declared}${list}` : declared
  })
}

/** Copies of the constants that a piece uses. */
function copied(piece: string, constants: ReadonlySet<string>): string {
  const own = new Set(declaredIn(piece))
  const code = codeOf(piece)
  const used = [...constants].filter((name) => !own.has(name) && mentions(code, name))
  return used.length === 0 ? '' : `local ${used.join(', ')} = ${used.join(', ')}`
}

/** Without comments and texts. */
function codeOf(piece: string): string {
  return piece.replace(/--[^\n]*|'(?:\\.|[^'\\\n])*'/g, '')
}

function mentions(code: string, name: string): boolean {
  return new RegExp(`(?<![\\w.:])${name}\\b`).test(code)
}
