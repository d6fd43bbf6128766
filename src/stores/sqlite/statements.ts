// Owns every statement that is put to the file, by name.
// May never decide: a statement finds, counts or writes what it was told.

import { STATUSES } from '../../core/job.ts'
import { IS_COMMON, IS_SHORT, LONG, PACKED } from './columns.ts'

const sums = STATUSES.map((status, at) => `${status} = ${status} + (value ->> ${at + 1})`)
/** Whole jobs, for readRow: of those that live, of those that are over, and of both. */
export const LIVING = `SELECT ${PACKED.live} AS packed FROM live JOIN job USING (seq)`
export const OVER = `SELECT ${PACKED.past} AS packed FROM past JOIN job USING (seq)`
const both = (condition: string) =>
  `SELECT ${PACKED.live} AS packed FROM job JOIN live USING (seq) WHERE ${condition} UNION ALL
    SELECT ${PACKED.past} AS packed FROM job JOIN past USING (seq) WHERE ${condition}`
/** Where in `said` and in `figures` these are: see row.ts. */
const [PRIORITY, WEIGHT] = [1, 1]
const IDS = '(SELECT value FROM json_each(?1))'
/** How a job that an edge names or comes from is now. */
const NOW = '(SELECT seq, status FROM live UNION ALL SELECT seq, status FROM past)'
const isLive = (seq: string) =>
  `EXISTS (SELECT 1 FROM live WHERE live.seq = ${seq} AND live.status IN
    ('waiting', 'pending', 'ready', 'running'))`
const isUnmet = (seq: string) =>
  `NOT EXISTS (SELECT 1 FROM past WHERE past.seq = ${seq} AND past.status = 'success')`

export const SQL = {
  state: 'SELECT * FROM state',
  setState: `UPDATE state SET now = ?, last_seq = ?, last_lease = ?, last_event = ?,
    oldest_event = ?, forgotten = ?, ageing = ?, unranked = ?, ranked_after = ?, budget = ?,
    budget_tat = ?, bounds = ?, wanting = ?, settings = ?`,
  dataVersion: 'PRAGMA data_version',
  userVersion: 'PRAGMA user_version',

  terms: 'SELECT json FROM terms WHERE terms = ?',
  termsAt: 'SELECT terms FROM terms WHERE json = ?',
  termsCount: 'SELECT count(*) AS count FROM terms',
  addTerms: 'INSERT INTO terms (json) VALUES (?)',

  removeJob: 'DELETE FROM job WHERE seq = ?',
  removeLive: `DELETE FROM live WHERE seq IN ${IDS}`,
  removePast: `DELETE FROM past WHERE seq IN ${IDS}`,
  byId: both('job.id = ?1'),
  bySeq: both('job.seq = ?1'),
  idBetween: 'SELECT 1 FROM job WHERE id BETWEEN ? AND ? LIMIT 1',
  byIds: both(`job.id IN ${IDS}`),
  bySeqs: both(`job.seq IN ${IDS}`),
  heldBy: `${LIVING} WHERE live.holder = ? AND live.lease IS NOT NULL`,
  heldIn: `${LIVING} WHERE live.lease IS NOT NULL
    AND live.line IN (SELECT line FROM line WHERE pool = ?)`,
  heldFirst: `${LIVING} WHERE live.lease IS NOT NULL ORDER BY live.lease LIMIT ?`,
  expired: `${LIVING} WHERE live.lease IS NOT NULL AND live.deadline > 0 AND live.deadline <= ?
    ORDER BY live.deadline, live.seq LIMIT ?`,
  slots: `SELECT holder, line, count(*) AS count FROM live WHERE lease IS NOT NULL
    GROUP BY holder, line`,
  heads: `SELECT line.line, line.pool, line.type, first.suspect, first.rank, first.seq
    FROM line JOIN live AS first ON first.seq = (SELECT seq FROM live
      WHERE live.status = 'ready' AND live.suspect = ? AND live.line = line.line
      ORDER BY live.rank, live.seq LIMIT 1)
    WHERE line.ready > 0 AND line.type IN (SELECT value FROM json_each(?))`,
  ready: `SELECT group_concat(seq) AS seqs, group_concat(id, char(31)) AS ids,
    group_concat(payload, char(31)) AS payloads, group_concat(rest, char(31)) AS rests
    FROM (SELECT live.seq AS seq, job.id AS id,
      CASE WHEN octet_length(job.payload) < ${LONG} THEN job.payload ELSE '' END AS payload,
      CASE WHEN job.created_at = ?6 AND live.rank = ?7 AND live.deadline = ?8
          AND ifnull(octet_length(job.payload), 1) BETWEEN 1 AND ${LONG - 1}
          AND live.figures = ?10 AND job.said = ?9 AND ${IS_COMMON} THEN ''
        WHEN NOT (${IS_SHORT}) OR job.payload = '' THEN live.seq
        ELSE ${PACKED.live} END AS rest
      FROM live JOIN job USING (seq) WHERE live.status = 'ready' AND live.suspect = ?1
      AND live.line = ?2 AND (live.rank, live.seq) > (?3, ?4)
      ORDER BY live.rank, live.seq LIMIT ?5)`,
  readySeqs: `SELECT json_group_array(seq) AS seqs FROM (SELECT seq FROM live
    WHERE status = 'ready' AND suspect = ? AND line = ? AND (rank, seq) > (?, ?)
    ORDER BY rank, seq LIMIT ?)`,
  readySuspect: `SELECT 1 FROM live WHERE status = 'ready' AND suspect = 1 LIMIT 1`,
  heldSuspects: 'SELECT DISTINCT holder FROM live WHERE lease IS NOT NULL AND suspect = 1',
  ahead: `SELECT count(*) AS count FROM (SELECT 1 FROM live WHERE status = 'ready'
    AND suspect IN (0, 1) AND line = ? AND (rank, seq) < (?, ?) LIMIT ?)`,
  anyPending: `SELECT 1 FROM live WHERE status = 'pending' LIMIT 1`,
  due: `${LIVING} WHERE live.status = 'pending' AND live.again = ? AND live.due_at <= ?
    ORDER BY live.due_at, live.seq LIMIT ?`,
  nextDue: `SELECT due_at AS at FROM live WHERE status = 'pending' AND again = ?
    ORDER BY due_at LIMIT 1`,
  held: `${LIVING} WHERE live.again = 2 ORDER BY live.rank, live.seq LIMIT ?`,
  heldCount: 'SELECT count(*) AS count FROM (SELECT 1 FROM live WHERE again = 2 LIMIT ?)',
  dueCount: `SELECT count(*) AS count FROM live
    WHERE status = 'pending' AND again = 1 AND due_at <= ?`,
  heldBefore: `SELECT count(*) AS count FROM (SELECT 1 FROM live WHERE again = 2
    AND (rank, seq) < (?, ?) LIMIT ?)`,
  dueBefore: `SELECT count(*) AS count FROM (SELECT 1 FROM live WHERE status = 'pending'
    AND again = 1 AND due_at <= ? AND (rank, seq) < (?, ?) LIMIT ?)`,
  laneNext: `${LIVING} WHERE live.status = 'waiting' AND live.needs = 0 AND live.lane = ?
    ORDER BY live.rank, live.seq LIMIT 1`,
  waits: `${LIVING} WHERE live.deadline > 0 AND live.lease IS NULL AND live.deadline <= ?
    ORDER BY live.deadline, live.seq LIMIT ?`,
  ends: `${LIVING} WHERE live.lease IS NOT NULL AND live.deadline > 0 AND live.deadline <= ?
    ORDER BY live.deadline, live.seq LIMIT ?`,
  pastEnds: `${OVER} WHERE past.deadline > 0 AND past.deadline <= ?
    ORDER BY past.deadline, past.seq LIMIT ?`,
  nextWait: `SELECT deadline AS at FROM live WHERE deadline > 0 AND lease IS NULL
    ORDER BY deadline LIMIT 1`,
  nextEnd: `SELECT min(at) AS at FROM (SELECT min(deadline) AS at FROM live
      WHERE lease IS NOT NULL AND deadline > 0
    UNION ALL SELECT * FROM (SELECT deadline AS at FROM past
      WHERE deadline > 0 ORDER BY deadline LIMIT 1))`,
  createdFrom: 'SELECT created_at AS at FROM job WHERE seq >= ? ORDER BY seq LIMIT 1',
  doomed: `SELECT count(*) AS count FROM live WHERE status = 'waiting' AND open < needs`,
  live: `${LIVING} WHERE live.seq > ? AND live.status IN
    ('waiting', 'pending', 'ready', 'running') ORDER BY live.seq LIMIT ?`,
  evicted: `SELECT DISTINCT holder FROM live WHERE lease IS NOT NULL AND evictor IS NOT NULL`,

  addEdge: 'INSERT INTO edge (job, place, dep, on_end, state) VALUES (?, ?, ?, ?, ?)',
  edges: 'SELECT place, dep, on_end, state FROM edge WHERE job = ? ORDER BY place',
  setEdge: 'UPDATE edge SET state = ? WHERE job = ? AND place = ?',
  openEdges: `SELECT job, place, on_end FROM edge WHERE dep = ? AND cut = 0 AND job > ?
    AND state = 'open' ORDER BY job LIMIT ?`,
  anyEdge: 'SELECT 1 FROM edge LIMIT 1',
  anyOpenEdge: `SELECT 1 FROM edge WHERE dep = ? AND cut = 0 AND state = 'open' LIMIT 1`,
  deadEdges: `SELECT edge.job, edge.place FROM edge JOIN live ON live.seq = edge.job
    WHERE edge.dep = ? AND edge.cut = 0 AND edge.state = 'dead' AND live.status = 'waiting'
    ORDER BY edge.job`,
  unname: 'UPDATE edge SET names = 0 WHERE job = ? AND names = 1',
  named: 'SELECT 1 FROM edge WHERE dep = ? AND cut = 0 AND names = 1 LIMIT 1',
  removeEdges: 'DELETE FROM edge WHERE job = ?',
  cutEdges: 'UPDATE edge SET cut = 1 WHERE dep = ? AND cut = 0',
  awaited: `SELECT 1 FROM edge WHERE edge.dep = ? AND edge.cut = 0 AND edge.state = 'open'
    AND ${isLive('edge.job')} LIMIT 1`,
  namedAmong: `SELECT DISTINCT dep FROM edge WHERE cut = 0 AND dep IN ${IDS}`,
  needed: `SELECT edge.dep AS id FROM job JOIN edge ON edge.job = job.seq
    WHERE job.id = ? AND edge.state <> 'satisfied' AND ${isUnmet('job.seq')}
    ORDER BY edge.place`,
  needing: `SELECT job.id AS id FROM edge JOIN job ON job.seq = edge.job
    WHERE edge.dep = ? AND edge.cut = 0 AND edge.state <> 'satisfied'
    AND ${isUnmet('job.seq')} ORDER BY edge.job`,
  dependents: `SELECT job FROM edge WHERE dep = ? AND cut = 0 AND job > ?
    ORDER BY job LIMIT ?`,
  ghosts: `SELECT job.id AS id, edge.dep AS dep FROM edge JOIN job ON job.seq = edge.job
    JOIN live ON live.seq = edge.job
    WHERE edge.cut = 0 AND edge.state = 'open' AND live.status = 'waiting' AND live.needs > 0
    AND NOT EXISTS (SELECT 1 FROM job AS named WHERE named.id = edge.dep)
    ORDER BY edge.job, edge.place LIMIT ?`,
  waitingEdges: `SELECT job.id AS id, edge.dep AS dep FROM edge JOIN job ON job.seq = edge.job
    JOIN live ON live.seq = edge.job
    WHERE live.status = 'waiting' AND edge.state = 'open' ORDER BY edge.job, edge.place`,
  wrongOpen: `SELECT job.id AS id, now.status AS status, now.open AS open,
    count(edge.place) AS found
    FROM (SELECT seq, status, open FROM live UNION ALL SELECT seq, status, open FROM past) AS now
    JOIN job USING (seq) LEFT JOIN edge ON edge.job = job.seq AND edge.state = 'open'
    GROUP BY job.seq HAVING now.open <> found LIMIT ?`,
  wrongLease: `SELECT id, status FROM live JOIN job USING (seq)
    WHERE (status = 'running') <> (lease IS NOT NULL AND hold = 0) LIMIT ?`,
  wrongPlace: `SELECT id, (SELECT count(*) FROM live WHERE live.seq = job.seq)
      + (SELECT count(*) FROM past WHERE past.seq = job.seq) AS found FROM job
    WHERE found <> 1 LIMIT ?`,
  strays: `SELECT seq FROM ${NOW} AS now WHERE NOT EXISTS
    (SELECT 1 FROM job WHERE job.seq = now.seq) LIMIT ?`,
  wrongLine: `SELECT id FROM job JOIN live USING (seq) WHERE job.line <> live.line LIMIT ?`,
  wrongWait: `SELECT id FROM live JOIN job USING (seq) WHERE status = 'waiting' AND needs = 0
    AND NOT EXISTS (SELECT 1 FROM lane WHERE lane.lane = live.lane) LIMIT ?`,
  orphans: `SELECT key.key AS key, key.owner AS owner, job.id AS id FROM key
    LEFT JOIN job ON job.seq = key.owner LEFT JOIN ${NOW} AS now ON now.seq = key.owner
    WHERE job.seq IS NULL OR CASE WHEN key.until > 0 THEN now.status <> 'success'
      ELSE now.status IN ('success', 'failed', 'cancelled') END LIMIT ?`,
  recount: `SELECT line, status, count(*) AS count FROM
    (SELECT line, status FROM job JOIN ${NOW} USING (seq)) GROUP BY line, status`,
  reweigh: `SELECT said ->> ${PRIORITY} AS priority, figures ->> ${WEIGHT} AS weight,
    count(*) AS count FROM live JOIN job USING (seq)
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

  line: 'SELECT pool, type FROM line WHERE line = ?',
  lineBy: 'SELECT line FROM line WHERE pool = ? AND type = ?',
  addLine: 'INSERT INTO line (pool, type) VALUES (?, ?)',
  linesOf: `SELECT line FROM line WHERE (?1 IS NULL OR type = ?2) AND (?3 IS NULL OR pool = ?4)`,
  readyCount: `SELECT count(*) AS count FROM (SELECT 1 FROM live WHERE status = 'ready' LIMIT ?)`,
  tallies: 'SELECT * FROM line',
  talliesOf: 'SELECT * FROM line WHERE pool = ?',
  queued: 'SELECT sum(pending + ready) AS count FROM line WHERE pool = ?',
  anyQueued: `SELECT 1 FROM live WHERE status = 'pending'
    UNION ALL SELECT 1 FROM line WHERE ready > 0 LIMIT 1`,
  addTallies: `UPDATE line SET ${sums.join(', ')} FROM json_each(?) WHERE line = value ->> 0`,
  addTally: `UPDATE line SET ${STATUSES.map((status) => `${status} = ${status} + ?`).join(', ')}
    WHERE line = ?`,
  dropLine: `DELETE FROM line WHERE line = ? AND ${STATUSES.join(' + ')} = 0`,
  weights: 'SELECT priority, weight, count FROM weighed WHERE count > 0',
  addWeight: `INSERT INTO weighed (priority, weight, count) VALUES (?, ?, ?)
    ON CONFLICT (priority, weight) DO UPDATE SET count = count + excluded.count`,
  failures: 'SELECT code, count FROM failure WHERE count > 0',
  addFailure: `INSERT INTO failure (code, count) VALUES (?, ?)
    ON CONFLICT (code) DO UPDATE SET count = count + excluded.count`,
  idleWeight: 'SELECT 1 FROM weighed WHERE count = 0 LIMIT 1',
  dropWeights: 'DELETE FROM weighed WHERE count = 0',
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
  held1: 'SELECT 1 FROM live WHERE holder = ? AND lease IS NOT NULL LIMIT 1',
  dropProcesses: `DELETE FROM process WHERE host <> ?
    AND holder NOT IN (SELECT holder FROM worker)
    AND holder NOT IN (SELECT holder FROM live WHERE lease IS NOT NULL)`,
  processes: 'SELECT holder, pid, began FROM process WHERE host = ?',
  removeProcess: 'DELETE FROM process WHERE holder = ?',

  addBatch: 'INSERT INTO batch (first, last, at, entries) VALUES (?, ?, ?, ?)',
  batches: `SELECT * FROM batch WHERE first >= coalesce((SELECT max(first) FROM batch
    WHERE first <= ?1 + 1), 0) AND last > ?1 ORDER BY first LIMIT ?2`,
  news: 'SELECT * FROM batch WHERE first > ? ORDER BY first DESC LIMIT ?',
  oldestEvent: `SELECT at FROM (SELECT at, last FROM batch WHERE first <= ?1
    ORDER BY first DESC LIMIT 1) WHERE last >= ?1`,
  firstKept: `SELECT min(first) AS seq FROM batch
    WHERE first > ? AND first < ? AND at >= ?`,
  dropBatches: 'DELETE FROM batch WHERE first < ?1 AND last < ?1',
  check: 'PRAGMA quick_check(500)',
} as const

export type StatementName = keyof typeof SQL
