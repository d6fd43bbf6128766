// Owns one HTTP request of a flow: how it is written, sent and judged.
// May never try again by itself: it only says whether that would make sense.

import { AxError } from '../core/errors.ts'
import { clip, integer, oneOf, refuseValue, show } from '../core/options.ts'
import type { JobContext } from '../core/types.ts'
import type { Checker, Reader } from './check.ts'
import { marked } from './mark.ts'
import { type Path, showPath } from './problems.ts'
import { MAX_OUTPUT, parse } from './shell.ts'

export interface Request {
  readonly url: string
  readonly method: string
  readonly headers: Readonly<Record<string, string>>
  /** A text is sent as it is, everything else as JSON. */
  readonly body: unknown
  /** The statuses that are a success; undefined: every 2xx. */
  readonly expect: readonly number[] | undefined
}

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const

/** How many characters of an unwelcome answer are worth reading. */
const MAX_EXCERPT = 500

/** Statuses of clients' mistakes that are none: the same request may be welcome later. */
const PASSING = [408, 425, 429]

export function checkRequest(check: Checker, path: Path, value: unknown): Request | undefined {
  const given = check.object(path, value, "an object with a 'url'")
  if (given === undefined) return undefined
  check.keys(path, given, Object.keys(READERS), 'a request')
  if (given.url === undefined) return check.report(path, `${showPath(path)} has no url.`, 'key')
  const { url, method = 'GET', headers = {}, body, expect } = check.pick(path, given, READERS)
  if (body !== undefined && (method === 'GET' || method === 'HEAD')) {
    const text = `${showPath([...path, 'body'])} cannot be sent by ${method}: give a method.`
    check.report([...path, 'body'], text, 'key')
  }
  return url === undefined ? undefined : { url, method, headers, body, expect }
}

const READERS: { readonly [K in keyof Request]: Reader<Request[K]> } = {
  url: (name, value) =>
    typeof value === 'string' && /^https?:$/.test(protocolOf(value))
      ? value
      : refuseValue(name, value, 'an address that begins with http:// or https://'),
  method: (name, value) =>
    oneOf(name, typeof value === 'string' ? value.toUpperCase() : value, METHODS),
  headers: readHeaders,
  body: (_name, value) => value,
  expect: (name, value) =>
    Array.isArray(value) && value.length === 0
      ? refuseValue(name, value, 'a status, or a list of at least one')
      : [value].flat().map((one) => integer(name, one, 100, 599)),
}

function protocolOf(url: string): string {
  try {
    return new URL(url).protocol
  } catch {
    return ''
  }
}

function readHeaders(name: string, value: unknown): Record<string, string> {
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
  if (!isObject) return refuseValue(name, value, 'an object of texts')
  const wrong = Object.entries(value).find(([, each]) => typeof each !== 'string')
  if (wrong !== undefined) return refuseValue(`${name}.${wrong[0]}`, wrong[1], 'a text')
  try {
    new Headers(value as Record<string, string>)
  } catch (error) {
    return refuseValue(name, value, `headers that can be sent (${(error as Error).message})`)
  }
  return value as Record<string, string>
}

/**
 * Sends a request once and gives the body of the answer, parsed if it is JSON. What changes
 * something carries an `Idempotency-Key`, the same in every attempt, unless it brings its own.
 *
 * Rejects with `HTTP_<status>` for a status that was not expected, with the network's own code
 * (`ECONNREFUSED` ...) when there was no answer, and with the signal's reason once it is aborted.
 */
export async function request(wanted: Request, context: JobContext): Promise<unknown> {
  const name = `${wanted.method} ${wanted.url}`
  try {
    const answer = await fetch(wanted.url, toInit(wanted, context))
    if (isExpected(wanted, answer.status)) return parse(await readBody(answer, name))
    throw unwelcome(name, answer, await readExcerpt(answer))
  } catch (error) {
    if (context.signal.aborted) throw context.signal.reason
    throw error instanceof AxError ? error : unanswered(name, error)
  }
}

function toInit(wanted: Request, context: JobContext): RequestInit {
  const { method, url, headers: given, body } = wanted
  const headers = new Headers(given)
  if (method !== 'GET' && method !== 'HEAD' && !headers.has('idempotency-key')) {
    // Servers refuse a key that comes again with another request.
    const key = `${context.idempotencyKey}:${marked([method, url, body ?? null])}`
    headers.set('idempotency-key', encodeURIComponent(key))
  }
  if (body === undefined) return { method, headers, signal: context.signal }
  const isText = typeof body === 'string'
  if (!isText && !headers.has('content-type')) headers.set('content-type', 'application/json')
  return { method, headers, signal: context.signal, body: isText ? body : JSON.stringify(body) }
}

/** The beginning of an answer that nobody wants: of a long one, the rest is not waited for. */
async function readExcerpt(answer: Response): Promise<string> {
  let text = ''
  const decoder = new TextDecoder()
  for await (const chunk of answer.body ?? []) {
    text += decoder.decode(chunk, { stream: true })
    if (text.length > MAX_EXCERPT) break
  }
  return text
}

async function readBody(answer: Response, name: string): Promise<string> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of answer.body ?? []) {
    size += chunk.length
    if (size > MAX_OUTPUT) {
      throw new AxError('TOO_LARGE', `${name} answered with more than ${MAX_OUTPUT / 1e6} MB.`)
    }
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function isExpected({ expect }: Request, status: number): boolean {
  return expect === undefined ? status >= 200 && status < 300 : expect.includes(status)
}

function unwelcome(name: string, answer: Response, text: string): AxError {
  const { status, statusText } = answer
  const retryAfter = retryAfterMs(answer.headers.get('retry-after'), Date.now())
  const excerpt = text.trim() === '' ? '' : `\n${clip(text.trim(), MAX_EXCERPT)}`
  return new AxError(
    `HTTP_${status}`,
    `${name} answered ${status}${statusText === '' ? '' : ` ${statusText}`}.${excerpt}`,
    {
      status,
      retryable: status < 400 || status >= 500 || PASSING.includes(status),
      ...(retryAfter === undefined ? {} : { retryAfter }),
    },
  )
}

/** What `Retry-After` asks for, in milliseconds: it is written in seconds or as a date. */
export function retryAfterMs(value: string | null, now: number): number | undefined {
  if (value === null || value.trim() === '') return undefined
  const seconds = Number(value)
  const ms = Number.isNaN(seconds) ? Date.parse(value) - now : seconds * 1_000
  return Number.isFinite(ms) ? Math.max(0, Math.ceil(ms)) : undefined
}

/** `fetch` only says "fetch failed"; what happened is in the cause. */
function unanswered(name: string, error: unknown): AxError {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  const { code, message } = cause as { code?: unknown; message?: unknown }
  const text = typeof message === 'string' && message !== '' ? message : show(code ?? cause)
  return new AxError(typeof code === 'string' ? code : 'HTTP_FAILED', `${name} failed: ${text}.`, {
    cause: error,
    retryable: true,
  })
}
