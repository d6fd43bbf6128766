// Owns which build of ax is measured: the one in this repository, or the one that AX_DIST names.
// May never import the sources: what is measured is what users get.

import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

const given = process.env.AX_DIST
const entry =
  given === undefined
    ? new URL('../../dist/index.js', import.meta.url)
    : pathToFileURL(resolve(given, 'index.js'))

/** @type {typeof import('../../src/index.ts')} */
const ax = await import(entry.href)

export const { AxScheduler } = ax
