// Owns the later Node.js on which the SQLite store is tested too, since from Node 22.5 on it uses
// another library: where it is found, and how it is fetched. May never be needed to run ax.

import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { collect, npm, root, say } from './prepare.mjs'

/** Node.js itself, as npm has it for each platform. */
const PLATFORM = process.platform === 'win32' ? 'win' : process.platform
const PACKAGE = `node-${PLATFORM}-${process.arch}`
const VERSION = '24'

const folder = join(root, 'node_modules', '.cache', 'ax-later-node')

/** Some 50 MB come over the wire. */
const PATIENCE_MS = 120_000

/** What somebody can do who lacks it. */
export const REMEDY = `run \`npm test\`, which fetches it, or set AX_LATER_NODE to the path of a Node.js ${VERSION}`

/**
 * The program: the one that is named, this one if it is late enough, or the one that was fetched.
 *
 * @returns {string | undefined}
 */
export function laterNode() {
  const named = process.env.AX_LATER_NODE
  if (named !== undefined && named !== '') return named
  if (Number.parseInt(process.versions.node, 10) >= Number(VERSION)) return process.execPath
  const fetched = programIn(folder)
  return existsSync(fetched) ? fetched : undefined
}

/** @param {string} place */
function programIn(place) {
  const name = process.platform === 'win32' ? 'node.exe' : 'node'
  return join(place, 'node_modules', PACKAGE, 'bin', name)
}

/** Fetches it if it is missing. What cannot be fetched is said, and the tests say it again. */
export async function fetchLaterNode() {
  if (laterNode() !== undefined) return
  say(`Fetching Node.js ${VERSION}, for the tests of SQLite ...`)
  const fresh = `${folder}-${process.pid}`
  mkdirSync(fresh, { recursive: true })
  const [command, args] = npm(
    ...['install', '--prefix', fresh, '--no-save', '--no-package-lock', '--ignore-scripts'],
    ...['--no-audit', '--no-fund', `${PACKAGE}@${VERSION}`],
  )
  const { code, output } = await collect(command, args, { timeout: PATIENCE_MS })
  if (code === 0 && existsSync(programIn(fresh))) {
    rmSync(folder, { recursive: true, force: true })
    mkdirSync(dirname(folder), { recursive: true })
    renameSync(fresh, folder)
  } else {
    rmSync(fresh, { recursive: true, force: true })
    say(`${output}\nNode.js ${VERSION} could not be fetched: the tests that need it are skipped.`)
  }
}
