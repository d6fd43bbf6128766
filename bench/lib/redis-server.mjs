// Owns the Redis server that a comparison has to itself, and what it says of its own work.
// May never speak to another server: those who measure empty it.

import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtempSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'

/**
 * The server ends when the pipe does that this process holds, however this process ends; its
 * folder goes with it.
 */
const GUARD = `
  trap '' INT TERM HUP
  folder=$1
  shift
  "$@" &
  read -r line
  kill -9 $!
  rm -rf "$folder"
`

const START_MS = 10_000
const LOOK_MS = 20

/**
 * Starts a server that writes nothing to the disk, and gives its address.
 *
 * @param {string} program
 * @returns {Promise<string>}
 */
export async function startServer(program) {
  const folder = mkdtempSync(join(tmpdir(), 'ax-bench-redis-'))
  const port = await freePort()
  const password = randomBytes(12).toString('hex')
  const where = ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder]
  const settings = ['--save', '', '--appendonly', 'no', '--requirepass', password]
  const guard = spawn('sh', ['-c', GUARD, 'guard', folder, program, ...where, ...settings], {
    stdio: ['pipe', 'ignore', 'inherit'],
  })
  guard.unref()
  const end = performance.now() + START_MS
  while (!(await answers(port, password))) {
    if (performance.now() > end) throw new Error(`${program} does not answer on port ${port}.`)
    await setTimeout(LOOK_MS)
  }
  return `redis://:${password}@127.0.0.1:${port}`
}

/** @returns {Promise<number>} */
function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.on('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      const port = typeof address === 'object' ? (address?.port ?? 0) : 0
      server.close(() => resolve(port))
    })
  })
}

/**
 * Whether the server that listens there is the one that was started: no other has its password.
 *
 * @param {number} port
 * @param {string} password
 * @returns {Promise<boolean>}
 */
function answers(port, password) {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    let text = ''
    socket.on('connect', () => socket.write(`AUTH ${password}\r\nPING\r\nQUIT\r\n`))
    socket.on('data', (chunk) => {
      text += chunk
    })
    socket.on('error', () => resolve(false))
    socket.on('close', () => resolve(text.startsWith('+OK\r\n+PONG\r\n')))
  })
}

/**
 * Processor time of the server, commands that it carried out (those within scripts too), bytes of
 * its memory: all so far. The question itself is no work that counts.
 *
 * @param {{ info: (section: string) => Promise<string> }} connection
 */
export async function workOf(connection) {
  const [stats, cpu, memory] = await Promise.all(
    ['commandstats', 'cpu', 'memory'].map((section) => connection.info(section)),
  )
  const calls = [...(stats ?? '').matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)]
  const counted = calls.filter(([, name]) => name !== 'info')
  return {
    commands: counted.reduce((sum, [, , count]) => sum + Number(count), 0),
    cpuMs: 1000 * (field(cpu, 'used_cpu_user') + field(cpu, 'used_cpu_sys')),
    bytes: field(memory, 'used_memory'),
  }
}

/**
 * @param {string | undefined} text
 * @param {string} name
 */
function field(text, name) {
  return Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(text ?? '')?.[1] ?? Number.NaN)
}
