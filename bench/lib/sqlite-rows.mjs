// Owns the floor of the comparison on one SQLite file: bare rows, without any rule, log or record.
// May never do less for a job than store it, hand it out, and take it out, each for good.

import { connect } from './sqlite-driver.mjs'

/** What an engine with a hundred slots can take at once. */
const CLAIM = 100

/**
 * A batch is put in by one statement, claimed by the hundred and removed by the hundred, each
 * statement a transaction; a single job is a transaction for itself.
 *
 * @type {import('./sqlite-contenders.mjs').Open}
 */
export async function openRows(file, { sync, body }) {
  const connection = await connect(file)
  connection.exec('PRAGMA journal_mode = WAL')
  connection.exec(`PRAGMA synchronous = ${sync}`)
  connection.exec('PRAGMA temp_store = MEMORY')
  connection.exec('CREATE TABLE job (id INTEGER PRIMARY KEY, payload TEXT, taken INTEGER)')
  connection.exec('CREATE INDEX job_ready ON job (id) WHERE taken = 0')
  const add = connection.prepare('INSERT INTO job (payload, taken) VALUES (?, 0)')
  const addMany = connection.prepare(
    'INSERT INTO job (payload, taken) SELECT value, 0 FROM json_each(?)',
  )
  const claim = connection.prepare(`UPDATE job SET taken = 1 WHERE id IN
    (SELECT id FROM job WHERE taken = 0 ORDER BY id LIMIT ${CLAIM}) RETURNING id, payload`)
  const remove = connection.prepare('DELETE FROM job WHERE id IN (SELECT value FROM json_each(?))')
  const turn = () => {
    for (;;) {
      const taken = /** @type {{ id: number, payload: string }[]} */ (claim.all())
      if (taken.length === 0) return
      for (const { payload } of taken) body?.(JSON.parse(payload))
      remove.run(JSON.stringify(taken.map(({ id }) => id)))
    }
  }
  return {
    add: (payload) => add.run(JSON.stringify(payload)),
    addMany: (payloads) => addMany.run(JSON.stringify(payloads.map((one) => JSON.stringify(one)))),
    start: turn,
    turn,
    ended: () => {},
    left: () => {
      const row = connection.prepare('SELECT count(*) AS count FROM job').get()
      return /** @type {{ count: number }} */ (row).count
    },
    close: () => connection.close(),
  }
}
