// Owns the Redis server on which the Redis store is tested: where it is found, and how it is
// installed where that can be done without asking. May never start one, nor be needed to run ax.

import { accessSync, constants, rmSync, statSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { collect, say } from './prepare.mjs'

const PROGRAM = 'redis-server'

/** By the rules of Debian: 101 says that a service may not be started. */
const POLICY = '/usr/sbin/policy-rc.d'

/** What somebody can do who lacks it. */
export const REMEDY =
  'install the package redis-server (redis on macOS), or set AX_REDIS_SERVER to the path of one'

/** Some 2 MB come over the wire, after the lists of packages. */
const PATIENCE_MS = 180_000

/**
 * The program: the one that is named, or the one on the path.
 *
 * @returns {string | undefined}
 */
export function redisServer() {
  const named = process.env.AX_REDIS_SERVER
  return named !== undefined && named !== '' ? named : onPath(PROGRAM)
}

/**
 * @typedef {object} Machine
 * @property {string | undefined} server the program, if it is found
 * @property {number | undefined} userId 0 is who may install; undefined where there are no numbers
 * @property {string | undefined} aptGet Debian's way to install, if it is found
 *
 * What follows from what is there: nothing, an installation, or a word to whoever reads.
 *
 * @param {Machine} machine
 * @returns {'present' | 'install' | 'tell'}
 */
export function whatToDo({ server, userId, aptGet }) {
  if (server !== undefined) return 'present'
  return userId === 0 && aptGet !== undefined ? 'install' : 'tell'
}

/** Installs it if it is missing. What cannot be installed is said, and the tests say it again. */
export async function installRedisServer() {
  const aptGet = onPath('apt-get')
  const doing = whatToDo({ server: redisServer(), userId: process.getuid?.(), aptGet })
  if (doing === 'present') return
  const output = doing === 'install' ? await install(aptGet ?? '') : ''
  if (redisServer() !== undefined) return
  if (output !== '') say(output)
  say(`There is no ${PROGRAM} here, and the tests that need one are skipped: ${REMEDY}.`)
}

/**
 * @param {string} aptGet
 * @returns {Promise<string>} what was printed
 */
async function install(aptGet) {
  say(`Installing ${PROGRAM}, for the tests of Redis ...`)
  const quietly = ['env', 'DEBIAN_FRONTEND=noninteractive', aptGet, '-q', '-y']
  const wanted = [...quietly, '--no-install-recommends', 'install', PROGRAM]
  const allowServices = forbidServices()
  try {
    const first = await attempt(wanted)
    if (redisServer() !== undefined) return first
    // A machine that is new has no lists of packages yet, and an old one has those of yesterday.
    const update = await attempt([...quietly, 'update'])
    return [first, update, await attempt(wanted)].join('\n')
  } finally {
    allowServices()
  }
}

/**
 * Nobody asked for a service on the usual port: the scripts of Debian's packages ask a program
 * whether they may start one, and where there is none, there is one for the moment that says no.
 *
 * @returns {() => void} puts all back as it was
 */
function forbidServices() {
  try {
    writeFileSync(POLICY, '#!/bin/sh\nexit 101\n', { flag: 'wx', mode: 0o755 })
    return () => rmSync(POLICY, { force: true })
  } catch {
    return () => {}
  }
}

/** @param {readonly string[]} words */
async function attempt([command = '', ...args]) {
  const { output } = await collect(command, args, { timeout: PATIENCE_MS })
  return output
}

/** @param {string} name */
function onPath(name) {
  const folders = (process.env.PATH ?? '').split(delimiter).filter((folder) => folder !== '')
  // Where servers are installed, though people's paths do not lead there.
  const places = [...folders, '/usr/local/sbin', '/usr/sbin', '/sbin'].map((each) =>
    join(each, name),
  )
  return places.find(isProgram)
}

/** @param {string} path */
function isProgram(path) {
  try {
    accessSync(path, constants.X_OK)
    return statSync(path).isFile()
  } catch {
    return false
  }
}
