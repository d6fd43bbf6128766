// Owns a Redis server of a test: started on a free port of this machine, ended by the test.
// May never use a server that was there before, or leave anything behind.

import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'

export interface RedisServer {
  readonly port: number
  readonly url: string
  /** A client for looking at what is there; ended with the server. */
  readonly client: Redis
  /** Ends the process, as a crash does. */
  kill(): Promise<void>
  /** Starts it again on the same port, with nothing in it. */
  start(): Promise<void>
  stop(): Promise<void>
}

/** Nothing of a test needs to outlive its server. A password, if there is one, is said first. */
const ARGS = ['--save', '', '--appendonly', 'no', '--bind', '127.0.0.1', '--loglevel', 'warning']

export async function startRedis(...more: readonly string[]): Promise<RedisServer> {
  const port = await freePort()
  const folder = mkdtempSync(join(tmpdir(), 'ax-redis-'))
  let child: ChildProcess | undefined
  const start = async () => {
    const args = ['--port', String(port), '--dir', folder, ...ARGS, ...more]
    const mine = spawn('redis-server', args, { stdio: 'ignore' })
    child = mine
    const failed = new Promise<never>((_, reject) => {
      mine.once('error', () => reject(new Error('These tests need redis-server on the path.')))
      mine.once('exit', (code) => {
        if (child === mine) reject(new Error(`redis-server has ended with ${code}.`))
      })
    })
    failed.catch(() => {})
    await Promise.race([client.ping(), failed])
  }
  const kill = async () => {
    const mine = child
    child = undefined
    if (mine === undefined || mine.exitCode !== null) return
    const gone = new Promise((resolve) => mine.once('exit', resolve))
    mine.kill('SIGKILL')
    await gone
  }
  const [, password] = more[0] === '--requirepass' ? more : []
  const user = password === undefined ? '' : `:${encodeURIComponent(password)}@`
  const client = new Redis(port, '127.0.0.1', {
    ...(password === undefined ? {} : { password }),
    lazyConnect: true,
    maxRetriesPerRequest: null,
    retryStrategy: () => 20,
  })
  client.on('error', () => {})
  await start()
  return {
    port,
    url: `redis://${user}127.0.0.1:${port}`,
    client,
    kill,
    start,
    stop: async () => {
      client.disconnect()
      await kill()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.on('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      const port = typeof address === 'object' && address !== null ? address.port : 0
      server.close(() => resolve(port))
    })
  })
}
