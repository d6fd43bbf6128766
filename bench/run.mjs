// Owns the way to a benchmark: `npm run bench -- NAME [options]`. Installs what the benchmarks
// compare ax with, builds ax, and runs the script. May never know what a script measures.

import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { collect, fail, npm, prepare, run, say } from '../scripts/prepare.mjs'

const folder = dirname(fileURLToPath(import.meta.url))
const [name, ...options] = process.argv.slice(2)
const script = scripts().find((each) => each.name === name)

if (script === undefined) {
  list()
  process.exitCode = name === undefined ? 0 : 2
} else {
  await prepare()
  if (!isInstalled()) await install()
  process.exitCode = await run(process.execPath, [script.path, ...options])
}

/** Every file of this folder that is a benchmark, with the first sentence of its comment. */
function scripts() {
  return readdirSync(folder)
    .filter((file) => file.endsWith('.mjs') && file !== 'run.mjs')
    .map((file) => {
      const path = join(folder, file)
      const comment = readFileSync(path, 'utf8').match(/^(\/\/.*\n)+/)?.[0] ?? ''
      const text = comment.replaceAll(/^\/\/ ?/gm, '').replaceAll('\n', ' ')
      const about = text.match(/^Owns (.*?)[.:]( |$)/)?.[1] ?? ''
      return { name: file.replace('.mjs', ''), path, about }
    })
}

/** With a wrong name, the list is an answer to a mistake and belongs to standard error. */
function list() {
  const lines = scripts().map((each) => `  ${each.name.padEnd(10)}${each.about}`)
  const usage = `npm run bench -- NAME [options]\n${lines.join('\n')}`
  if (name === undefined) process.stdout.write(`${usage}\n`)
  else say(`There is no benchmark '${name}'.\n${usage}`)
}

/** npm rewrites its own copy of the lock file at the end of every install. */
function isInstalled() {
  const installed = join(folder, 'node_modules', '.package-lock.json')
  const wanted = join(folder, 'package-lock.json')
  return existsSync(installed) && statSync(installed).mtimeMs >= statSync(wanted).mtimeMs
}

async function install() {
  say('Installing what the benchmarks compare with (one is compiled: a minute or more) ...')
  const { code, output } = await collect(...npm('ci', '--prefix', folder))
  if (code !== 0) fail(`${output}\nThe packages of ${folder} could not be installed.`)
}
