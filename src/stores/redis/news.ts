// Owns what a client has said of its connection: why there is none, and whether its database is.
// May never be an answer by itself: where the library says too little, this explains it.

import type { RedisClient } from './driver.ts'

/** What was heard last; undefined while all is well. */
export interface News {
  error: unknown
  /** The server does not have the database that the client names, and it is in another one. */
  elsewhere: unknown
}

/** One listener for each client, however many stores use it. */
const known = new WeakMap<RedisClient, News>()

export function newsOf(client: RedisClient): News {
  const before = known.get(client)
  if (before !== undefined) return before
  const news: News = { error: undefined, elsewhere: undefined }
  known.set(client, news)
  const hear = (error: unknown) => {
    news.error = error
    if (saysNoDatabase(error)) news.elsewhere = error
  }
  // One of a cluster says of each node what is the matter, and of all of them only that it is.
  if (client.isCluster === true) {
    client.on('node error', (error, node) => hear(new Error(`${node}: ${messageOf(error)}`)))
  } else client.on('error', hear)
  client.on('connect', () => {
    news.elsewhere = undefined
  })
  client.on('ready', () => {
    news.error = undefined
  })
  return news
}

export function saysNoDatabase(error: unknown): boolean {
  return /\bDB index is out of range\b|\binvalid DB index\b/i.test(String(error))
}

/** How the library says that there is, or was, no connection, and nothing of why. */
const NO_CONNECTION = new RegExp(
  'max retries per request|^Connection is closed|^Command aborted due to connection close|' +
    "^Stream isn't writeable|^None of startup nodes|^Failed to refresh slots cache|" +
    '^Cluster is|^Too many Cluster redirections.*Connection is closed|^Command timed out',
)

/** An error of a call, with what is known of the connection where the library says nothing. */
export function explained(error: unknown, { error: last }: News): unknown {
  const text = messageOf(error)
  if (!NO_CONNECTION.test(text)) return error
  const why = last === undefined ? undefined : messageOf(last)
  if (text.startsWith('Command timed out')) {
    return why === undefined ? error : new Error(`${text}; of the connection it was said: ${why}`)
  }
  if (why === undefined) return new Error('the connection was closed')
  return messageIn(last) === why ? last : new Error(why)
}

/** What an error says. Where several addresses were tried: what was said of each. */
function messageOf(error: unknown): string {
  const text = messageIn(error)
  const { errors } = (error ?? {}) as { readonly errors?: readonly unknown[] }
  if (text !== '' || !Array.isArray(errors)) return text
  return [...new Set(errors.map(messageOf))].join(', ')
}

function messageIn(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
