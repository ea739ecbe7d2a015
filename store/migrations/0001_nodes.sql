-- Times are unix milliseconds, flags are 0 or 1, documents are JSON text. Only INTEGER and TEXT: that is what travels as JSON.

-- Writes state what must hold with INSERT INTO guards VALUES (<condition>). It stores nothing; a condition that is not 1 aborts the batch.
CREATE VIEW guards(held) AS SELECT 1;
CREATE TRIGGER guards_hold INSTEAD OF INSERT ON guards WHEN NEW.held IS NOT 1
BEGIN
  SELECT RAISE(ABORT, 'a condition of the write did not hold');
END;

CREATE TABLE meta (
  key   TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE secrets (
  name  TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL -- sealed
) STRICT, WITHOUT ROWID;

CREATE TABLE events (
  id        INTEGER PRIMARY KEY,
  at        INTEGER NOT NULL,
  kind      TEXT NOT NULL,
  actor     TEXT NOT NULL,
  node_id   TEXT NOT NULL,
  node_name TEXT NOT NULL,
  tenant    TEXT NOT NULL,
  address   TEXT NOT NULL,
  outcome   TEXT NOT NULL,
  detail    TEXT NOT NULL, -- JSON object
  security  INTEGER NOT NULL
) STRICT;
CREATE INDEX events_at ON events(at);
CREATE INDEX events_node ON events(node_id) WHERE node_id <> '';
CREATE INDEX events_tenant ON events(tenant) WHERE tenant <> '';
CREATE INDEX events_security ON events(id) WHERE security = 1;

CREATE TABLE tokens (
  id            TEXT NOT NULL PRIMARY KEY,
  tenant        TEXT NOT NULL,
  labels        TEXT NOT NULL, -- JSON object
  uses          INTEGER NOT NULL,
  gpus          INTEGER NOT NULL,
  bind_instance INTEGER NOT NULL,
  node_id       TEXT NOT NULL, -- '' any node
  key           TEXT NOT NULL, -- sealed
  created_at    INTEGER NOT NULL,
  expires_at    INTEGER NOT NULL,
  revoked_at    INTEGER,
  created_by    TEXT NOT NULL,
  set_back      INTEGER NOT NULL DEFAULT 0 -- by how many ms its end was taken earlier because the clock was set back
) STRICT;
CREATE INDEX tokens_created ON tokens(created_at);
CREATE INDEX tokens_node ON tokens(node_id) WHERE node_id <> '';
CREATE INDEX tokens_set_back ON tokens(set_back) WHERE set_back > 0;

CREATE TABLE psks (
  id         TEXT NOT NULL PRIMARY KEY,
  key        TEXT NOT NULL, -- sealed
  created_at INTEGER NOT NULL,
  mark       TEXT -- sealed: what a text is compared with that may be the PSK
) STRICT;

-- A use of a token is a row here: unique by number, so that none can be taken twice. Its key is in certificates, which has each once.
CREATE TABLE enrolments (
  id          TEXT NOT NULL PRIMARY KEY,
  credential  TEXT NOT NULL,
  number      INTEGER, -- of the use, from 1; NULL for a PSK, or when a later enrolment of the same instance took it over
  key_hash    TEXT NOT NULL,
  node_id     TEXT NOT NULL,
  at          INTEGER NOT NULL,
  provider    TEXT NOT NULL,
  instance_id TEXT NOT NULL,
  address     TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX enrolments_use ON enrolments(credential, number) WHERE number IS NOT NULL;
CREATE INDEX enrolments_instance ON enrolments(credential, provider, instance_id) WHERE instance_id <> '';

CREATE TABLE nodes (
  id             TEXT NOT NULL PRIMARY KEY,
  name           TEXT NOT NULL,
  tenant         TEXT NOT NULL,
  provider       TEXT NOT NULL,
  instance_id    TEXT NOT NULL,
  state          TEXT NOT NULL,
  state_since    INTEGER NOT NULL,
  created_at     INTEGER NOT NULL,
  enrolled_at    INTEGER,
  retired_at     INTEGER,
  banned         INTEGER NOT NULL,
  enrolment_id   TEXT NOT NULL, -- '' never enrolled
  gpus_expected  INTEGER NOT NULL,
  recovery_until INTEGER,
  recoveries     INTEGER NOT NULL DEFAULT 0, -- certificates issued to an expired one
  gpus_said      INTEGER NOT NULL DEFAULT 0 -- 1: gpus_expected is a person's word, which is not raised by what is seen
) STRICT, WITHOUT ROWID;
-- Also the order of the list of live nodes.
CREATE UNIQUE INDEX nodes_held_name ON nodes(name) WHERE retired_at IS NULL OR banned = 1;
CREATE INDEX nodes_name ON nodes(name, id);
CREATE INDEX nodes_live_tenant ON nodes(tenant, name, id) WHERE retired_at IS NULL;
CREATE INDEX nodes_instance ON nodes(provider, instance_id) WHERE instance_id <> '';

-- How many nodes there are, so that a list's total costs the same at any size. A batch that inserts a node counts it with a
-- statement of its own: a trigger there costs an enrolment a fifth of its speed, for the insert's own rollback journal.
CREATE TABLE totals (
  tenant  TEXT NOT NULL,
  retired INTEGER NOT NULL,
  nodes   INTEGER NOT NULL,
  PRIMARY KEY (tenant, retired)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER totals_update AFTER UPDATE OF tenant, retired_at ON nodes
  WHEN NEW.tenant <> OLD.tenant OR (NEW.retired_at IS NULL) <> (OLD.retired_at IS NULL)
BEGIN
  UPDATE totals SET nodes = nodes - 1 WHERE tenant = OLD.tenant AND retired = (OLD.retired_at IS NOT NULL);
  INSERT INTO totals(tenant, retired, nodes) VALUES (NEW.tenant, NEW.retired_at IS NOT NULL, 1)
    ON CONFLICT DO UPDATE SET nodes = nodes + 1;
END;
CREATE TRIGGER totals_delete AFTER DELETE ON nodes
BEGIN
  UPDATE totals SET nodes = nodes - 1 WHERE tenant = OLD.tenant AND retired = (OLD.retired_at IS NOT NULL);
END;

-- What heartbeats change, apart from nodes so that writing it touches no index. One row for every node.
CREATE TABLE liveness (
  node_id     TEXT NOT NULL PRIMARY KEY,
  last_seen   INTEGER,
  interval_ms INTEGER NOT NULL,
  run_id      TEXT NOT NULL,
  counter     INTEGER NOT NULL,
  skew_ms     INTEGER,
  address     TEXT NOT NULL,
  agent       TEXT NOT NULL,
  cost        TEXT NOT NULL,
  notices     TEXT NOT NULL, -- JSON array
  hardware    TEXT NOT NULL  -- last: it may be long, and reading what is before it need not follow it
) STRICT;

CREATE TABLE reasons (
  node_id TEXT NOT NULL,
  reason  TEXT NOT NULL,
  person  INTEGER NOT NULL,
  since   INTEGER NOT NULL,
  detail  TEXT NOT NULL DEFAULT '', -- for a person: which GPU is gone, what a device said
  PRIMARY KEY (node_id, reason)
) STRICT, WITHOUT ROWID;

-- The lowest origin wins: 0 operator, 1 credential, 2 provider, 3 agent. A NULL value hides what is below it.
CREATE TABLE labels (
  node_id TEXT NOT NULL,
  key     TEXT NOT NULL,
  value   TEXT,
  origin  INTEGER NOT NULL,
  PRIMARY KEY (node_id, key, origin)
) STRICT, WITHOUT ROWID;
CREATE INDEX labels_key ON labels(key, value, origin);

-- A status is compared with each word: SQLite builds a table for every IN of more than two values, here with every row that is written.
CREATE TABLE certificates (
  fingerprint   TEXT NOT NULL PRIMARY KEY,
  node_id       TEXT NOT NULL,
  enrolment_id  TEXT NOT NULL,
  generation    INTEGER NOT NULL,
  status        TEXT NOT NULL CHECK (status = 'pending' OR status = 'current' OR status = 'superseded' OR status = 'revoked'),
  key_hash      TEXT NOT NULL UNIQUE,
  public_key    TEXT NOT NULL, -- base64
  chain         TEXT NOT NULL,
  not_before    INTEGER NOT NULL,
  not_after     INTEGER NOT NULL,
  issued_at     INTEGER NOT NULL,
  first_used_at INTEGER,
  ended_at      INTEGER,
  recovery      INTEGER NOT NULL DEFAULT 0, -- 1: issued to an expired one
  overdue_at    INTEGER, -- when its renewal was found to be overdue
  set_back      INTEGER NOT NULL DEFAULT 0 -- as in tokens
) STRICT;
CREATE INDEX certificates_node ON certificates(node_id);
CREATE UNIQUE INDEX certificates_live ON certificates(node_id, status) WHERE status IN ('current', 'pending');
-- A renewal is due after two thirds of the lifetime and overdue a twentieth later: 43/60.
CREATE INDEX certificates_renewal ON certificates(issued_at + (not_after - issued_at) * 43 / 60)
  WHERE status = 'current' AND overdue_at IS NULL;
CREATE INDEX certificates_overdue ON certificates(not_after) WHERE status = 'current' AND overdue_at IS NOT NULL;
CREATE INDEX certificates_ended ON certificates(ended_at) WHERE ended_at IS NOT NULL AND chain <> '';
CREATE INDEX certificates_set_back ON certificates(set_back) WHERE set_back > 0;

CREATE TABLE accounts (
  id           TEXT NOT NULL PRIMARY KEY,
  name         TEXT NOT NULL,
  tenant       TEXT NOT NULL, -- '' all
  scopes       TEXT NOT NULL, -- JSON array
  secret_hash  TEXT NOT NULL, -- base64
  created_at   INTEGER NOT NULL,
  expires_at   INTEGER,
  revoked_at   INTEGER,
  last_used_at INTEGER,
  created_by   TEXT NOT NULL DEFAULT '', -- as events name the actor
  maker        TEXT NOT NULL DEFAULT '', -- id of the account that made it; '' none
  set_back     INTEGER NOT NULL DEFAULT 0 -- as in tokens
) STRICT;
CREATE UNIQUE INDEX accounts_live_name ON accounts(name) WHERE revoked_at IS NULL;
CREATE INDEX accounts_set_back ON accounts(set_back) WHERE set_back > 0;

-- The latest runs of each node's agent: one row when a run is first heard, written again when another one is heard after it.
CREATE TABLE runs (
  node_id     TEXT NOT NULL,
  run_id      TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  address     TEXT NOT NULL,
  counter     INTEGER NOT NULL,
  first_at    INTEGER NOT NULL, -- when the gateway first heard of it
  last_at     INTEGER NOT NULL, -- its latest proof of life
  before_at   INTEGER NOT NULL, -- the one before that, 0: none
  first_beat  INTEGER NOT NULL DEFAULT 0, -- the number of its first heartbeat, counted up with every one of the node: the clock may be set
  last_beat   INTEGER NOT NULL DEFAULT 0, -- of its latest proof of life
  before_beat INTEGER NOT NULL DEFAULT 0, -- of the one before that, 0: none
  PRIMARY KEY (node_id, run_id)
) STRICT, WITHOUT ROWID;
