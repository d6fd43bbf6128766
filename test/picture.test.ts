// The picture of the machine in ARCHITECTURE.md is the machine of the code.

import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { pictureOf, withPicture } from '../scripts/picture.mjs'
import { STEPS } from '../src/core/steps.ts'

const page = readFileSync(new URL('../ARCHITECTURE.md', import.meta.url), 'utf8')

it('ARCHITECTURE.md shows the table that the code has (else run: node scripts/picture.mjs)', () => {
  expect(page).toBe(withPicture(page, pictureOf(STEPS)))
})

it('would notice a step that the page does not know', () => {
  const more = { ...STEPS, vanish: { ...STEPS.forget, from: ['running'] as const } }
  expect(page).not.toBe(withPicture(page, pictureOf(more)))
})
