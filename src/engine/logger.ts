// Owns the default logger: warnings and errors reach people, everything else does not.
// May never throw.

import { isAxError } from '../core/errors.ts'

/** The shape of pino, of console, and of most others. */
export interface Logger {
  info(fields: object, message?: string): void
  warn(fields: object, message?: string): void
  error(fields: object, message?: string): void
}

export const consoleLogger: Logger = {
  info() {},
  warn(_fields, message) {
    console.warn(`ax: ${message ?? 'warning'}`)
  },
  error(_fields, message) {
    console.error(`ax: ${message ?? 'error'}`)
  },
}

/** Logs what went wrong, and with what. */
export function complain(logger: Logger, what: string, error: unknown): void {
  const detail = error === undefined ? '' : `: ${isAxError(error) ? error.message : String(error)}`
  logger.error({ error }, what + detail)
}
