// Owns the promises of the emitter.

import { describe, expect, it } from 'vitest'
import { Emitter } from '../../src/kit/emitter.ts'
import { poisoned, turn } from './helpers.ts'

interface Events {
  ready: number
  done: string
}

describe('an emitter', () => {
  it('tells listeners in the order in which they came, and only of their event', () => {
    const heard: string[] = []
    const emitter = new Emitter<Events>()
    emitter.on('ready', (n) => heard.push(`first ${n}`))
    emitter.on('ready', (n) => heard.push(`second ${n}`))
    emitter.on('done', (text) => heard.push(text))
    emitter.emit('ready', 1)
    expect(heard).toEqual(['first 1', 'second 1'])
  })

  it('is not broken by listeners that throw or reject', async () => {
    const errors: unknown[] = []
    const heard: number[] = []
    const emitter = new Emitter<Events>((error, event) => {
      errors.push([error, event])
      throw new Error('and the reporter throws too')
    })
    emitter.on('ready', () => {
      throw 'thrown'
    })
    emitter.on('ready', () => Promise.reject('rejected'))
    emitter.on('ready', () => poisoned('a hostile thenable'))
    emitter.on('ready', (n) => heard.push(n))
    emitter.emit('ready', 1)
    await turn()
    expect(heard).toEqual([1])
    expect(new Set(errors)).toEqual(
      new Set([
        ['thrown', 'ready'],
        ['rejected', 'ready'],
        ['a hostile thenable', 'ready'],
      ]),
    )
  })

  it('tells nobody who was removed meanwhile, and nobody yet who was added meanwhile', () => {
    const heard: string[] = []
    const emitter = new Emitter<Events>()
    emitter.on('ready', () => {
      off()
      emitter.on('ready', () => heard.push('newcomer'))
    })
    const off = emitter.on('ready', () => heard.push('removed'))
    emitter.on('ready', () => heard.push('last'))
    emitter.emit('ready', 1)
    expect(heard).toEqual(['last'])
    emitter.emit('ready', 2)
    expect(heard).toEqual(['last', 'last', 'newcomer'])
  })

  it('knows whether anybody listens', () => {
    const emitter = new Emitter<Events>()
    const listener = () => {}
    const off = [emitter.on('done', listener), emitter.on('done', listener)]
    expect([emitter.has('done'), emitter.count('done'), emitter.has('ready')]).toEqual([
      true,
      2,
      false,
    ])
    off[0]?.()
    off[0]?.()
    expect(emitter.count('done')).toBe(1)
    off[1]?.()
    expect([emitter.has('done'), emitter.count('done')]).toEqual([false, 0])
  })
})
