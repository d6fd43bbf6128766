// Owns the promises about where a call came from, as it is read from a stack.

import { describe, expect, it } from 'vitest'
import { capturePlace, placeIn } from '../../src/kit/place.ts'

const OWN = '/app/node_modules/ax-scheduler/dist/'

/** A stack with these frames, as V8 writes it. */
const stack = (...frames: string[]) => ['Error', ...frames.map((at) => `    at ${at}`)].join('\n')

describe('the place in a stack', () => {
  it.each([
    ['run (/app/src/a.js:1:2)', '/app/src/a.js:1:2'],
    ['/app/src/a.js:1:2', '/app/src/a.js:1:2'],
    ['async /app/src/a.js:1:2', '/app/src/a.js:1:2'],
    ['async Foo.bar (file:///app/src/a.js:1:2)', '/app/src/a.js:1:2'],
    ['file:///app/src/a%20b.js:1:2', '/app/src/a%20b.js:1:2'],
    ['Object.<anonymous> (C:\\app\\a.js:10:20)', 'C:\\app\\a.js:10:20'],
  ])('is read from a frame like %s', (frame, place) => {
    expect(placeIn(stack(frame), OWN)).toBe(place)
  })

  it('is the first that belongs to neither this package nor Node', () => {
    const frames = [
      `AxScheduler.define (${OWN}engine/scheduler.js:1:2)`,
      `async file://${OWN}engine/client.js:3:4`,
      'node:internal/process/task_queues:95:5',
      'Array.map (<anonymous>)',
      'new Promise (<anonymous>)',
      'register (/app/jobs.js:7:8)',
      'main (/app/main.js:9:9)',
    ]
    expect(placeIn(stack(...frames), OWN)).toBe('/app/jobs.js:7:8')
  })

  it('is unknown where there is none, or where nobody can tell what is whose', () => {
    expect(placeIn(stack(`define (${OWN}engine/scheduler.js:1:2)`), OWN)).toBe(undefined)
    expect(placeIn(stack('register (/app/jobs.js:7:8)'), null)).toBe(undefined)
    expect(placeIn(undefined, OWN)).toBe(undefined)
    expect(placeIn([{ file: 'x' }], OWN)).toBe(undefined)
  })
})

describe('a captured place', () => {
  it('is that of the caller, whatever the limit of stack traces is, and leaves that alone', () => {
    const { stackTraceLimit } = Error
    try {
      Error.stackTraceLimit = 0
      expect(capturePlace()()).toMatch(/test\/kit\/place\.test\.ts:\d+:\d+$/)
      expect(Error.stackTraceLimit).toBe(0)
    } finally {
      Error.stackTraceLimit = stackTraceLimit
    }
  })

  it('is unknown, and no error, where stacks are not what they were', () => {
    const { prepareStackTrace } = Error
    try {
      Error.prepareStackTrace = () => ({ mine: true })
      expect(capturePlace()()).toBe(undefined)
    } finally {
      Error.prepareStackTrace = prepareStackTrace
    }
  })
})
