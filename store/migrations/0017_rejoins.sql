-- Machines that start again with another script, so that they join the fleet again. The newest of each instance.
CREATE TABLE rejoins (
  account  TEXT NOT NULL,
  instance TEXT NOT NULL,
  tenant   TEXT NOT NULL,
  state    TEXT NOT NULL, -- asked, joined, failed
  token    TEXT NOT NULL, -- id of the one in the script
  node_id  TEXT NOT NULL, -- '' none yet
  why      TEXT NOT NULL,
  asked_by TEXT NOT NULL,
  asked_at INTEGER NOT NULL,
  ended_at INTEGER,
  PRIMARY KEY (account, instance)
) STRICT, WITHOUT ROWID;
