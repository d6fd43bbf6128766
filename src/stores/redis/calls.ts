// Owns how one call reaches the server: as a function of our library, or else as a script.
// May never send a call twice that may have happened: only what was refused unread is sent again.

import type { RedisClient } from './driver.ts'
import { library, type ScriptName, scriptOf } from './statements.ts'

type Word = string | number | Buffer

/**
 * A server keeps the functions of a library, and makes those of a script anew for each call, which
 * takes longer than most calls. Servers before 7.0 have no functions, and a user may lack the right
 * to call or to load them: there, scripts do the same.
 */
export class Calls {
  #areScripts = false

  /** `words`: how many keys, the keys, the argument. */
  async send(client: RedisClient, name: ScriptName, words: readonly Word[]): Promise<Buffer> {
    if (!this.#areScripts) {
      const answer = await this.#asFunction(client, name, words)
      if (answer !== undefined) return answer
      this.#areScripts = true
    }
    return asScript(client, name, words)
  }

  /** Undefined: the server does not have functions, or the user may not use them. */
  async #asFunction(
    client: RedisClient,
    name: ScriptName,
    words: readonly Word[],
  ): Promise<Buffer | undefined> {
    const { functionOf } = library()
    const call = () => client.callBuffer('fcall', functionOf(name), ...words) as Promise<Buffer>
    try {
      return await call()
    } catch (error) {
      if (isRefused(error)) return undefined
      if (!/Function not found/i.test(String(error))) throw error
    }
    if (!(await load(client))) return undefined
    return call()
  }
}

async function asScript(
  client: RedisClient,
  name: ScriptName,
  words: readonly Word[],
): Promise<Buffer> {
  const { sha, text } = scriptOf(name)
  const sent = client.callBuffer('evalsha', sha, ...words)
  const answer = sent.catch((error: unknown) => {
    if (!String(error).includes('NOSCRIPT')) throw error
    return client.callBuffer('eval', text, ...words)
  })
  return (await answer) as Buffer
}

/** On every primary of a cluster: each serves some slots. Answers whether it was allowed. */
async function load(client: RedisClient): Promise<boolean> {
  const { text } = library()
  const nodes = client.nodes?.('master') ?? [client]
  const loaded = nodes.map(async (node) => {
    try {
      await node.callBuffer('function', 'load', text)
      return true
    } catch (error) {
      if (isRefused(error)) return false
      // Another process has been faster.
      if (!String(error).includes('already exists')) throw error
      return true
    }
  })
  return (await Promise.all(loaded)).every(Boolean)
}

/** What a server before 7.0 says, and one that does not let this user have functions. */
function isRefused(error: unknown): boolean {
  const text = String(error)
  if (/unknown command/i.test(text)) return /\b(?:fcall|function)\b/i.test(text)
  return /NOPERM.*'(?:fcall|function)\b/i.test(text)
}
