// Owns writing progress: a live picture on a terminal, plain lines elsewhere.
// May never leave the cursor hidden or a half-drawn picture behind.

import type { WriteStream } from 'node:tty'
import { type Look, widthOf } from './text.ts'

/** Often enough to look alive, seldom enough to cost nothing. */
const FRAME_MS = 100

const HIDE_CURSOR = '\x1b[?25l'
const SHOW_CURSOR = '\x1b[?25h'
/** Terminals that know it show everything between the two at once; others ignore it. */
const HOLD = '\x1b[?2026h'
const RELEASE = '\x1b[?2026l'
const CLEAR_LINE_END = '\x1b[K'
const CLEAR_BELOW = '\x1b[J'

export interface Screen {
  readonly isLive: boolean
  look(): Look & { readonly rows: number }
  /** From now on, shows what `draw` gives, until the next `print` or `end`. */
  show(draw: () => readonly string[]): void
  /** Lines that stay: above the picture on a terminal. */
  print(lines: readonly string[]): void
  /** Takes the picture away. Idempotent. */
  end(): void
}

/** A terminal that can move its cursor is live; a file, a pipe and a dumb terminal are not. */
export function openScreen(stream: NodeJS.WriteStream, env: NodeJS.ProcessEnv): Screen {
  // Whoever reads may go away at any time: the run goes on without being watched.
  stream.on('error', () => {})
  return stream.isTTY && env.TERM !== 'dumb' ? liveScreen(stream, env) : plainScreen(stream)
}

function plainScreen(stream: NodeJS.WriteStream): Screen {
  return {
    isLive: false,
    look: () => ({ columns: Number.POSITIVE_INFINITY, rows: 0, color: false }),
    show() {},
    print: (lines) => void stream.write(join(lines)),
    end() {},
  }
}

function liveScreen(stream: WriteStream, env: NodeJS.ProcessEnv): Screen {
  let drawn: readonly string[] = []
  let timer: NodeJS.Timeout | undefined
  let draw: () => readonly string[] = () => []

  const look = () => ({
    // The last column is left free: some terminals wrap as soon as it is written.
    columns: Math.max(20, (stream.columns || 80) - 1),
    rows: stream.rows || 24,
    // The convention of no-color.org: any value that is not empty.
    color: !env.NO_COLOR,
  })
  /** One write, so that nobody sees it half done. */
  const replace = (above: readonly string[], picture: readonly string[]): void => {
    const up = rowsOf(drawn, stream.columns || 80)
    const back = up > 0 ? `\r\x1b[${up}A` : ''
    const lines = [...above, ...picture].map((line) => `${line}${CLEAR_LINE_END}\n`).join('')
    stream.write(`${HOLD}${back}${lines}${CLEAR_BELOW}${RELEASE}`)
    drawn = picture
  }
  const restore = (): void => void stream.write(SHOW_CURSOR)

  return {
    isLive: true,
    look,
    show(next) {
      draw = next
      if (timer !== undefined) return
      stream.write(HIDE_CURSOR)
      process.on('exit', restore)
      timer = setInterval(() => replace([], draw()), FRAME_MS)
      timer.unref()
      replace([], draw())
    },
    print: (lines) => replace(lines, timer === undefined ? [] : draw()),
    end() {
      if (timer === undefined) return
      clearInterval(timer)
      timer = undefined
      replace([], [])
      process.off('exit', restore)
      restore()
    },
  }
}

/** A terminal that has become narrower has wrapped what was drawn on it. */
function rowsOf(lines: readonly string[], columns: number): number {
  return lines.reduce((sum, line) => sum + Math.max(1, Math.ceil(widthOf(line) / columns)), 0)
}

function join(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join('')
}
