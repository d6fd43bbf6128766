// Owns making a failing plan smaller: leaves out operations, faults, processes and link faults
// as long as the same invariant fails. May never change what is left.

import type { Plan } from './plan.ts'

/** Whether a plan still fails in the same way. */
export type StillFails = (plan: Plan) => Promise<boolean>

/** The shortest plan found within that many runs. */
export async function shrink(plan: Plan, fails: StillFails, maxRuns = 250): Promise<Plan> {
  let best = plan
  let runs = 0
  const attempt = async (candidate: Plan): Promise<boolean> => {
    if (runs >= maxRuns) return false
    runs += 1
    if (!(await fails(candidate))) return false
    best = candidate
    return true
  }
  await shrinkList(attempt, plan.ops, (ops) => ({ ...best, ops }))
  await shrinkList(attempt, plan.faults, (faults) => ({ ...best, faults }))
  await quietLink(attempt, () => best)
  await dropNodes(attempt, () => best)
  await shrinkList(attempt, best.ops, (ops) => ({ ...best, ops }))
  await shrinkJobs(attempt, () => best)
  return best
}

/** Delta debugging: leaves out halves, then quarters, down to single items. */
async function shrinkList<T>(
  attempt: StillFails,
  list: readonly T[],
  rebuild: (list: readonly T[]) => Plan,
): Promise<void> {
  let items = list
  for (let size = Math.ceil(items.length / 2); size >= 1; size = Math.floor(size / 2)) {
    for (let start = 0; start < items.length; ) {
      const rest = [...items.slice(0, start), ...items.slice(start + size)]
      if (await attempt(rebuild(rest))) items = rest
      else start += size
    }
  }
}

const RATES = [
  ...(['loseRequest', 'loseAnswer', 'duplicate', 'late', 'busy', 'failBefore'] as const),
  ...(['failAfter', 'loseHint', 'duplicateHint', 'crashOnSend', 'crashOnAnswer'] as const),
]

async function quietLink(attempt: StillFails, best: () => Plan): Promise<void> {
  for (const rate of RATES) {
    const { settings } = best()
    if (settings.link[rate] === 0) continue
    await attempt({ ...best(), settings: { ...settings, link: { ...settings.link, [rate]: 0 } } })
  }
}

async function dropNodes(attempt: StillFails, best: () => Plan): Promise<void> {
  for (const { name } of best().nodes) {
    const nodes = best().nodes.filter((node) => node.name !== name)
    if (nodes.length > 0) await attempt({ ...best(), nodes })
  }
}

/** Single jobs of batches, last ones first. */
async function shrinkJobs(attempt: StillFails, best: () => Plan): Promise<void> {
  for (const [at, op] of best().ops.entries()) {
    if (op.kind !== 'add') continue
    for (let index = op.jobs.length - 1; index >= 0; index -= 1) {
      const { ops } = best()
      const now = ops[at]
      if (now?.kind !== 'add' || now.jobs.length < 2) break
      const jobs = now.jobs.filter((_, other) => other !== index)
      await attempt({ ...best(), ops: ops.map((each, i) => (i === at ? { ...now, jobs } : each)) })
    }
  }
}
