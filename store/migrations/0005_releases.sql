-- Builds of the agent that operators may point channels at. reference says where the content is: '' the repository of the gateway's own
-- agents, another repository of this registry, or host/repository. platforms is JSON, as a pointer has it.
CREATE TABLE releases (
  digest     TEXT NOT NULL PRIMARY KEY,
  version    TEXT NOT NULL,
  size       INTEGER NOT NULL,
  reference  TEXT NOT NULL,
  credential TEXT NOT NULL, -- name of the one that the other registry wants; '' none
  carried    INTEGER NOT NULL, -- 1: the gateway brought it
  created_at INTEGER NOT NULL,
  created_by TEXT NOT NULL,
  platforms  TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- What a channel points at. last is the highest number that was ever taken on it: pins take numbers too.
CREATE TABLE channels (
  channel    TEXT NOT NULL PRIMARY KEY,
  digest     TEXT NOT NULL,
  previous   TEXT NOT NULL, -- the release before this one; '' none
  seq        INTEGER NOT NULL,
  last       INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  updated_by TEXT NOT NULL,
  finished   INTEGER NOT NULL DEFAULT 0, -- 1: the present release has finished here
  reported   INTEGER NOT NULL DEFAULT 0 -- the highest number that nodes obeyed and a restored database lacks; above 0: no node moves
) STRICT, WITHOUT ROWID;

-- Signed pointers. A number of a channel is taken once.
CREATE TABLE pointers (
  channel    TEXT NOT NULL,
  seq        INTEGER NOT NULL,
  digest     TEXT NOT NULL,
  key_id     TEXT NOT NULL,
  own        INTEGER NOT NULL, -- 1: the gateway signed it
  signed_at  INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  signed_by  TEXT NOT NULL,
  envelope   TEXT NOT NULL, -- JSON
  PRIMARY KEY (channel, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX pointers_digest ON pointers(digest);

-- How a channel's pointer comes to its nodes. seq is the first number of its release on the channel in this rollout.
CREATE TABLE rollouts (
  number     INTEGER PRIMARY KEY,
  channel    TEXT NOT NULL,
  seq        INTEGER NOT NULL,
  digest     TEXT NOT NULL,
  plan       TEXT NOT NULL, -- JSON
  state      TEXT NOT NULL,
  why        TEXT NOT NULL,
  wave       INTEGER NOT NULL DEFAULT 0, -- the one that is under way, from 0
  forgiven   INTEGER NOT NULL DEFAULT 0, -- failed nodes of that wave that an operator has accepted
  wave_at    INTEGER NOT NULL,           -- when the wave began
  still_at   INTEGER,                    -- since when all of the wave's nodes are through
  created_at INTEGER NOT NULL,
  created_by TEXT NOT NULL,
  ended_at   INTEGER
) STRICT;
CREATE INDEX rollouts_channel ON rollouts(channel, number);
CREATE UNIQUE INDEX rollouts_open ON rollouts(channel) WHERE ended_at IS NULL;

CREATE TABLE rollout_nodes (
  rollout     INTEGER NOT NULL,
  node_id     TEXT NOT NULL,
  wave        INTEGER NOT NULL,
  state       TEXT NOT NULL,
  admitted_at INTEGER NOT NULL,
  changed_at  INTEGER NOT NULL,
  tried_at    INTEGER, -- since when findings may come from the release
  crashes     INTEGER NOT NULL DEFAULT 0, -- of its agent, when it committed
  memory      INTEGER NOT NULL DEFAULT 0, -- KiB, before; 0: not known
  why         TEXT NOT NULL DEFAULT '', -- what is not well
  PRIMARY KEY (rollout, node_id)
) STRICT, WITHOUT ROWID;

-- What a node last said of an update.
CREATE TABLE node_updates (
  node_id TEXT NOT NULL PRIMARY KEY,
  channel TEXT NOT NULL,
  digest  TEXT NOT NULL,
  about   INTEGER NOT NULL,
  phase   TEXT NOT NULL,
  code    TEXT NOT NULL,
  at      INTEGER NOT NULL,
  detail  TEXT NOT NULL,
  log     TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Nodes that do not follow their channel. digest '' holds the node where it is; else seq is the number of its own pointer on channel.
CREATE TABLE pins (
  node_id TEXT NOT NULL PRIMARY KEY,
  digest  TEXT NOT NULL,
  channel TEXT NOT NULL,
  seq     INTEGER NOT NULL,
  at      INTEGER NOT NULL,
  pinned_by TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX pins_digest ON pins(digest);
