// Owns the promises of a queue with a lobby in front of it.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Guest, Lineup, type Place } from '../../src/kit/lineup.ts'

let guests = 0

/** Each is like no other. */
function guest(priority: number): Guest & { readonly id: number } {
  guests += 1
  return { priority, place: 'nowhere', id: guests }
}

/** Says how often anybody has been looked at. */
class Counted implements Guest {
  static looks = 0
  readonly priority = 50
  #place: Place = 'nowhere'

  get place(): Place {
    Counted.looks += 1
    return this.#place
  }

  set place(place: Place) {
    this.#place = place
  }
}

describe('a lineup', () => {
  it('has a queue by priority, and a lobby in which only the order counts', () => {
    const lineup = new Lineup<Guest>(2)
    const [low, high, first, urgent] = [guest(1), guest(90), guest(1), guest(100)]
    for (const each of [low, high, first, urgent]) lineup.join(each)
    expect([low, high, first, urgent].map(({ place }) => place)).toEqual([
      'queue',
      'queue',
      'lobby',
      'lobby',
    ])
    expect([...lineup.some(Number.POSITIVE_INFINITY)]).toEqual([urgent, first, low, high])
    expect(lineup.next()).toBe(high)
    expect([first.place, urgent.place]).toEqual(['queue', 'lobby'])
    expect([lineup.next(), lineup.next(), lineup.next()]).toEqual([low, urgent, first])
    expect([lineup.next(), lineup.size]).toEqual([undefined, 0])
  })

  it('is left by anybody at the cost of a few looks, however many stand in the lobby', () => {
    for (const size of [1000, 20_000]) {
      for (const order of ['first', 'last']) {
        const lineup = new Lineup<Counted>(1)
        const guests = Array.from({ length: size }, () => new Counted())
        for (const each of guests) lineup.join(each)
        Counted.looks = 0
        for (const each of order === 'first' ? guests : guests.reverse()) lineup.leave(each)
        expect(lineup.size).toBe(0)
        expect(Counted.looks / size).toBeLessThan(10)
      }
    }
  })

  it('does what plain lists do, whoever comes and leaves', () => {
    const steps = fc.array(
      fc.oneof(
        fc.record({ do: fc.constantFrom('join', 'enqueue'), n: fc.integer({ min: 1, max: 4 }) }),
        fc.record({ do: fc.constantFrom('next', 'leave', 'leave'), n: fc.nat(200) }),
        fc.record({ do: fc.constant('leave many'), n: fc.integer({ min: 60, max: 90 }) }),
        fc.record({ do: fc.constant('join many'), n: fc.integer({ min: 60, max: 90 }) }),
      ),
      { minLength: 20, maxLength: 60 },
    )
    fc.assert(
      fc.property(fc.nat(40), steps, (room, all) => {
        const lineup = new Lineup<Guest>(room)
        const queue: Guest[] = []
        const lobby: Guest[] = []
        const put = (each: Guest) => {
          const at = queue.findIndex(({ priority }) => priority < each.priority)
          queue.splice(at < 0 ? queue.length : at, 0, each)
        }
        const admit = () => {
          while (queue.length < room && lobby.length > 0) put(lobby.shift() as Guest)
        }
        const join = (each: Guest) => {
          if (queue.length < room) put(each)
          else lobby.push(each)
          lineup.join(each)
        }
        const leave = (n: number) => {
          const one = [...queue, ...lobby][n % Math.max(1, queue.length + lobby.length)]
          if (one === undefined) return
          const line = queue.includes(one) ? queue : lobby
          line.splice(line.indexOf(one), 1)
          admit()
          expect([lineup.leave(one), lineup.leave(one), one.place]).toEqual([
            true,
            false,
            'nowhere',
          ])
        }
        for (const step of all) {
          if (step.do === 'join') join(guest(step.n))
          else if (step.do === 'enqueue') {
            const each = guest(step.n)
            put(each)
            lineup.enqueue(each)
          } else if (step.do === 'next') {
            const head = queue.shift() ?? lobby.shift()
            admit()
            expect(lineup.next()).toBe(head)
          } else if (step.do === 'leave') leave(step.n)
          else {
            for (let n = 0; n < step.n; n += 1) {
              if (step.do === 'join many') join(guest((n % 5) + 1))
              else leave(7 * n)
            }
          }
          expect([lineup.size, lineup.isFull]).toEqual([
            queue.length + lobby.length,
            queue.length >= room,
          ])
        }
        expect([...lineup.some(Number.POSITIVE_INFINITY)].length).toBe(lineup.size)
        expect(lineup.takeAll()).toEqual([...queue, ...lobby])
        expect([lineup.size, lineup.next()]).toEqual([0, undefined])
      }),
      { numRuns: 100 },
    )
  })
})
