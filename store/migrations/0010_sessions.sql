-- Sessions between operators and nodes. Their bytes are never here. (The table sessions has the browsers that are logged in.)
CREATE TABLE node_sessions (
  number      INTEGER PRIMARY KEY AUTOINCREMENT, -- in the order in which they were asked for
  id          TEXT NOT NULL UNIQUE,
  node_id     TEXT NOT NULL REFERENCES nodes(id),
  type        TEXT NOT NULL,
  about       TEXT NOT NULL, -- what may be shown of its params: a JSON object of texts
  account     TEXT NOT NULL, -- id of who opened it; '' : on the gateway's socket
  created_by  TEXT NOT NULL,
  address     TEXT NOT NULL,
  key_id      TEXT NOT NULL, -- that signed it
  idle_ms     INTEGER NOT NULL,
  limit_ms    INTEGER NOT NULL,
  created_at  INTEGER NOT NULL,
  opened_at   INTEGER,
  ended_at    INTEGER,       -- NULL: it is alive, in the gateway's memory
  end_reason  TEXT NOT NULL DEFAULT '',
  exit_code   INTEGER,
  bytes_in    INTEGER NOT NULL DEFAULT 0,
  bytes_out   INTEGER NOT NULL DEFAULT 0,
  recorded    INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX node_sessions_node ON node_sessions(node_id, number);
CREATE INDEX node_sessions_open ON node_sessions(number) WHERE ended_at IS NULL;
CREATE INDEX node_sessions_ended ON node_sessions(ended_at) WHERE ended_at IS NOT NULL;
