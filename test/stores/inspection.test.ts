// Owns the proof that `inspect` looks: faults that the rules make impossible, made by hand.
// May never reach into a store by its port: the insides are what is broken here.

import { describe, expect, it } from 'vitest'
import { LIMITS } from '../../src/store/limits.ts'
import { Board } from '../../src/store/memory/board.ts'
import { Insertion } from '../../src/store/memory/insertion.ts'
import { inspect } from '../../src/store/memory/inspection.ts'
import type { JobRecord } from '../../src/store/memory/record.ts'
import { on, type Sketch } from '../../src/testing/cases-bench.ts'
import { newJob, START } from '../../src/testing/history-commands.ts'

const CLEAN = { ghosts: [], cycles: [], orphanedKeys: [], expired: [], damage: [] }

function boardWith(...sketches: Sketch[]): Board {
  const board = new Board(1_000)
  board.now = START
  const jobs = sketches.map((sketch) => newJob(sketch.id, sketch))
  const { status } = new Insertion(board).insert({ jobs, unknownDeps: 'wait' })
  expect(status).toBe('done')
  return board
}

function recordOf(board: Board, id: string): JobRecord {
  return board.records.get(id) as JobRecord
}

/** Turns the one edge of a job to another one that is there, as no insertion would. */
function bend(board: Board, from: string, to: string): void {
  const record = recordOf(board, from)
  const [edge] = record.has.edges
  if (edge === undefined) throw new Error(`${from} has no edge`)
  record.rare.edges = [{ ...edge, dep: { id: to, on: 'success' } }]
}

function lease(board: Board, id: string, deadline: number): void {
  const record = recordOf(board, id)
  board.leave(record)
  board.grant(record, 'w', false)
  board.enter(record, 'lease', 'running')
  board.setDeadline(record, deadline)
}

describe('inspect', () => {
  it('finds nothing where nothing is wrong', () => {
    const board = boardWith({ id: 'a', key: 'k' }, { id: 'b', ...on('a') }, { id: 'c', delayMs: 9 })
    expect(inspect(board)).toEqual(CLEAN)
  })

  it('shows each loop once, in the order of running, and not those that hang on it', () => {
    const board = boardWith(
      { id: 'a' },
      { id: 'b', ...on('a') },
      { id: 'c', ...on('b') },
      { id: 'd', ...on('c') },
      { id: 'x', ...on('a') },
      { id: 'y', ...on('x') },
      { id: 'hangs', ...on('d') },
    )
    bend(board, 'b', 'd')
    bend(board, 'x', 'y')
    const { cycles } = inspect(board)
    expect(cycles.map((path) => path.slice(1).toSorted())).toEqual([
      ['b', 'c', 'd'],
      ['x', 'y'],
    ])
    expect(cycles.every((path) => path[0] === path.at(-1))).toBe(true)
    expect(`${cycles[0]?.join(' ')} ${cycles[0]?.slice(1).join(' ')}`).toContain('b c d b')
  })

  it('sees no loop through a job that has ended', () => {
    const board = boardWith({ id: 'a' }, { id: 'b', ...on('a') }, { id: 'c', ...on('b') })
    bend(board, 'b', 'c')
    expect(inspect(board).cycles.length).toBe(1)
    const record = recordOf(board, 'c')
    board.leave(record)
    board.enter(record, 'cancel', 'cancelled')
    board.ranks.end(record)
    expect(inspect(board)).toMatchObject({ cycles: [], damage: [] })
  })

  it('names keys whose owner is gone or has ended without a window', () => {
    const keyed = ['a', 'b', 'c', 'd'].map((id) => ({ id, key: `key of ${id}` }))
    const board = boardWith(...keyed)
    board.records.delete('a')
    recordOf(board, 'b').status = 'failed'
    board.keys.release(recordOf(board, 'c'), START + 10)
    recordOf(board, 'c').status = 'success'
    expect(inspect(board).orphanedKeys).toEqual([
      { key: 'key of a', owner: 'a' },
      { key: 'key of b', owner: 'b' },
    ])
  })

  it('names leases that are over, the oldest first, and ghosts, each a page at most', () => {
    const ids = Array.from({ length: LIMITS.page + 20 }, (_, at) => `${at}`)
    const board = boardWith(
      ...ids.map((id) => ({ id })),
      ...ids.map((id) => ({ id: `waits ${id}`, ...on(`ghost ${id}`) })),
    )
    for (const [at, id] of ids.entries()) lease(board, id, START + 1_000 - at)
    board.now = START + 1_000
    const { expired, ghosts, ...rest } = inspect(board)
    expect([expired.length, ghosts.length]).toEqual([LIMITS.page, LIMITS.page])
    expect(expired[0]?.id).toBe(ids.at(-1))
    expect(ghosts[0]).toEqual({ id: 'waits 0', dep: 'ghost 0' })
    expect(rest).toMatchObject({ cycles: [], orphanedKeys: [], damage: [] })
  })

  it('tells of counts that are not those of the records', () => {
    const board = boardWith({ id: 'a', pool: 'io' }, { id: 'b', pool: 'io' })
    recordOf(board, 'a').queue.counts.ready -= 1
    expect(inspect(board).damage).toEqual([
      '1 jobs of type alpha in pool io are counted as ready: there are 2',
    ])
    recordOf(board, 'a').queue.counts.ready += 1
    recordOf(board, 'b').weight = 7
    expect(inspect(board).damage).toEqual([
      '0 jobs are counted as ranked by an older ageing: there are 1',
    ])
  })

  it('tells of jobs that stand where they do not belong', () => {
    const board = boardWith(
      { id: 'a' },
      { id: 'b', delayMs: 5 },
      { id: 'c', ...on('a') },
      { id: 'd' },
      { id: 'e' },
    )
    board.pools.queueOf('default', 'alpha', false).line.heap.remove(recordOf(board, 'a').at)
    board.due.remove(recordOf(board, 'b').at)
    recordOf(board, 'c').rare.open = 5
    lease(board, 'd', START)
    recordOf(board, 'd').lease = undefined
    lease(board, 'e', START)
    recordOf(board, 'e').queue.pool.held.delete(recordOf(board, 'e'))
    expect(inspect(board).damage).toEqual([
      'a is ready, and stands in no line',
      'b is pending, and stands in no line',
      'c is waiting, with 5 open edges, of which 1 are there',
      'd is running, without a lease',
      'e is running, with a lease in no slot',
    ])
  })
})
