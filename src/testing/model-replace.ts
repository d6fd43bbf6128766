// Owns how the model gives jobs another definition: out with the old, in with the new, or nothing.
// May never leave a trace of what it took out.

import type { ReplaceGroup } from '../store/store.ts'
import { reopenEdgesTo, unblockForgetting } from './model-apply.ts'
import { type GroupResult, holdsFence, insertGroup } from './model-insert.ts'
import { loosen } from './model-pools.ts'
import { savepoint } from './model-room.ts'
import { find, freeLane, type Row, type World } from './model-world.ts'

export function replaceGroup(world: World, { gone, ...group }: ReplaceGroup): GroupResult {
  if (!holdsFence(world, group)) return { status: 'stale' }
  const rows: Row[] = []
  for (const { id, seq, rev } of gone) {
    const row = find(world, id)
    const stands = row?.seq === seq && row.rev === rev && world.rules.mayBeReplaced(row)
    if (!stands) return { status: 'stale' }
    rows.push(row)
  }
  const takeBack = savepoint(world)
  for (const row of rows) takeOut(world, row)
  for (const row of rows) freeLane(world, row)
  const result = insertGroup(world, group, true)
  if (result.status === 'done') world.forgotten += rows.length
  else takeBack()
  return result
}

function takeOut(world: World, row: Row): void {
  reopenEdgesTo(world, row)
  world.rows = world.rows.filter((other) => other !== row)
  loosen(world)
  unblockForgetting(world)
}
