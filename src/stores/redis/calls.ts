// Owns how calls reach the server: those of one turn together, as functions of our library, or
// else each as a script.
// May never send a call twice that may have happened: only what was refused unread is sent again.

import { nextTick } from 'node:process'
import type { RedisClient } from './driver.ts'
import { isReading, library, type ScriptName, scriptOf } from './statements.ts'

interface Call {
  readonly name: ScriptName
  readonly ask: Buffer
  readonly resolve: (answer: Buffer) => void
  readonly reject: (error: unknown) => void
}

type Within = <T>(loads: Promise<T>) => Promise<T>

/** Calls that go together have no more bytes than this: the server does nothing else meanwhile. */
const MOST_TOGETHER = 1 << 20

/**
 * A server keeps the functions of a library, and makes those of a script anew for each call, which
 * takes longer than most calls. Servers before 7.0 have no functions, and a user may lack the right
 * to call or to load them: there, scripts do the same.
 */
export class Calls {
  readonly #keys: readonly string[]
  readonly #within: Within
  #areScripts = false
  #waiting: Call[] = []

  /** `within`: what is asked of the nodes of a cluster themselves has an end, too. */
  constructor(keys: readonly string[], within: Within) {
    this.#keys = keys
    this.#within = within
  }

  /**
   * One call. All that are made before the present turn of the event loop is over go to the server
   * together: there each is a step of its own, in the order in which they were made. If one of
   * them fails, it is not known of any of them whether it has happened. Those of a later turn may
   * overtake them while the server learns the library, or a script.
   */
  send(client: RedisClient, name: ScriptName, ask: Buffer): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ name, ask, resolve, reject })
      if (this.#waiting.length === 1) nextTick(() => this.#flush(client))
    })
  }

  #flush(client: RedisClient): void {
    let together: Call[] = []
    let bytes = 0
    for (const call of this.#waiting) {
      const [first] = together
      bytes += call.ask.length
      if (first !== undefined && (bytes > MOST_TOGETHER || areApart(first, call))) {
        void this.#sendAll(client, together)
        together = []
        bytes = call.ask.length
      }
      together.push(call)
    }
    this.#waiting = []
    void this.#sendAll(client, together)
  }

  async #sendAll(client: RedisClient, calls: readonly Call[]): Promise<void> {
    try {
      const answers = this.#areScripts ? undefined : await this.#asFunctions(client, calls)
      if (answers !== undefined) {
        for (const [at, { resolve }] of calls.entries()) resolve(answers[at] as Buffer)
        return
      }
    } catch (error) {
      for (const { reject } of calls) reject(error)
      return
    }
    for (const call of calls) this.#asScript(client, call).then(call.resolve, call.reject)
  }

  /**
   * Undefined: none has happened, as the server does not have the functions, or the user may not
   * use them. A server that is full, or a replica, takes no library either, and may be read.
   */
  async #asFunctions(
    client: RedisClient,
    calls: readonly Call[],
  ): Promise<readonly Buffer[] | undefined> {
    const { reads, writes } = library()
    const called = isReading((calls[0] as Call).name) ? reads : writes
    const words: (string | number | Buffer)[] = [called, this.#keys.length, ...this.#keys]
    for (const { name, ask } of calls) words.push(name, ask)
    for (let isLoaded = false; ; isLoaded = true) {
      try {
        return (await client.callBuffer('fcall', ...words)) as Buffer[]
      } catch (error) {
        this.#areScripts ||= isRefused(error)
        if (!this.#areScripts && !/Function not found/i.test(String(error))) throw error
      }
      if (this.#areScripts || isLoaded || !(await this.#load(client))) return undefined
    }
  }

  /** On every primary of a cluster: each serves some slots. Whether any has taken it. */
  async #load(client: RedisClient): Promise<boolean> {
    const { text } = library()
    const nodes = client.nodes?.('master') ?? [client]
    const loads = nodes.map((node) => node.callBuffer('function', 'load', text).catch(failureOf))
    const errors = (await this.#within(Promise.all(loads))).filter((each) => each instanceof Error)
    this.#areScripts ||= errors.some(isRefused)
    return errors.length < nodes.length
  }

  async #asScript(client: RedisClient, { name, ask }: Call): Promise<Buffer> {
    const { sha, text } = scriptOf(name)
    const words = [this.#keys.length, ...this.#keys, ask]
    try {
      return (await client.callBuffer('evalsha', sha, ...words)) as Buffer
    } catch (error) {
      if (!String(error).includes('NOSCRIPT')) throw error
    }
    return (await client.callBuffer('eval', text, ...words)) as Buffer
  }
}

/** What changes nothing may be asked of a server that is full: it does not go with what writes. */
function areApart(a: Call, b: Call): boolean {
  return isReading(a.name) !== isReading(b.name)
}

/** Why a server does not have the library now; another process may have been faster. */
function failureOf(error: unknown): unknown {
  return String(error).includes('already exists') ? undefined : error
}

/** What a server before 7.0 says, and one that does not let this user have functions. */
function isRefused(error: unknown): boolean {
  const text = String(error)
  if (/unknown command/i.test(text)) return /\b(?:fcall|function)\b/i.test(text)
  return /NOPERM.*'(?:fcall|function)\b/i.test(text)
}
