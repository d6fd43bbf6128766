// Owns the small parts of the command: the screen, the interrupts, results and waiting times.

import { EventEmitter } from 'node:events'
import { Writable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { retryAfterMs } from '../../src/cli/http.ts'
import { listenForInterrupts } from '../../src/cli/interrupts.ts'
import { openScreen } from '../../src/cli/progress.ts'
import { parse } from '../../src/cli/shell.ts'

/** A terminal that keeps what is written to it, write by write. */
function terminal(columns: number) {
  const writes: string[] = []
  const stream = new Writable({
    write(chunk, _encoding, done) {
      writes.push(String(chunk))
      done()
    },
  })
  const tty = Object.assign(stream, { isTTY: true, columns, rows: 24 })
  return { writes, tty, stream: tty as unknown as NodeJS.WriteStream }
}

/** Writes with the escape sequences made readable. */
function readable(writes: readonly string[]): string[] {
  return writes.map((text) => text.replaceAll('\x1b[', '^').replaceAll(/\^\?2026[hl]/g, ''))
}

describe('a live screen', () => {
  it('rewrites its picture in one write, and takes it away at the end', () => {
    const { writes, stream } = terminal(80)
    const screen = openScreen(stream, {})
    let picture = ['one', 'two']
    screen.show(() => picture)
    picture = ['three']
    screen.print(['stays'])
    screen.end()
    screen.end()
    expect(readable(writes)).toEqual([
      '^?25l',
      'one^K\ntwo^K\n^J',
      '\r^2Astays^K\nthree^K\n^J',
      '\r^1A^J',
      '^?25h',
    ])
  })

  it('goes back over lines that a narrower terminal has wrapped', () => {
    const { writes, tty, stream } = terminal(80)
    const screen = openScreen(stream, {})
    screen.show(() => ['x'.repeat(70), 'y'])
    tty.columns = 30
    screen.end()
    expect(readable(writes).at(-2)).toBe('\r^4A^J')
  })

  it('gives up the last column, and colours where they are not wanted', () => {
    const { stream } = terminal(80)
    expect(openScreen(stream, {}).look()).toEqual({ columns: 79, rows: 24, color: true })
    expect(openScreen(stream, { NO_COLOR: '1' }).look().color).toBe(false)
    expect(openScreen(stream, { NO_COLOR: '' }).look().color).toBe(true)
  })

  it('is none on a dumb terminal and in a file', () => {
    const { writes, stream } = terminal(80)
    const screen = openScreen(stream, { TERM: 'dumb' })
    screen.show(() => ['picture'])
    screen.print(['line'])
    screen.end()
    expect(writes).toEqual(['line\n'])
    expect(screen.isLive).toBe(false)
  })
})

describe('interrupts', () => {
  function listen() {
    const source = new EventEmitter()
    const exits: number[] = []
    let now = 0
    const powers = { source, now: () => now, exit: (code: number) => void exits.push(code) }
    const interrupts = listenForInterrupts(powers)
    const press = (signal: string, at: number) => {
      now = at
      source.emit(signal, signal)
    }
    const state = () => [interrupts.drain.aborted, interrupts.abort.aborted, exits.length]
    return { interrupts, press, state, exits, source }
  }

  it('drain, then abort, then leave', () => {
    const { press, state, exits } = listen()
    expect(state()).toEqual([false, false, 0])
    press('SIGINT', 0)
    expect(state()).toEqual([true, false, 0])
    press('SIGINT', 1_000)
    expect(state()).toEqual([true, true, 0])
    press('SIGINT', 2_000)
    expect(exits).toEqual([130])
  })

  it('count a key press once, however often it is passed on', () => {
    const { press, state } = listen()
    press('SIGINT', 0)
    press('SIGINT', 3)
    press('SIGINT', 240)
    expect(state()).toEqual([true, false, 0])
    press('SIGTERM', 241)
    expect(state()).toEqual([true, true, 0])
  })

  it('mean what they meant before when it is over', () => {
    const { interrupts, source } = listen()
    interrupts.end()
    expect(source.eventNames()).toEqual([])
  })
})

describe('an output', () => {
  it.each([
    ['{"a":[1]}\n', { a: [1] }],
    ['42', 42],
    ['null', null],
    ['one\ntwo\n\n', 'one\ntwo\n'],
    ['text\r\n', 'text'],
    ['', ''],
    ['{broken', '{broken'],
    ['12e4567\n', '12e4567'],
    ['1.10\n', '1.10'],
    ['12345678901234567890', '12345678901234567890'],
    ['-0.5\n', -0.5],
  ])('%j is the result %j', (text, result) => {
    expect(parse(text)).toEqual(result)
  })
})

describe('Retry-After', () => {
  const NOW = Date.parse('2026-05-18T09:30:00Z')
  it.each([
    ['2', 2_000],
    ['0.25', 250],
    ['Mon, 18 May 2026 09:30:05 GMT', 5_000],
    ['Mon, 18 May 2026 09:29:00 GMT', 0],
    ['-3', 0],
    ['soon', undefined],
    ['', undefined],
    [null, undefined],
  ])('%j asks for %j ms', (value, ms) => {
    expect(retryAfterMs(value, NOW)).toBe(ms)
  })
})
