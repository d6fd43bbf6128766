// Owns how tests read a whole store, page by page, and ask whether it is well.

import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { JobEvent, StoredJob } from '../../src/core/job.ts'
import { AxScheduler } from '../../src/index.ts'
import type { Store } from '../../src/store/store.ts'
import { loadLibrary } from '../../src/stores/sqlite/driver.ts'

const PAGE = 500

export async function allJobs(store: Store): Promise<ReadonlyMap<string, StoredJob>> {
  const jobs = new Map<string, StoredJob>()
  for (let after: number | null = 0; after !== null; ) {
    const page = await store.list({ after, limit: PAGE })
    for (const job of page.jobs) jobs.set(job.id, job)
    after = page.after
  }
  return jobs
}

/** The log after an entry. */
export async function allEvents(store: Store, after = 0): Promise<readonly JobEvent[]> {
  const events: JobEvent[] = []
  for (let last = after; ; last = events.at(-1)?.seq ?? last) {
    const page = await store.events(last, PAGE)
    if (page.events.length === 0) return events
    events.push(...page.events)
  }
}

/** What doctor finds. */
export async function findingsOf(store: Store): Promise<readonly string[]> {
  const doctor = new AxScheduler({ store, autoStart: false })
  const { findings } = await doctor.doctor()
  await doctor.close()
  return findings.map(({ kind, text }) => `doctor finds ${kind}: ${text}`)
}

/** That, and what SQLite itself says when it looks at every page and index. */
export async function illsOf(store: Store, file: string): Promise<readonly string[]> {
  const found = await findingsOf(store)
  const raw = (await loadLibrary()).open(file)
  raw.exec('PRAGMA busy_timeout = 5000')
  const said = raw.prepare('PRAGMA integrity_check').all() as { integrity_check: string }[]
  raw.close()
  const damage = said.map((row) => row.integrity_check).filter((line) => line !== 'ok')
  return [...found, ...damage]
}

/**
 * libsql lets go of a file that was closed when its statements are collected. After this, whoever
 * opens the file next may be the first, who has to recover what a dead process has left.
 */
export async function letGo(): Promise<void> {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
  await new Promise((done) => setTimeout(done, 5))
}
