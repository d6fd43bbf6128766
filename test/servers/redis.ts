// Owns real Redis servers for tests: each on a free loopback port, in a folder of its own.
// May never leave one behind, whatever becomes of the tests or of their process.

import { existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll } from 'vitest'
import { REMEDY, redisServer } from '../../scripts/redis-server.mjs'
import { Guarded } from './guarded.ts'
import { converse, infoOf } from './resp.ts'

export interface RedisOptions {
  /** Default: nothing is written to the disk. */
  readonly appendonly?: boolean
  /** Default: that of the server, 'everysec'. */
  readonly appendfsync?: 'always' | 'everysec' | 'no'
  /** Follows this one; it is in step with it once it is started. */
  readonly replicaof?: RedisServer
  readonly requirepass?: string
  /** More of its settings, as words: `['--maxmemory', '10mb']`. */
  readonly args?: readonly string[]
}

export interface RedisServer {
  /** With the password, if there is one. The same for as long as there are restarts. */
  readonly url: string
  readonly port: number
  /** 0 while it does not run. */
  readonly pid: number
  readonly folder: string
  /** Ends it as an operator does; what it keeps on the disk is there after a restart. */
  stop(): Promise<void>
  /** SIGKILL: it ends wherever it is. */
  kill(): Promise<void>
  /** Ends it if it runs, and starts it again on the same port with what is on the disk. */
  restart(): Promise<void>
  /** SIGSTOP: it answers nothing, and its connections stay open. */
  pause(): Promise<void>
  resume(): void
}

/** Below the ports that a system gives to clients, and so that 10,000 more is one too. */
const PORTS = { least: 20_000, count: 12_000 }

/** Another process may take a port between the look at it and the start. */
const TRIES = 5

const LOOK_MS = 10
/** So long a server may load what it finds, on a machine that does much else. */
const START_MS = 15_000
const STOP_MS = 10_000

const guards = new Set<Guarded>()

afterAll(async () => {
  await Promise.all([...guards].map((guard) => guard.dispose()))
  guards.clear()
})

/** Resolves once the server answers; it ends with the tests of the file at the latest. */
export async function startRedis(options: RedisOptions = {}): Promise<RedisServer> {
  const program = redisServer()
  if (program === undefined) throw new Error(`There is no Redis server here: ${REMEDY}.`)
  const guard = new Guarded('redis')
  guards.add(guard)
  for (let left = TRIES; ; left -= 1) {
    const port = await freePort()
    try {
      await launch(guard, program, port, options)
      return serverOf(guard, program, port, options)
    } catch (error) {
      const isTaken = /Address already in use|could not.*listen/i.test(logOf(guard))
      if (!isTaken || left <= 1) throw error
    }
  }
}

/** One that nobody listens on now, nor on the one that a cluster takes beside it. */
async function freePort(): Promise<number> {
  for (;;) {
    const port = PORTS.least + Math.floor(Math.random() * PORTS.count)
    if ((await isFree(port)) && (await isFree(port + 10_000))) return port
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer()
    server.on('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}

function serverOf(
  guard: Guarded,
  program: string,
  port: number,
  options: RedisOptions,
): RedisServer {
  const stop = async () => {
    guard.signal('SIGTERM')
    // One that is paused ends when it goes on.
    guard.signal('SIGCONT')
    const late = new AbortController()
    const tooLong = sleep(STOP_MS, undefined, { signal: late.signal, ref: false }).catch(() => {})
    await Promise.race([guard.ended, tooLong])
    late.abort()
    if (guard.pid === 0) return
    guard.signal('SIGKILL')
    await guard.ended
    throw new Error(`The server did not end within ${STOP_MS} ms of being told to.`)
  }
  return {
    url: urlOf(port, options.requirepass),
    port,
    folder: guard.folder,
    get pid() {
      return guard.pid
    },
    stop,
    async kill() {
      guard.signal('SIGKILL')
      await guard.ended
    },
    async restart() {
      await stop()
      await launch(guard, program, port, options)
    },
    async pause() {
      guard.signal('SIGSTOP')
      await until('the server has stopped', async () => isStopped(guard.pid))
    },
    resume: () => guard.signal('SIGCONT'),
  }
}

/** A signal takes a moment to arrive. Where nobody can look, it is believed. */
function isStopped(pid: number): boolean {
  const stat = `/proc/${pid}/stat`
  return !existsSync(stat) || /\) T /.test(readFileSync(stat, 'utf8'))
}

function urlOf(port: number, password: string | undefined): string {
  const login = password === undefined ? '' : `:${encodeURIComponent(password)}@`
  return `redis://${login}127.0.0.1:${port}`
}

/** Starts the program, and resolves once it answers and, if it follows another one, is in step. */
async function launch(
  guard: Guarded,
  program: string,
  port: number,
  options: RedisOptions,
): Promise<void> {
  guard.start(program, argsOf(guard, port, options))
  const url = urlOf(port, options.requirepass)
  await until(`the server on port ${port} answers`, async () => {
    if (guard.pid === 0) throw new Error(`The server ended at its start:\n${logOf(guard)}`)
    return answers(url, guard.pid)
  })
  if (options.replicaof === undefined) return
  const isInStep = async () => (await infoOf(url, 'master_link_status')) === 'up'
  await until('the replica is in step', isInStep)
}

function argsOf(guard: Guarded, port: number, options: RedisOptions): string[] {
  const { appendonly = false, appendfsync, replicaof, requirepass, args = [] } = options
  const said: string[] = ['--port', String(port), '--bind', '127.0.0.1']
  said.push('--dir', guard.folder, '--logfile', join(guard.folder, 'log'))
  said.push('--save', '', '--appendonly', appendonly ? 'yes' : 'no')
  // A master waits for more replicas before it serves one, for 5 s if nobody says otherwise.
  said.push('--repl-diskless-sync-delay', '0')
  if (appendfsync !== undefined) said.push('--appendfsync', appendfsync)
  if (requirepass !== undefined) said.push('--requirepass', requirepass)
  if (replicaof !== undefined) {
    const { password } = new URL(replicaof.url)
    said.push('--replicaof', '127.0.0.1', String(replicaof.port))
    if (password !== '') said.push('--masterauth', decodeURIComponent(password))
  }
  return [...said, ...args]
}

/** Whether this very process listens there, and has loaded what it found on the disk. */
async function answers(url: string, pid: number): Promise<boolean> {
  try {
    const { call, close } = await converse(url)
    try {
      if ((await call('PING')) !== 'PONG') return false
      return new RegExp(`^process_id:${pid}\\r?$`, 'm').test(String(await call('INFO', 'server')))
    } finally {
      close()
    }
  } catch {
    return false
  }
}

/** Looks until it is so; rejects when that takes too long. */
export async function until(what: string, isSo: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + START_MS
  while (!(await isSo())) {
    if (performance.now() > end) throw new Error(`It took more than ${START_MS} ms until ${what}.`)
    await sleep(LOOK_MS)
  }
}

function logOf(guard: Guarded): string {
  try {
    return readFileSync(join(guard.folder, 'log'), 'utf8')
  } catch {
    return ''
  }
}
