// Owns what the connection and the server say, as errors that name the address and what to do.
// May never show a password, or say that a call has not happened when that is not known.

import { AxError, isAxError } from '../../core/errors.ts'
import { saysNoDatabase } from './news.ts'

const ON_ITS_WAY =
  'the slot of this prefix is on its way to another node of the cluster. Ask again when it has ' +
  'arrived.'

const ELSEWHERE =
  'the server has no database of the number that was named, and nothing is written to another ' +
  'one. Name one that it has, or let it have more (databases)'

/** By the first word of what the server says: what to do, and whether asking again may help. */
const SAID: Readonly<Record<string, readonly [remedy: string, retryable: boolean]>> = {
  WRONGTYPE: [
    'a key of this prefix is used by something else. Give the store a prefix of its own.',
    false,
  ],
  OOM: [
    'the server has no memory left (maxmemory); nothing of this call was stored. Give it more, ' +
      'or forget finished jobs sooner; its policy has to be noeviction.',
    true,
  ],
  READONLY: [
    'this is a replica, which cannot be written. Name the primary, or a client that follows ' +
      'failovers (Sentinel, Cluster).',
    true,
  ],
  LOADING: ['the server is still reading its data from disk. Ask again when it has.', true],
  MASTERDOWN: ['the server has lost its primary. Ask again when the failover is over.', true],
  TRYAGAIN: [ON_ITS_WAY, true],
  ASK: [ON_ITS_WAY, true],
  CLUSTERDOWN: ['the cluster is down, or serves no slot for this prefix. See to it first.', true],
  NOSCRIPT: [
    'the server forgets scripts as soon as they are loaded. Let nobody run SCRIPT FLUSH in a loop.',
    true,
  ],
  BUSY: [
    'a script has been running for too long, and the server does nothing else meanwhile. End it ' +
      'with SCRIPT KILL, or FUNCTION KILL.',
    true,
  ],
  NOREPLICAS: ['fewer replicas are in reach than min-replicas-to-write asks for.', true],
  MISCONF: [
    'the server cannot save its data and refuses to write: see its log and its disk.',
    true,
  ],
  NOAUTH: ['the server wants a password: redis://:PASSWORD@HOST:PORT.', false],
  WRONGPASS: ['the server does not take this user and password.', false],
  MOVED: [
    'this is a node of a cluster. Hand in a client of the cluster: new Redis.Cluster.',
    false,
  ],
}

/** What a user lacks, as the server says it to a command, and within a script. */
const NOT_ALLOWED = /\bNOPERM\b|\bThe user executing the script can't\b|\bACL failure in script\b/

const RIGHTS =
  'the user may not do all that ax needs: run scripts, use all keys of the prefix, publish and ' +
  'subscribe to its channel of hints.'

/** How the library says that an answer does not begin as those of Redis do. */
const NO_REDIS = /^Unknown RESP type \d+ (".*")/s

/** How a client of a cluster says that it was sent to and fro, with what it was told last. */
const TO_AND_FRO = /^Too many Cluster redirections\b.*\b(ASK|MOVED|TRYAGAIN)\b/

const CODES = new RegExp(`\\b(${Object.keys(SAID).join('|')})\\b`)

/** What went wrong with a call, as a caller sees it. A server has its word anywhere in a text. */
export function told(error: unknown, address: string, unknownOutcome: boolean): unknown {
  if (isAxError(error)) return error
  const text = error instanceof Error ? error.message : String(error)
  // The library's own error holds the whole call, with all payloads.
  const cause = new Error(text)
  if (TO_AND_FRO.test(text)) return unavailable(address, ON_ITS_WAY, true, cause)
  if (saysNoDatabase(text)) return unavailable(address, `${ELSEWHERE} (${text})`, false, cause)
  const [, begin] = NO_REDIS.exec(text) ?? []
  if (begin !== undefined) return unavailable(address, noRedis(begin), false, cause)
  const outcome = unknownOutcome ? ' It is not known whether the call has happened.' : ''
  if (NOT_ALLOWED.test(text)) {
    // A script that may not publish has written before.
    const end = text.startsWith('NOPERM') ? '' : outcome
    return unavailable(address, `${RIGHTS} The server says: ${text}${end}`, false, cause)
  }
  const [remedy, retryable] = SAID[CODES.exec(text)?.[1] ?? ''] ?? []
  if (remedy !== undefined) return unavailable(address, remedy, retryable === true, cause)
  if (isOfServer(error)) return unavailable(address, `the server says: ${text}`, false, cause)
  return unavailable(address, `no answer (${text}).${outcome}`, true, cause)
}

function noRedis(begin: string): string {
  return (
    `what listens there does not speak the protocol of Redis: an answer begins with ${begin}. ` +
    'See to the host and the port.'
  )
}

/** What the server has answered, and not what became of the connection. */
export function isOfServer(error: unknown): boolean {
  return error instanceof Error && error.name === 'ReplyError'
}

function unavailable(address: string, why: string, retryable: boolean, cause: unknown): AxError {
  return new AxError('STORE_UNAVAILABLE', `Redis at ${address}: ${why}`, {
    cause,
    retryable,
    address,
  })
}

/** A URL without its user and password. */
export function addressOf(url: string): string {
  try {
    const { protocol, host, pathname } = new URL(url)
    return `${protocol}//${host}${pathname === '/' ? '' : pathname}`
  } catch {
    return 'an address that is not readable'
  }
}

export function writtenByLater(address: string, version: string, mine: number): AxError {
  return new AxError(
    'STORE_UNAVAILABLE',
    `Redis at ${address}: this prefix was written by a later ax (version ${version} of the keys; ` +
      `this one knows ${mine}). Update ax-scheduler in this process, or use another prefix.`,
    { retryable: false, address, version: Number(version) },
  )
}
