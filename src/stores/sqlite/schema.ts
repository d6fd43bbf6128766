// Owns the tables, and how a file of an earlier version becomes one of this version.
// May never change a version that has been published: a new one is a new step.

import { AxError } from '../../core/errors.ts'
import type { Database } from './driver.ts'

/** Where in `said` and in `figures` these are: see row.ts. */
const PRIORITY = 1
const [STARTS, FINISHED_AT] = [2, 8]

/**
 * What each version adds to the one before it. Columns are named as in the docs; instants are
 * epoch milliseconds, 0 for none; `again` is 1 for a retry that is not due, 2 for one that the
 * budget holds.
 *
 * A job is in two tables. `job` is what was submitted, written once. How it is now is in `live`
 * until it has ended and holds no slot, and from then on in `past`: so a start rewrites a narrow
 * row, and no payload; what is over burdens no index of what is not. What no statement asks for is
 * in `said` and `figures`, which are lists: a column costs more than a number in a text. A `line`
 * is all jobs of one type in one pool, and how many there are in each state. A `batch` is the log
 * of one transaction.
 */
export const STEPS: readonly string[] = [
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

CREATE TABLE line (
  line INTEGER PRIMARY KEY,
  pool TEXT NOT NULL,
  type TEXT NOT NULL,
  pending INTEGER NOT NULL DEFAULT 0,
  waiting INTEGER NOT NULL DEFAULT 0,
  ready INTEGER NOT NULL DEFAULT 0,
  running INTEGER NOT NULL DEFAULT 0,
  success INTEGER NOT NULL DEFAULT 0,
  failed INTEGER NOT NULL DEFAULT 0,
  cancelled INTEGER NOT NULL DEFAULT 0,
  UNIQUE (pool, type)
);
CREATE INDEX line_ready ON line (line) WHERE ready > 0;

CREATE TABLE job (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  line INTEGER NOT NULL,
  flow TEXT,
  key TEXT,
  lane TEXT,
  created_at INTEGER NOT NULL,
  said TEXT NOT NULL,
  payload TEXT
);
CREATE INDEX job_line ON job (line);
CREATE INDEX job_flow ON job (flow) WHERE flow IS NOT NULL;
CREATE INDEX job_key ON job (key) WHERE key IS NOT NULL;

CREATE TABLE live (
  seq INTEGER PRIMARY KEY,
  line INTEGER NOT NULL,
  status TEXT NOT NULL,
  rank INTEGER NOT NULL,
  needs INTEGER NOT NULL DEFAULT 0,
  open INTEGER NOT NULL DEFAULT 0,
  lane TEXT,
  again INTEGER NOT NULL DEFAULT 0,
  due_at INTEGER NOT NULL DEFAULT 0,
  lease INTEGER,
  holder TEXT,
  hold INTEGER NOT NULL DEFAULT 0,
  evictor TEXT,
  suspect INTEGER NOT NULL DEFAULT 0,
  deadline INTEGER NOT NULL DEFAULT 0,
  code TEXT,
  figures TEXT NOT NULL,
  error TEXT,
  result TEXT
);
CREATE INDEX live_status ON live (status) WHERE status NOT IN ('ready', 'running');
CREATE INDEX live_code ON live (code) WHERE code IS NOT NULL;
CREATE INDEX live_ready ON live (suspect, line, rank, seq) WHERE status = 'ready';
CREATE INDEX live_due ON live (again, due_at, seq) WHERE status = 'pending';
CREATE INDEX live_again ON live (rank, seq) WHERE again = 2;
CREATE INDEX live_lane ON live (lane, rank, seq) WHERE status = 'waiting' AND needs = 0;
CREATE INDEX live_doomed ON live (seq) WHERE status = 'waiting' AND open < needs;
CREATE INDEX live_held ON live (holder, line, deadline) WHERE lease IS NOT NULL;
CREATE INDEX live_waits ON live (deadline, seq)
  WHERE deadline > 0 AND lease IS NULL;

CREATE TABLE past (
  seq INTEGER PRIMARY KEY,
  status TEXT NOT NULL,
  rank INTEGER NOT NULL,
  needs INTEGER NOT NULL DEFAULT 0,
  open INTEGER NOT NULL DEFAULT 0,
  deadline INTEGER NOT NULL DEFAULT 0,
  code TEXT,
  figures TEXT NOT NULL,
  error TEXT,
  result TEXT
);
CREATE INDEX past_status ON past (status) WHERE status <> 'success';
CREATE INDEX past_code ON past (code) WHERE code IS NOT NULL;
CREATE INDEX past_ends ON past (deadline) WHERE deadline > 0;

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

CREATE TABLE batch (
  first INTEGER PRIMARY KEY,
  last INTEGER NOT NULL,
  at INTEGER NOT NULL,
  entries TEXT NOT NULL
);

CREATE VIEW events AS SELECT
  (run.value ->> 'first') + job.key AS seq,
  strftime('%Y-%m-%d %H:%M:%f', batch.at / 1000.0, 'unixepoch') AS at,
  job.value AS job, run.value ->> 'type' AS type, run.value ->> 'pool' AS pool,
  run.value ->> 'from' AS came_from, run.value ->> 'to' AS went_to,
  json_extract(run.value, '$.attempts[' || job.key || ']') AS attempt,
  run.value ->> 'event' AS event, run.value ->> 'code' AS code,
  run.value ->> 'cause' AS cause, run.value ->> 'worker' AS worker
FROM batch, json_each(batch.entries) AS run, json_each(run.value, '$.jobs') AS job;

CREATE VIEW jobs AS SELECT
  job.seq, job.id, line.type, line.pool, coalesce(live.status, past.status) AS status,
  job.said ->> ${PRIORITY} AS priority,
  coalesce(live.figures, past.figures) ->> ${STARTS} AS starts,
  coalesce(live.code, past.code) AS code,
  coalesce(live.error, past.error) ->> '$.message' AS error,
  datetime(job.created_at / 1000, 'unixepoch') AS created,
  CASE WHEN live.status = 'pending' THEN datetime(live.due_at / 1000, 'unixepoch') END AS due,
  datetime((job.created_at + (coalesce(live.figures, past.figures) ->> ${FINISHED_AT})) / 1000,
    'unixepoch') AS finished,
  live.holder AS worker,
  CASE WHEN live.lease IS NOT NULL
    THEN datetime(live.deadline / 1000, 'unixepoch') END AS leased_until,
  (SELECT group_concat(edge.dep, ' ') FROM edge
    WHERE edge.job = job.seq AND edge.state <> 'satisfied') AS waits_for,
  (SELECT holder.id FROM lane JOIN job AS holder ON holder.seq = lane.holder
    WHERE lane.lane = job.lane AND holder.seq <> job.seq) AS behind,
  job.key, job.lane, coalesce(live.figures, past.figures) ->> '$[10].cause' AS cause,
  job.payload, coalesce(live.result, past.result) AS result
FROM job JOIN line USING (line)
  LEFT JOIN live ON live.seq = job.seq LEFT JOIN past ON past.seq = job.seq;
`,
]

/**
 * The version of a file, 0 for a new one, and how many tables and the like it has: in one
 * statement, as somebody else may be making them at this very moment.
 */
function stateOf(db: Database): { readonly version: number; readonly tables: number } {
  const sql = `SELECT user_version AS version, (SELECT count(*) FROM sqlite_master) AS tables
    FROM pragma_user_version`
  return db.prepare(sql).all()[0] as { readonly version: number; readonly tables: number }
}

/** Refuses a file that is not this ax's, before anything in it is touched. */
export function checkVersion(db: Database, file: string, steps = STEPS): number {
  const { version, tables } = stateOf(db)
  if (version > steps.length) {
    throw new AxError(
      'STORE_UNAVAILABLE',
      `${file} was written by a later ax (version ${version} of the file; this one knows ` +
        `${steps.length}). Update ax-scheduler in this process, or use another file.`,
      { retryable: false, file, version },
    )
  }
  if (version === 0 && tables > 0) {
    throw new AxError(
      'INVALID_OPTION',
      `${file} is a SQLite file of something else: it has tables that are not ax's. ` +
        'Name a file that does not exist yet, or one that ax has made.',
      { option: 'file', value: file },
    )
  }
  return version
}

/** Brings a file up to this version, within the transaction that is open. */
export function migrate(db: Database, file: string, steps = STEPS): void {
  const version = checkVersion(db, file, steps)
  if (version === steps.length) return
  for (const step of steps.slice(version)) db.exec(step)
  db.exec(`PRAGMA user_version = ${steps.length}`)
}
