-- Work for nodes. payload and signature are what the node believes, in base64. The other columns repeat the payload for conditions, or
-- say what became of the task. A task is open until finished_at.
CREATE TABLE tasks (
  number            INTEGER PRIMARY KEY, -- in the order in which they were made
  id                TEXT NOT NULL UNIQUE,
  node_id           TEXT NOT NULL,
  enrolment_id      TEXT NOT NULL,
  type              TEXT NOT NULL,
  drained           INTEGER NOT NULL, -- 1: is also given to a node that takes no new work
  repeats           INTEGER NOT NULL, -- how often it may be queued anew when it is lost
  created_by        TEXT NOT NULL,
  created_at        INTEGER NOT NULL,
  expires_at        INTEGER NOT NULL,
  retry_of          TEXT NOT NULL, -- '' none
  retried_as        TEXT NOT NULL DEFAULT '',
  status            TEXT NOT NULL DEFAULT 'queued',
  deliveries        INTEGER NOT NULL DEFAULT 0,
  delivered_at      INTEGER,
  claim_fingerprint TEXT NOT NULL DEFAULT '',
  claimed_at        INTEGER,
  started_at        INTEGER,
  lent              INTEGER NOT NULL DEFAULT 0, -- how often its node was given secrets
  finished_at       INTEGER,
  cancel_asked_at   INTEGER,
  cancel_asked_by   TEXT NOT NULL DEFAULT '',
  exit_code         INTEGER,
  code              TEXT NOT NULL DEFAULT '',
  error             TEXT NOT NULL DEFAULT '',
  bytes             INTEGER NOT NULL DEFAULT 0,
  truncated         INTEGER NOT NULL DEFAULT 0,
  archive_name      TEXT NOT NULL DEFAULT '',
  archive_size      INTEGER NOT NULL DEFAULT 0,
  archive_sha256    TEXT NOT NULL DEFAULT '', -- '' none
  result_digest     TEXT NOT NULL DEFAULT '', -- '' the gateway ended it
  signing_key_id    TEXT NOT NULL,
  signature         TEXT NOT NULL,
  payload           TEXT NOT NULL,
  proof             TEXT NOT NULL DEFAULT '',
  found             TEXT NOT NULL DEFAULT '', -- JSON object
  subject           TEXT NOT NULL DEFAULT '', -- what it changes, such as user, where another type can undo that; '' none
  subject_name      TEXT NOT NULL DEFAULT '' -- '' all of that kind
) STRICT;
CREATE INDEX tasks_node ON tasks(node_id, number);
CREATE INDEX tasks_open ON tasks(node_id, number) WHERE finished_at IS NULL;
CREATE INDEX tasks_taken ON tasks(node_id, type) WHERE finished_at IS NULL AND status <> 'queued';
CREATE INDEX tasks_expiry ON tasks(expires_at) WHERE finished_at IS NULL AND started_at IS NULL;
CREATE INDEX tasks_begun ON tasks(claimed_at) WHERE finished_at IS NULL AND claimed_at IS NOT NULL;
CREATE INDEX tasks_finished ON tasks(finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX tasks_lost ON tasks(number) WHERE status = 'lost' AND repeats > 0 AND retried_as = '' AND cancel_asked_at IS NULL;
CREATE INDEX tasks_subject ON tasks(node_id, subject, number) WHERE subject <> ''; -- tasks on one subject are done in their order

-- What tasks write, in base64: the output that people read, and the file that a task makes.
CREATE TABLE task_pieces (
  id     INTEGER PRIMARY KEY,
  task   TEXT NOT NULL,
  file   TEXT NOT NULL, -- '' the output
  start  INTEGER NOT NULL, -- of the data in all that was written
  size   INTEGER NOT NULL, -- bytes of the data
  data   TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX task_pieces_place ON task_pieces(task, file, start, size);

-- Values that tasks name, and that a node gets while such a task runs.
CREATE TABLE lent_secrets (
  id         TEXT NOT NULL PRIMARY KEY, -- tenant/name
  tenant     TEXT NOT NULL,
  name       TEXT NOT NULL,
  value      TEXT NOT NULL, -- sealed
  created_at INTEGER NOT NULL,
  changed_at INTEGER NOT NULL,
  changed_by TEXT NOT NULL
) STRICT;
