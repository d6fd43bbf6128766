// Owns the tables, and how a file of an earlier version becomes one of this version.
// May never change a version that has been published: a new one is a new step.

import { AxError } from '../../core/errors.ts'
import type { Columns, Database } from './driver.ts'

/**
 * What each version adds to the one before it. Columns are named as in the docs; instants are
 * epoch milliseconds, 0 for none; `again` is 1 for a retry that is not due, 2 for one that the
 * budget holds.
 */
const STEPS: readonly string[] = [
  `
CREATE TABLE state (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  now INTEGER NOT NULL DEFAULT 0,
  last_seq INTEGER NOT NULL DEFAULT 0,
  last_lease INTEGER NOT NULL DEFAULT 0,
  last_event INTEGER NOT NULL DEFAULT 0,
  oldest_event INTEGER NOT NULL DEFAULT 1,
  forgotten INTEGER NOT NULL DEFAULT 0,
  ageing TEXT,
  unranked INTEGER NOT NULL DEFAULT 0,
  ranked_after INTEGER NOT NULL DEFAULT 0,
  budget TEXT,
  budget_tat INTEGER NOT NULL DEFAULT 0,
  bounds INTEGER NOT NULL DEFAULT 0,
  wanting INTEGER NOT NULL DEFAULT 0,
  settings INTEGER NOT NULL DEFAULT 0
);
INSERT INTO state (one) VALUES (1);

CREATE TABLE terms (terms INTEGER PRIMARY KEY, json TEXT NOT NULL UNIQUE);

CREATE TABLE job (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  type TEXT NOT NULL,
  pool TEXT NOT NULL,
  flow TEXT,
  terms INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  deps TEXT,
  dep_mode TEXT,
  key TEXT,
  key_for_ms INTEGER NOT NULL DEFAULT 0,
  lane TEXT,
  enqueue_timeout_ms INTEGER NOT NULL DEFAULT 0,
  created_at INTEGER NOT NULL,
  status TEXT NOT NULL,
  rev INTEGER NOT NULL DEFAULT 1,
  weight INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  needs INTEGER NOT NULL DEFAULT 0,
  open INTEGER NOT NULL DEFAULT 0,
  starts INTEGER NOT NULL DEFAULT 0,
  attempts INTEGER NOT NULL DEFAULT 0,
  lost INTEGER NOT NULL DEFAULT 0,
  preempted INTEGER NOT NULL DEFAULT 0,
  attempts_before INTEGER NOT NULL DEFAULT 0,
  lost_before INTEGER NOT NULL DEFAULT 0,
  lease INTEGER,
  holder TEXT,
  hold INTEGER NOT NULL DEFAULT 0,
  deadline INTEGER NOT NULL DEFAULT 0,
  available_at INTEGER NOT NULL DEFAULT 0,
  ready_at INTEGER NOT NULL DEFAULT 0,
  started_at INTEGER NOT NULL DEFAULT 0,
  finished_at INTEGER NOT NULL DEFAULT 0,
  unknown INTEGER NOT NULL DEFAULT 0,
  evictor TEXT,
  victim TEXT,
  displaced INTEGER NOT NULL DEFAULT 0,
  stuck INTEGER NOT NULL DEFAULT 0,
  pass INTEGER NOT NULL DEFAULT -1,
  keep_rank INTEGER NOT NULL DEFAULT 0,
  again INTEGER NOT NULL DEFAULT 0,
  keep_ms INTEGER NOT NULL DEFAULT 0,
  parked INTEGER NOT NULL DEFAULT 0,
  in_lane INTEGER NOT NULL DEFAULT 0,
  code TEXT,
  cause TEXT,
  error TEXT,
  log TEXT,
  note TEXT,
  result TEXT,
  payload TEXT
);
CREATE INDEX job_status ON job (status);
CREATE INDEX job_type ON job (type);
CREATE INDEX job_pool ON job (pool);
CREATE INDEX job_flow ON job (flow) WHERE flow IS NOT NULL;
CREATE INDEX job_key ON job (key) WHERE key IS NOT NULL;
CREATE INDEX job_code ON job (code) WHERE code IS NOT NULL;
CREATE INDEX job_ready ON job (pool, type, rank, seq) WHERE status = 'ready';
CREATE INDEX job_due ON job (again, available_at, seq) WHERE status = 'pending';
CREATE INDEX job_again ON job (rank, seq) WHERE again = 2;
CREATE INDEX job_lane ON job (lane, rank, seq) WHERE status = 'waiting' AND needs = 0;
CREATE INDEX job_doomed ON job (seq) WHERE status = 'waiting' AND open < needs;
CREATE INDEX job_held ON job (holder, pool, type, lease) WHERE lease IS NOT NULL;
CREATE INDEX job_waits ON job (deadline, seq)
  WHERE deadline > 0 AND status IN ('waiting', 'pending', 'ready');
CREATE INDEX job_ends ON job (deadline, seq)
  WHERE deadline > 0 AND status IN ('running', 'success', 'failed', 'cancelled');

CREATE TABLE edge (
  job INTEGER NOT NULL,
  place INTEGER NOT NULL,
  dep TEXT NOT NULL,
  on_end INTEGER NOT NULL,
  state TEXT NOT NULL,
  cut INTEGER NOT NULL DEFAULT 0,
  names INTEGER NOT NULL DEFAULT 1,
  PRIMARY KEY (job, place)
) WITHOUT ROWID;
CREATE INDEX edge_dep ON edge (dep, job) WHERE cut = 0;
CREATE INDEX edge_names ON edge (dep) WHERE cut = 0 AND names = 1;

CREATE TABLE fan_out (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  job INTEGER NOT NULL,
  next INTEGER NOT NULL
);
CREATE TABLE outcome (
  id TEXT PRIMARY KEY,
  status TEXT NOT NULL,
  until INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX outcome_until ON outcome (until);
CREATE TABLE key (
  key TEXT PRIMARY KEY,
  owner INTEGER NOT NULL,
  until INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE lane (
  lane TEXT PRIMARY KEY,
  holder INTEGER NOT NULL,
  started INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE tally (
  pool TEXT NOT NULL,
  type TEXT NOT NULL,
  pending INTEGER NOT NULL,
  waiting INTEGER NOT NULL,
  ready INTEGER NOT NULL,
  running INTEGER NOT NULL,
  success INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  cancelled INTEGER NOT NULL,
  PRIMARY KEY (pool, type)
) WITHOUT ROWID;
CREATE INDEX tally_ready ON tally (pool, type) WHERE ready > 0;
CREATE TABLE weighed (
  priority INTEGER NOT NULL,
  weight INTEGER NOT NULL,
  count INTEGER NOT NULL,
  PRIMARY KEY (priority, weight)
) WITHOUT ROWID;
CREATE TABLE failure (code TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID;

CREATE TABLE pool (
  pool TEXT PRIMARY KEY,
  start TEXT NOT NULL,
  operator TEXT NOT NULL,
  tat INTEGER NOT NULL,
  breaker TEXT,
  wanted INTEGER,
  told INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE type (type TEXT PRIMARY KEY, setting TEXT NOT NULL, concurrency REAL) WITHOUT ROWID;
CREATE TABLE schedule (
  name TEXT PRIMARY KEY,
  cron TEXT NOT NULL,
  time_zone TEXT,
  missed TEXT NOT NULL,
  template TEXT NOT NULL,
  next_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX schedule_next ON schedule (next_at);
CREATE TABLE worker (
  holder TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  types TEXT NOT NULL,
  full INTEGER NOT NULL,
  zombies INTEGER NOT NULL,
  settings TEXT NOT NULL,
  until INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE process (
  holder TEXT PRIMARY KEY,
  host TEXT NOT NULL,
  pid INTEGER NOT NULL,
  began TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE event (
  seq INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  job TEXT NOT NULL,
  type TEXT NOT NULL,
  pool TEXT NOT NULL,
  came_from TEXT,
  went_to TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  event TEXT NOT NULL,
  code TEXT,
  cause TEXT,
  worker TEXT
);

CREATE VIEW jobs AS SELECT
  job.seq, job.id, job.type, job.pool, job.status, job.priority, job.starts, job.code,
  job.error ->> '$.message' AS error,
  datetime(job.created_at / 1000, 'unixepoch') AS created,
  CASE WHEN job.status = 'pending'
    THEN datetime(job.available_at / 1000, 'unixepoch') END AS due,
  CASE WHEN job.finished_at > 0
    THEN datetime(job.finished_at / 1000, 'unixepoch') END AS finished,
  job.holder AS worker,
  CASE WHEN job.lease IS NOT NULL
    THEN datetime(job.deadline / 1000, 'unixepoch') END AS leased_until,
  (SELECT group_concat(edge.dep, ' ') FROM edge
    WHERE edge.job = job.seq AND edge.state <> 'satisfied') AS waits_for,
  (SELECT holder.id FROM lane JOIN job AS holder ON holder.seq = lane.holder
    WHERE lane.lane = job.lane AND holder.seq <> job.seq) AS behind,
  job.key, job.lane, job.cause, job.payload, job.result
FROM job;
`,
]

export const VERSION = STEPS.length

/** The version of a file; 0 for a new one. */
export function versionOf(db: Database): number {
  const [row] = db.prepare('PRAGMA user_version').all()
  return Number((row as Columns | undefined)?.user_version ?? 0)
}

/** Whether a file that says version 0 has tables of somebody else in it. */
function isForeign(db: Database): boolean {
  return db.prepare('SELECT 1 FROM sqlite_master LIMIT 1').all().length > 0
}

/** Brings a file up to this version, within the transaction that is open. */
export function migrate(db: Database, file: string): void {
  const version = versionOf(db)
  if (version > VERSION) {
    throw new AxError(
      'STORE_UNAVAILABLE',
      `${file} was written by a later ax (version ${version} of the file; this one knows ` +
        `${VERSION}). Update ax-scheduler in this process, or use another file.`,
      { retryable: false, file, version },
    )
  }
  if (version === 0 && isForeign(db)) {
    throw new AxError(
      'INVALID_OPTION',
      `${file} is a SQLite file of something else: it has tables that are not ax's. ` +
        'Name a file that does not exist yet, or one that ax has made.',
      { option: 'file', value: file },
    )
  }
  if (version === VERSION) return
  for (const step of STEPS.slice(version)) db.exec(step)
  db.exec(`PRAGMA user_version = ${VERSION}`)
}
