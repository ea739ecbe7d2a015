-- The machines of MAAS, and what is being done with them.

-- The last complete view of its machines. A machine that a later view lacks stays, with gone_at.
CREATE TABLE maas_machines (
  system_id TEXT NOT NULL PRIMARY KEY,
  node_id   TEXT NOT NULL DEFAULT '', -- that it is; '' none
  kept_out  INTEGER NOT NULL DEFAULT 0, -- 1: a person has taken it out of muster
  status    INTEGER NOT NULL,
  since     INTEGER NOT NULL, -- since when it has been seen in this status
  gone_at   INTEGER, -- when a view lacked it first; NULL: it is there
  ended     TEXT NOT NULL DEFAULT '', -- JSON: how the last work ended; '' there was none
  acquired  TEXT NOT NULL DEFAULT '', -- agent name with which a work of this database acquired it; '' none did, or it was released since
  body      TEXT NOT NULL -- JSON: what MAAS showed
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX maas_machines_node ON maas_machines(node_id) WHERE node_id <> '';

CREATE TABLE maas_view (
  one       INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
  synced_at INTEGER NOT NULL -- when the last complete view began
) STRICT;

-- What muster means to do with machines: written before it is asked for, and read when an answer was lost.
CREATE TABLE maas_works (
  system_id TEXT NOT NULL PRIMARY KEY, -- one work at a time
  id        TEXT NOT NULL UNIQUE,
  version   INTEGER NOT NULL, -- a writer names the one that it read
  body      TEXT NOT NULL -- JSON
) STRICT, WITHOUT ROWID;
