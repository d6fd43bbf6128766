// Owns every statement that is put to the file, by name.
// May never decide: a statement finds, counts or writes what it was told.

import { STATUSES } from '../../core/job.ts'
import { PACKED } from './row.ts'

const COUNTS = STATUSES

const marks = (count: number) => new Array(count).fill('?').join(', ')
const sums = COUNTS.map((status) => `${status} = ${status} + excluded.${status}`).join(', ')
const LIVE = `('waiting', 'pending', 'ready')`
const QUIET = `('running', 'success', 'failed', 'cancelled')`
/** Whole jobs, for readRow. */
export const JOB = `SELECT ${PACKED} FROM job`
const IDS = '(SELECT value FROM json_each(?))'

export const SQL = {
  state: 'SELECT * FROM state',
  setState: `UPDATE state SET now = ?, last_seq = ?, last_lease = ?, last_event = ?,
    oldest_event = ?, forgotten = ?, ageing = ?, unranked = ?, ranked_after = ?, budget = ?,
    budget_tat = ?, bounds = ?, wanting = ?, settings = ?`,
  dataVersion: 'PRAGMA data_version',

  terms: 'SELECT json FROM terms WHERE terms = ?',
  termsAt: 'SELECT terms FROM terms WHERE json = ?',
  addTerms: 'INSERT INTO terms (json) VALUES (?)',

  removeJob: 'DELETE FROM job WHERE seq = ?',
  byId: `${JOB} WHERE id = ?`,
  bySeq: `${JOB} WHERE seq = ?`,
  byIds: `${JOB} WHERE id IN ${IDS}`,
  bySeqs: `${JOB} WHERE seq IN ${IDS}`,
  heldBy: `${JOB} WHERE holder = ? AND lease IS NOT NULL`,
  heldIn: `${JOB} WHERE lease IS NOT NULL AND pool = ?`,
  heldFirst: `${JOB} WHERE lease IS NOT NULL ORDER BY lease LIMIT ?`,
  expired: `${JOB} WHERE lease IS NOT NULL AND deadline > 0 AND deadline <= ?
    ORDER BY deadline, seq LIMIT ?`,
  slots: `SELECT holder, pool, type, count(*) AS count FROM job WHERE lease IS NOT NULL
    GROUP BY holder, pool, type`,
  readyTypes: 'SELECT pool, type FROM tally WHERE ready > 0',
  ready: `${JOB} WHERE status = 'ready' AND suspect = ? AND pool = ? AND type = ?
    AND (rank, seq) > (?, ?) ORDER BY rank, seq LIMIT ?`,
  readySuspect: `SELECT 1 FROM job WHERE status = 'ready' AND suspect = 1 LIMIT 1`,
  heldSuspects: `SELECT DISTINCT holder FROM job WHERE lease IS NOT NULL AND suspect = 1`,
  ahead: `SELECT count(*) AS count FROM (SELECT 1 FROM job WHERE status = 'ready'
    AND suspect IN (0, 1) AND pool = ? AND type = ? AND (rank, seq) < (?, ?) LIMIT ?)`,
  due: `${JOB} WHERE status = 'pending' AND again = ? AND available_at <= ?
    ORDER BY available_at, seq LIMIT ?`,
  nextDue: `SELECT available_at AS at FROM job WHERE status = 'pending' AND again = ?
    ORDER BY available_at LIMIT 1`,
  held: `${JOB} WHERE again = 2 ORDER BY rank, seq LIMIT ?`,
  heldCount: 'SELECT count(*) AS count FROM (SELECT 1 FROM job WHERE again = 2 LIMIT ?)',
  dueCount: `SELECT count(*) AS count FROM job
    WHERE status = 'pending' AND again = 1 AND available_at <= ?`,
  heldBefore: `SELECT count(*) AS count FROM (SELECT 1 FROM job WHERE again = 2
    AND (rank, seq) < (?, ?) LIMIT ?)`,
  dueBefore: `SELECT count(*) AS count FROM (SELECT 1 FROM job WHERE status = 'pending'
    AND again = 1 AND available_at <= ? AND (rank, seq) < (?, ?) LIMIT ?)`,
  laneNext: `${JOB} WHERE status = 'waiting' AND needs = 0 AND lane = ?
    ORDER BY rank, seq LIMIT 1`,
  waits: `${JOB} WHERE deadline > 0 AND status IN ${LIVE} AND deadline <= ?
    ORDER BY deadline, seq LIMIT ?`,
  ends: `${JOB} WHERE deadline > 0 AND status IN ${QUIET} AND deadline <= ?
    ORDER BY deadline, seq LIMIT ?`,
  nextWait: `SELECT deadline AS at FROM job WHERE deadline > 0 AND status IN ${LIVE}
    ORDER BY deadline LIMIT 1`,
  nextEnd: `SELECT deadline AS at FROM job WHERE deadline > 0 AND status IN ${QUIET}
    ORDER BY deadline LIMIT 1`,
  createdFrom: 'SELECT created_at AS at FROM job WHERE seq >= ? ORDER BY seq LIMIT 1',
  doomed: `SELECT count(*) AS count FROM job WHERE status = 'waiting' AND open < needs`,
  live: `${JOB} WHERE seq IN (
    SELECT seq FROM (SELECT seq FROM job WHERE status = 'waiting' AND seq > ?1
      ORDER BY seq LIMIT ?2) UNION ALL
    SELECT seq FROM (SELECT seq FROM job WHERE status = 'pending' AND seq > ?1
      ORDER BY seq LIMIT ?2) UNION ALL
    SELECT seq FROM (SELECT seq FROM job WHERE status = 'ready' AND seq > ?1
      ORDER BY seq LIMIT ?2) UNION ALL
    SELECT seq FROM (SELECT seq FROM job WHERE status = 'running' AND seq > ?1
      ORDER BY seq LIMIT ?2)) ORDER BY seq LIMIT ?2`,
  evicted: `SELECT DISTINCT holder FROM job WHERE lease IS NOT NULL AND evictor IS NOT NULL`,

  addEdge: 'INSERT INTO edge (job, place, dep, on_end, state) VALUES (?, ?, ?, ?, ?)',
  edges: 'SELECT place, dep, on_end, state FROM edge WHERE job = ? ORDER BY place',
  setEdge: 'UPDATE edge SET state = ? WHERE job = ? AND place = ?',
  openEdges: `SELECT job, place, on_end FROM edge WHERE dep = ? AND cut = 0 AND job > ?
    AND state = 'open' ORDER BY job LIMIT ?`,
  anyOpenEdge: `SELECT 1 FROM edge WHERE dep = ? AND cut = 0 AND state = 'open' LIMIT 1`,
  deadEdges: `SELECT edge.job, edge.place FROM edge JOIN job ON job.seq = edge.job
    WHERE edge.dep = ? AND edge.cut = 0 AND edge.state = 'dead' AND job.status = 'waiting'
    ORDER BY edge.job`,
  unname: 'UPDATE edge SET names = 0 WHERE job = ? AND names = 1',
  named: 'SELECT 1 FROM edge WHERE dep = ? AND cut = 0 AND names = 1 LIMIT 1',
  removeEdges: 'DELETE FROM edge WHERE job = ?',
  cutEdges: 'UPDATE edge SET cut = 1 WHERE dep = ? AND cut = 0',
  awaited: `SELECT 1 FROM edge JOIN job ON job.seq = edge.job WHERE edge.dep = ? AND edge.cut = 0
    AND edge.state = 'open' AND job.status IN ('waiting', 'pending', 'ready', 'running') LIMIT 1`,
  namedAmong: `SELECT DISTINCT dep FROM edge WHERE cut = 0 AND dep IN ${IDS}`,
  needed: `SELECT edge.dep AS id FROM job JOIN edge ON edge.job = job.seq
    WHERE job.id = ? AND job.status <> 'success' AND edge.state <> 'satisfied'
    ORDER BY edge.place`,
  needing: `SELECT job.id AS id FROM edge JOIN job ON job.seq = edge.job
    WHERE edge.dep = ? AND edge.cut = 0 AND edge.state <> 'satisfied' AND job.status <> 'success'
    ORDER BY edge.job`,
  dependents: `${JOB} JOIN edge ON edge.job = job.seq WHERE edge.dep = ? AND edge.cut = 0
    AND edge.job > ? ORDER BY edge.job LIMIT ?`,
  ghosts: `SELECT job.id AS id, edge.dep AS dep FROM edge JOIN job ON job.seq = edge.job
    WHERE edge.cut = 0 AND edge.state = 'open' AND job.status = 'waiting' AND job.needs > 0
    AND NOT EXISTS (SELECT 1 FROM job AS named WHERE named.id = edge.dep)
    ORDER BY edge.job, edge.place LIMIT ?`,
  waitingEdges: `SELECT job.id AS id, edge.dep AS dep FROM edge JOIN job ON job.seq = edge.job
    WHERE job.status = 'waiting' AND edge.state = 'open' ORDER BY edge.job, edge.place`,
  wrongOpen: `SELECT job.id AS id, job.status AS status, job.open AS open,
    count(edge.place) AS found FROM job LEFT JOIN edge ON edge.job = job.seq AND edge.state = 'open'
    GROUP BY job.seq HAVING job.open <> found LIMIT ?`,
  wrongLease: `SELECT id, status FROM job
    WHERE (status = 'running') <> (lease IS NOT NULL AND hold = 0) LIMIT ?`,
  wrongWait: `SELECT id FROM job WHERE status = 'waiting' AND needs = 0 AND NOT EXISTS
    (SELECT 1 FROM lane WHERE lane.lane = job.lane) LIMIT ?`,
  orphans: `SELECT key.key AS key, key.owner AS owner, job.id AS id FROM key
    LEFT JOIN job ON job.seq = key.owner
    WHERE job.seq IS NULL OR CASE WHEN key.until > 0 THEN job.status <> 'success'
      ELSE job.status IN ('success', 'failed', 'cancelled') END LIMIT ?`,
  recount: `SELECT pool, type, status, count(*) AS count FROM job GROUP BY pool, type, status`,
  reweigh: `SELECT priority, weight, count(*) AS count FROM job
    WHERE status IN ('waiting', 'pending', 'ready', 'running') GROUP BY priority, weight`,

  addFanOut: 'INSERT INTO fan_out (job, next) VALUES (?, 0)',
  fanOuts: 'SELECT number, job, next FROM fan_out ORDER BY number LIMIT 1',
  fanOutsOf: 'SELECT number, job, next FROM fan_out WHERE job = ? ORDER BY number',
  setFanOut: 'UPDATE fan_out SET next = ? WHERE number = ?',
  removeFanOut: 'DELETE FROM fan_out WHERE number = ?',
  fanOutCount: 'SELECT count(*) AS count FROM fan_out',

  outcome: 'SELECT status FROM outcome WHERE id = ? AND until > ?',
  anyOutcome: 'SELECT 1 FROM outcome LIMIT 1',
  setOutcome: `INSERT INTO outcome (id, status, until) VALUES (?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET status = excluded.status, until = excluded.until`,
  removeOutcome: 'DELETE FROM outcome WHERE id = ?',
  oldOutcome: 'SELECT 1 FROM outcome WHERE until <= ? LIMIT 1',
  pruneOutcomes: `DELETE FROM outcome WHERE id IN
    (SELECT id FROM outcome WHERE until <= ? ORDER BY until LIMIT ?)`,

  key: 'SELECT owner, until FROM key WHERE key = ?',
  setKey: `INSERT INTO key (key, owner, until) VALUES (?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET owner = excluded.owner, until = excluded.until`,
  removeKey: 'DELETE FROM key WHERE key = ?',
  lane: 'SELECT holder, started FROM lane WHERE lane = ?',
  setLane: `INSERT INTO lane (lane, holder, started) VALUES (?, ?, 0)
    ON CONFLICT (lane) DO UPDATE SET holder = excluded.holder, started = 0`,
  startLane: 'UPDATE lane SET started = 1 WHERE lane = ?',
  removeLane: 'DELETE FROM lane WHERE lane = ?',

  tallies: 'SELECT * FROM tally',
  talliesOf: 'SELECT * FROM tally WHERE pool = ?',
  queued: 'SELECT sum(pending + ready) AS count FROM tally WHERE pool = ?',
  anyQueued: 'SELECT 1 FROM tally WHERE ready > 0 OR pending > 0 LIMIT 1',
  addTally: `INSERT INTO tally (pool, type, ${COUNTS.join(', ')})
    VALUES (${marks(2 + COUNTS.length)}) ON CONFLICT (pool, type) DO UPDATE SET ${sums}`,
  dropTally: `DELETE FROM tally WHERE pool = ? AND type = ? AND ${COUNTS.join(' + ')} = 0`,
  weights: 'SELECT priority, weight, count FROM weighed WHERE count > 0',
  addWeight: `INSERT INTO weighed (priority, weight, count) VALUES (?, ?, ?)
    ON CONFLICT (priority, weight) DO UPDATE SET count = count + excluded.count`,
  failures: 'SELECT code, count FROM failure WHERE count > 0',
  addFailure: `INSERT INTO failure (code, count) VALUES (?, ?)
    ON CONFLICT (code) DO UPDATE SET count = count + excluded.count`,
  dropFailures: 'DELETE FROM failure WHERE count = 0',

  pools: 'SELECT * FROM pool',
  pool: 'SELECT * FROM pool WHERE pool = ?',
  wanting: 'SELECT * FROM pool WHERE wanted IS NOT NULL',
  told: 'SELECT pool, told FROM pool WHERE told > 0',
  setPool: `INSERT INTO pool (pool, start, operator, tat, breaker, wanted, told)
    VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (pool) DO UPDATE SET start = excluded.start,
    operator = excluded.operator, tat = excluded.tat, breaker = excluded.breaker,
    wanted = excluded.wanted, told = excluded.told`,
  types: 'SELECT type, setting FROM type',
  type: 'SELECT setting FROM type WHERE type = ?',
  caps: 'SELECT type, concurrency FROM type WHERE concurrency IS NOT NULL',
  setType: `INSERT INTO type (type, setting, concurrency) VALUES (?, ?, ?)
    ON CONFLICT (type) DO UPDATE SET setting = excluded.setting,
    concurrency = excluded.concurrency`,
  schedules: 'SELECT * FROM schedule',
  schedule: 'SELECT * FROM schedule WHERE name = ?',
  dueSchedules: 'SELECT * FROM schedule WHERE next_at <= ?',
  nextSchedule: 'SELECT min(next_at) AS at FROM schedule WHERE next_at > ?',
  setSchedule: `INSERT INTO schedule (name, cron, time_zone, missed, template, next_at)
    VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET cron = excluded.cron,
    time_zone = excluded.time_zone, missed = excluded.missed, template = excluded.template,
    next_at = excluded.next_at`,
  moveSchedule: 'UPDATE schedule SET next_at = ? WHERE name = ?',
  removeSchedule: 'DELETE FROM schedule WHERE name = ?',

  setWorker: `INSERT INTO worker (holder, name, types, full, zombies, settings, until)
    VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (holder) DO UPDATE SET name = excluded.name,
    types = excluded.types, full = excluded.full, zombies = excluded.zombies,
    settings = excluded.settings, until = excluded.until`,
  workers: 'SELECT * FROM worker WHERE until > ?',
  removeWorker: 'DELETE FROM worker WHERE holder = ?',
  dropWorkers: 'DELETE FROM worker WHERE until <= ?',
  setProcess: `INSERT INTO process (holder, host, pid, began) VALUES (?, ?, ?, ?)
    ON CONFLICT (holder) DO UPDATE SET host = excluded.host, pid = excluded.pid,
    began = excluded.began`,
  processes: 'SELECT holder, pid, began FROM process WHERE host = ?',
  removeProcess: 'DELETE FROM process WHERE holder = ?',

  addEvent: `INSERT INTO event (seq, at, job, type, pool, came_from, went_to, attempt, event, code,
    cause, worker) VALUES (${marks(12)})`,
  events: 'SELECT * FROM event WHERE seq > ? ORDER BY seq LIMIT ?',
  news: `SELECT seq, job, event, came_from, went_to, worker FROM event WHERE seq > ?
    ORDER BY seq DESC LIMIT ?`,
  oldestEvent: 'SELECT at FROM event WHERE seq = ?',
  firstKept: `SELECT min(seq) AS seq FROM
    (SELECT seq, at FROM event WHERE seq >= ? ORDER BY seq LIMIT ?) WHERE at >= ?`,
  dropEvents: 'DELETE FROM event WHERE seq < ?',
  check: 'PRAGMA quick_check(500)',
} as const

export type StatementName = keyof typeof SQL

/** An update of some of the columns that change: only indexes over those are written. */
export function updateOf(columns: readonly string[]): string {
  return `UPDATE job SET ${columns.map((column) => `${column} = ?`).join(', ')} WHERE seq = ?`
}

/** A new row, of which only what is not as usual is said: a plain job is 14 of 50 columns. */
export function insertOf(columns: readonly string[]): string {
  return `INSERT INTO job (${columns.join(', ')}) VALUES (${marks(columns.length)})`
}
