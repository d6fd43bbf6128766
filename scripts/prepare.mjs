// Owns what must be true before a script of this package runs: a recent Node.js, the locked
// dependencies, a fresh build. May never import anything but Node.js itself, since it runs
// before the first install, nor use syntax that an old Node.js cannot read.

import { spawn } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
} from 'node:fs'
import { constants } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The folder of this package. */
export const root = dirname(dirname(fileURLToPath(import.meta.url)))

const OLDEST_NODE = '20.19'

/** Makes everything ready, doing only what is missing; ends the process when it cannot. */
export async function prepare() {
  checkNode()
  if (!isInstalled()) await install()
  if (!isBuilt()) await build()
}

function checkNode() {
  const order = process.versions.node.localeCompare(OLDEST_NODE, 'en', { numeric: true })
  if (order < 0) fail(`ax needs Node.js ${OLDEST_NODE} or newer, and this is ${process.version}.`)
}

/** npm rewrites its own copy of the lock file at the end of every install. */
function isInstalled() {
  const installed = modifiedAt(join(root, 'node_modules', '.package-lock.json'))
  return installed >= modifiedAt(join(root, 'package-lock.json'))
}

async function install() {
  say('Installing dependencies ...')
  const { code, output } = await collect(...npm('ci', '--include=dev', '--no-audit', '--no-fund'))
  if (code !== 0) fail(`${output}\nThe dependencies could not be installed ("npm ci" failed).`)
}

/** A build is fresh when it began after the last change of what it is made from. */
function isBuilt() {
  const builtAt = modifiedAt(join(root, 'dist'))
  return ['src', 'tsconfig.json', 'tsconfig.build.json', 'package-lock.json'].every(
    (source) => newest(join(root, source)) <= builtAt,
  )
}

/**
 * Compiles src into dist. The compiler writes into a folder of its own that replaces dist at the
 * end: a failed build leaves the old one alone, and no file of a deleted source stays behind.
 */
export async function build() {
  say('Building ...')
  const startedAt = new Date()
  const dist = join(root, 'dist')
  const fresh = `${dist}-${process.pid}`
  const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc')
  const { code, output } = await collect(process.execPath, [
    tsc,
    ...['-p', join(root, 'tsconfig.build.json'), '--outDir', fresh],
  ])
  if (code !== 0) {
    rmSync(fresh, { recursive: true, force: true })
    fail(`${output}\nThe build failed.`)
  }
  copyScripts(fresh)
  const command = join(fresh, 'cli', 'main.js')
  if (existsSync(command)) chmodSync(command, 0o755)
  utimesSync(fresh, startedAt, startedAt)
  rmSync(dist, { recursive: true, force: true })
  renameSync(fresh, dist)
}

/**
 * What the compiler does not know: scripts that run in the server of a store.
 *
 * @param {string} fresh
 */
function copyScripts(fresh) {
  const lua = join('stores', 'redis', 'lua')
  cpSync(join(root, 'src', lua), join(fresh, lua), { recursive: true })
}

/**
 * Runs a command on this terminal, waits until it has ended, and gives its exit code; by the
 * custom of shells, 128 and more is the number of the signal that ended it.
 *
 * Signals that reach this process are handed on, and it outlives its child. A terminal sends
 * Ctrl-C to both, and npm repeats it, so the child must take a burst of signals as one.
 *
 * @param {string} command
 * @param {readonly string[]} args
 * @returns {Promise<number>}
 */
export function run(command, args) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd: root, stdio: 'inherit' })
    const handOn = burst((/** @type {NodeJS.Signals} */ signal) => child.kill(signal))
    for (const signal of HANDED_ON) process.on(signal, handOn)
    const settle = () => {
      for (const signal of HANDED_ON) process.off(signal, handOn)
    }
    child.on('error', (error) => {
      settle()
      reject(error)
    })
    child.on('close', (code, signal) => {
      settle()
      resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal]))
    })
  })
}

/** @type {readonly NodeJS.Signals[]} */
const HANDED_ON = ['SIGINT', 'SIGTERM', 'SIGHUP']

/** npm's copy of one key press comes within milliseconds; a person presses again later. */
const BURST_MS = 250

/**
 * Lets the first call through and drops those that follow within a burst.
 *
 * @param {(signal: NodeJS.Signals) => void} act
 */
function burst(act) {
  let lastAt = Number.NEGATIVE_INFINITY
  return (/** @type {NodeJS.Signals} */ signal) => {
    const now = performance.now()
    if (now - lastAt > BURST_MS) act(signal)
    lastAt = now
  }
}

/**
 * Runs a command quietly and gives its exit code and all it printed.
 *
 * @param {string} command
 * @param {readonly string[]} args
 * @param {{ timeout?: number }} [options] milliseconds after which it is ended; 0: never
 * @returns {Promise<{ code: number, output: string }>}
 */
export function collect(command, args, { timeout = 0 } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd: root, timeout, stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    const add = (/** @type {unknown} */ chunk) => {
      output += chunk
    }
    child.stdout.on('data', add)
    child.stderr.on('data', add)
    child.on('error', reject)
    child.on('close', (code) => resolve({ code: code ?? 1, output: output.trimEnd() }))
  })
}

/**
 * The command and arguments that run npm: the one that started this script, or the one on the
 * path. npm on Windows is a script of the shell, which `spawn` cannot start by itself.
 *
 * @param {string[]} args
 * @returns {[command: string, args: string[]]}
 */
export function npm(...args) {
  const running = process.env.npm_execpath
  if (running?.endsWith('.js')) return [process.execPath, [running, ...args]]
  return process.platform === 'win32' ? ['cmd', ['/c', 'npm', ...args]] : ['npm', args]
}

/**
 * The time of the last change of a file, or of anything in a folder. A folder's own time counts
 * too, since it tells of deleted files.
 *
 * @param {string} path
 * @returns {number}
 */
function newest(path) {
  const own = modifiedAt(path)
  if (own === 0 || !statSync(path).isDirectory()) return own
  return Math.max(own, ...readdirSync(path).map((name) => newest(join(path, name))))
}

/**
 * @param {string} path
 * @returns {number} milliseconds since 1970, and 0 when there is no such file
 */
function modifiedAt(path) {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0
}

/**
 * What a script does goes to standard error: standard output belongs to what it runs.
 *
 * @param {string} text
 */
export function say(text) {
  process.stderr.write(`${text}\n`)
}

/**
 * @param {string} text
 * @returns {never}
 */
export function fail(text) {
  say(text)
  process.exit(1)
}
