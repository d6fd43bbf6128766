// Owns what administrators do: pools, schedules, make-up runs, what processes of other versions
// set, the doctor. May never judge what follows from it: the oracles of the store do.

import { isAxError } from '../../core/errors.ts'
import type { JobInput } from '../../core/types.ts'
import type { Process } from './fleet.ts'
import { Instants } from './instants.ts'
import { expect, type Watch } from './oracle.ts'
import type { MakeUpSpec, OpAction, ScheduleSpec, Setting } from './plan.ts'

/** Findings that no store may ever have, whatever befalls its processes. */
const NEVER_FOUND = ['damage', 'cycle', 'orphaned-key']

export class Administrators {
  /** Make-up runs that have not come to an end. */
  readonly runs = new Set<{ readonly process: Process }>()
  readonly #watch: Watch

  constructor(watch: Watch) {
    this.#watch = watch
  }

  /** False: it is none of theirs. */
  async perform(process: Process, op: OpAction): Promise<boolean> {
    const { scheduler } = process
    if (op.kind === 'configure') await scheduler.pool(op.pool).configure(op.change)
    else if (op.kind === 'set') await this.set(process, op.what)
    else if (op.kind === 'schedule') await this.#schedule(process, op.schedule)
    else if (op.kind === 'unschedule') await scheduler.unschedule(op.name)
    else if (op.kind === 'retryWhere') await this.#makeUp(process, op.makeUp)
    else if (op.kind === 'doctor') await this.#doctor(process)
    else if (op.kind === 'advise') await scheduler.advise()
    else return false
    return true
  }

  /** Through the store's own port, as a process of another version does when it starts. */
  async set({ link }: Process, what: Setting): Promise<void> {
    const { store } = link
    if ('ageing' in what) {
      const { ageing } = what
      const terms = ageing === null ? null : { everyMs: ageing.every, ceiling: ageing.ceiling }
      const { view } = this.#watch
      const waits = view.of('ready').size + view.of('waiting').size
      if (waits > 1) this.#watch.coverage.deed('holds through a change of ageing')
      await store.configure({ ageing: terms })
    } else if ('budget' in what) await store.configure({ budget: what.budget })
    else {
      const { types } = await store.settings()
      const setting = types[what.type]
      if (setting === undefined) return
      const { concurrency } = what
      await store.configure({ type: what.type, setting: { ...setting, concurrency } })
    }
  }

  async #schedule({ scheduler, link }: Process, spec: ScheduleSpec): Promise<void> {
    const { name, cron, timeZone = null, missed, staleMs } = spec
    const { script, dedupeMs, deps: _, ...rest } = spec.job
    const dedupe = dedupeMs === undefined ? {} : { dedupe: { for: dedupeMs } }
    const job: JobInput = { ...rest, ...dedupe, payload: script }
    const zone = timeZone === null ? {} : { timeZone }
    if (staleMs === undefined) return scheduler.schedule(name, cron, job, { missed, ...zone })
    const nextAt = new Instants(cron, 'UTC').after(this.#watch.world.time - staleMs)
    const row = { name, cron, timeZone: 'UTC', missed, template: JSON.stringify(job), nextAt }
    await link.store.configure({ schedule: name, row })
  }

  /** 37: what it says it has revived was revived while it ran. */
  async #makeUp(process: Process, spec: MakeUpSpec): Promise<void> {
    const { status, type, pool, per, untilMs } = spec
    const { view, world, coverage } = this.#watch
    const filter = {
      ...(status === undefined ? {} : { status }),
      ...(type === undefined ? {} : { type }),
      ...(pool === undefined ? {} : { pool }),
    }
    const options = {
      ...(per === undefined ? {} : { per }),
      ...(untilMs === undefined ? {} : { until: world.time + untilMs }),
    }
    const run = { process }
    this.runs.add(run)
    const before = view.revived
    try {
      const count = await process.scheduler.retryWhere(filter, options)
      const most = view.revived - before
      expect(this.#watch, 37, count <= most, () => `made up for ${count}, and ${most} were revived`)
      if (count > 0) coverage.deed('made up for')
    } finally {
      this.runs.delete(run)
    }
  }

  async #doctor({ scheduler }: Process): Promise<void> {
    const { findings } = await scheduler.doctor()
    for (const { kind, text } of findings) {
      const bad = NEVER_FOUND.includes(kind)
      expect(this.#watch, 2, !bad, () => `the doctor finds ${kind}: ${text}`)
    }
  }

  /** An option that no pool can have is refused, and nothing is changed. */
  async refused({ scheduler }: Process): Promise<void> {
    const change = { rate: { count: 0, per: 10 } }
    await scheduler
      .pool('default')
      .configure(change)
      .then(
        () => expect(this.#watch, 40, false, () => 'a rate of 0 was accepted'),
        (error: unknown) => {
          if (!isAxError(error)) throw error
          this.#watch.coverage.code(error.code)
          const known = error.code === 'INVALID_OPTION'
          expect(this.#watch, 40, known, () => `a rate of 0 was refused with ${error.code}`)
        },
      )
  }
}
