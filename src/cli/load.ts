// Owns the way from a path to what a flow file says, and where in the file it says so.
// May never judge what the file says: that is for flow.ts.

import { readdir, readFile, realpath } from 'node:fs/promises'
import { basename, dirname, extname, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type Document, isAlias, isMap, isNode, isSeq, LineCounter, parseDocument } from 'yaml'
import { nearest } from '../core/options.ts'
import { FlowFault, type Path, type Place, type Problem } from './problems.ts'

/** What a flow file says, not looked at yet. */
export interface Source {
  /** As the user named it. */
  readonly file: string
  /** Where it really is, absolute, whatever links lead there. */
  readonly path: string
  /** The folder it is in, absolute. */
  readonly folder: string
  /** The file's name without its ending: what a flow is called that has no name. */
  readonly title: string
  readonly value: unknown
  /** A module, whose jobs may be functions. */
  readonly isModule: boolean
  /** Where a key, or its value, is written; for a missing one, where its parent is. */
  where(path: Path, at: 'key' | 'value'): Place | undefined
}

const KINDS: Readonly<Record<string, 'yaml' | 'json' | 'module'>> = {
  '.yaml': 'yaml',
  '.yml': 'yaml',
  '.json': 'json',
  '.js': 'module',
  '.mjs': 'module',
  '.cjs': 'module',
  '.ts': 'module',
  '.mts': 'module',
  '.cts': 'module',
}

/** Reads a flow file; throws a FlowFault that tells why it cannot be read. */
export async function load(file: string): Promise<Source> {
  const path = resolve(file)
  const kind = KINDS[extname(path).toLowerCase()]
  const text = await read(file, path)
  if (kind === undefined) {
    throw fault(file, `A flow is a file that ends in ${listOf(Object.keys(KINDS))}.`)
  }
  const folder = dirname(path)
  const common = { file, path: await realpath(path), folder, title: basename(path, extname(path)) }
  if (kind === 'module') {
    return { ...common, ...NOWHERE, value: await fromModule(file, path), isModule: true }
  }
  const parsed = kind === 'json' ? fromJson(file, text) : fromYaml(file, text)
  return { ...common, ...parsed, isModule: false }
}

const NOWHERE = { where: () => undefined }

async function read(file: string, path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    const code = codeOf(error)
    if (code === 'EISDIR') throw fault(file, 'This is a folder. Name the file in it.')
    if (code !== 'ENOENT') throw fault(file, `The file cannot be read: ${messageOf(error)}.`)
    const near = nearest(basename(path), await namesIn(dirname(path)))
    const hint = near === undefined ? '' : ` Did you mean '${near}'?`
    throw fault(file, `There is no such file.${hint}`)
  }
}

async function namesIn(folder: string): Promise<readonly string[]> {
  try {
    return (await readdir(folder)).filter((name) => extname(name).toLowerCase() in KINDS)
  } catch {
    return []
  }
}

type Parsed = Pick<Source, 'value' | 'where'>

function fromYaml(file: string, text: string): Parsed {
  const { document, problems, where } = parse(text)
  if (problems.length > 0) throw new FlowFault(file, problems)
  try {
    return { value: document.toJS({ maxAliasCount: 100 }), where }
  } catch (error) {
    throw fault(file, `${messageOf(error)}.`)
  }
}

/** JSON is read by its own rules; the parser of YAML, which takes JSON too, tells the places. */
function fromJson(file: string, text: string): Parsed {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw new FlowFault(file, [notJson(messageOf(error), text)])
  }
  const { document, where } = parse(text)
  const twice = document.errors.filter(({ code }) => code === 'DUPLICATE_KEY')
  if (twice.length > 0) {
    throw new FlowFault(
      file,
      twice.map(({ message, pos }) => ({ text: `${message}.`, place: placeAt(text, pos[0]) })),
    )
  }
  return document.errors.length > 0 ? { value, ...NOWHERE } : { value, where }
}

/** The engine names the place of some mistakes only; YAML stumbles over most of the others. */
function notJson(message: string, text: string): Problem {
  const at = /\bat position (\d+)/.exec(message)?.[1]
  const end = message.includes('end of JSON') ? text.length : undefined
  const offset = at === undefined ? end : Number(at)
  const place = offset === undefined ? parse(text).problems[0]?.place : placeAt(text, offset)
  return { text: `${message.replace(/ (in JSON )?at position .*/s, '')}.`, place }
}

function parse(text: string) {
  const lines = new LineCounter()
  const document = parseDocument(text, {
    lineCounter: lines,
    merge: true,
    prettyErrors: false,
    stringKeys: true,
  })
  const problems: Problem[] = [...document.errors, ...document.warnings].map((each) => ({
    text:
      each.code === 'MULTIPLE_DOCS'
        ? 'Another document begins here, and a flow is one. Leave it out, or give it its own file.'
        : each.message.replace(/\.?$/, '.'),
    place: showPlace(lines, each.pos[0]),
  }))
  return { document, problems, where: locator(document, lines) }
}

function locator(document: Document, lines: LineCounter): Source['where'] {
  return (path, at) => {
    const offset = find(document, path, at)
    return offset === undefined ? undefined : showPlace(lines, offset)
  }
}

/** The offset of the deepest part of a path that is written down. */
function find(document: Document, path: Path, at: 'key' | 'value'): number | undefined {
  let node: unknown = document.contents
  let offset = startOf(node)
  for (const [index, step] of path.entries()) {
    if (isAlias(node)) node = node.resolve(document)
    if (isMap(node)) {
      const pair = node.items.find(({ key }) => String(key) === String(step))
      if (pair === undefined) return offset
      node = pair.value
      const isLast = index === path.length - 1
      offset = (isLast && at === 'value' ? startOf(node) : undefined) ?? startOf(pair.key) ?? offset
    } else if (isSeq(node) && typeof step === 'number') {
      node = node.items[step]
      offset = startOf(node) ?? offset
    } else {
      return offset
    }
  }
  return offset
}

/** A value that was left empty has a place of its own, but nothing that a person could see. */
function startOf(node: unknown): number | undefined {
  if (!isNode(node) || node.range == null) return undefined
  return node.range[0] === node.range[1] ? undefined : node.range[0]
}

function showPlace(lines: LineCounter, offset: number): Place {
  const { line, col } = lines.linePos(offset)
  return { line, column: col }
}

function placeAt(text: string, offset: number): Place {
  const before = text.slice(0, offset).split('\n')
  return { line: before.length, column: (before.at(-1)?.length ?? 0) + 1 }
}

async function fromModule(file: string, path: string): Promise<unknown> {
  const loaded: Record<string, unknown> = await importModule(file, path)
  if ('default' in loaded) return loaded.default
  const hint = 'jobs' in loaded ? " Write 'export default { jobs }'." : ''
  throw fault(file, `The module has no default export, which is where a flow has to be.${hint}`)
}

/** What a module exports; for those who take nothing but modules. */
export async function loadModule(file: string): Promise<Record<string, unknown>> {
  const path = resolve(file)
  await read(file, path)
  const endings = Object.keys(KINDS).filter((ending) => KINDS[ending] === 'module')
  if (!endings.includes(extname(path).toLowerCase())) {
    throw fault(file, `It is no module: its name does not end in ${listOf(endings)}.`)
  }
  return importModule(file, path)
}

async function importModule(file: string, path: string): Promise<Record<string, unknown>> {
  try {
    return await import(pathToFileURL(path).href)
  } catch (error) {
    if (codeOf(error) === 'ERR_UNKNOWN_FILE_EXTENSION') {
      const remedy = 'Use Node.js 22.18 or newer, or write it in JavaScript.'
      throw fault(file, `This Node.js (${process.version}) does not run TypeScript. ${remedy}`)
    }
    throw fault(file, `The module cannot be loaded. ${stackOf(error)}`)
  }
}

function listOf(endings: readonly string[]): string {
  return `${endings.slice(0, -1).join(', ')} or ${endings.at(-1)}`
}

function fault(file: string, text: string): FlowFault {
  return new FlowFault(file, [{ text }])
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

function stackOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}
