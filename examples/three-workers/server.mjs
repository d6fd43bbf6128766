// The Redis of this example: the one that REDIS_URL names, or one of its own, which ends with it.

import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const PROGRAM = process.env.AX_REDIS_SERVER || 'redis-server'
const START_MS = 10_000

const REMEDY = `There is no Redis: REDIS_URL is not set, and '${PROGRAM}' cannot be started.
Install it (Debian, Ubuntu: apt-get install redis-server; macOS: brew install redis), or name one:
  REDIS_URL=redis://localhost:6379 node examples/three-workers/main.mjs`

/** @returns {Promise<{ url: string, where: string, stop: () => Promise<void> }>} */
export async function findRedis() {
  const named = process.env.REDIS_URL
  if (named) return { url: named, where: 'the Redis that REDIS_URL names', stop: async () => {} }
  const folder = mkdtempSync(join(tmpdir(), 'ax-three-workers-'))
  const port = await freePort()
  const where = ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder]
  const child = spawn(PROGRAM, [...where, '--save', '', '--appendonly', 'no'], { stdio: 'ignore' })
  const ended = new Promise((resolve) => {
    child.once('exit', resolve)
    child.once('error', resolve)
  })
  // Whatever becomes of this program, its server goes with it.
  process.once('exit', () => child.kill('SIGKILL'))
  const stop = async () => {
    child.kill('SIGTERM')
    await ended
    rmSync(folder, { recursive: true, force: true })
  }
  const isUp = await Promise.race([isListening(port), ended.then(() => false)])
  if (isUp) {
    return { url: `redis://127.0.0.1:${port}`, where: `a Redis of its own, port ${port}`, stop }
  }
  await stop()
  throw new Error(REMEDY)
}

/** @returns {Promise<number>} */
function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      const port = typeof address === 'object' ? (address?.port ?? 0) : 0
      server.close(() => resolve(port))
    })
  })
}

/** @param {number} port */
async function isListening(port) {
  const end = performance.now() + START_MS
  while (performance.now() < end) {
    const isOpen = await new Promise((resolve) => {
      const socket = connect(port, '127.0.0.1')
      socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
      socket.once('connect', () => socket.destroy())
    })
    if (isOpen) return true
    await sleep(20)
  }
  return false
}
