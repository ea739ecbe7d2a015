-- Who has which GPUs until when, and what that rests on.

ALTER TABLE nodes ADD COLUMN profile TEXT; -- the one firmware profile that the node has; NULL: none
CREATE INDEX nodes_profile ON nodes(profile) WHERE profile IS NOT NULL;

-- Profiles beside those that are built in.
CREATE TABLE profiles (
  name       TEXT NOT NULL PRIMARY KEY,
  body       TEXT NOT NULL, -- JSON
  updated_at INTEGER NOT NULL,
  updated_by TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- What runs of checks found, the newest of each node.
CREATE TABLE evidence (
  number  INTEGER PRIMARY KEY, -- in the order in which they came
  task    TEXT NOT NULL UNIQUE, -- that looked
  node_id TEXT NOT NULL,
  profile TEXT NOT NULL, -- for which it was judged; '' none
  boot_id TEXT NOT NULL,
  at      INTEGER NOT NULL,
  digest  TEXT NOT NULL, -- of the stable facts
  ready   INTEGER NOT NULL, -- 1: it shows all that the profile asks for
  accept  INTEGER NOT NULL, -- 1: it is an acceptance too
  current INTEGER NOT NULL, -- 1: it is what the node is now
  body    TEXT NOT NULL -- JSON; last: it is long, and claims read only what is before it
) STRICT;
CREATE INDEX evidence_node ON evidence(node_id, number);
CREATE INDEX evidence_accept ON evidence(node_id, number) WHERE accept = 1;
CREATE UNIQUE INDEX evidence_current ON evidence(node_id) WHERE current = 1;

-- The parts of nodes that can be allocated. Whether one is taken follows from the holds of its units.
CREATE TABLE node_resource_slots (
  id         TEXT NOT NULL PRIMARY KEY,
  node_id    TEXT NOT NULL,
  shape      TEXT NOT NULL,
  model      TEXT NOT NULL,
  digest     TEXT NOT NULL, -- of the evidence that proposes it
  decision   TEXT NOT NULL, -- proposed, approved, disabled
  reason     TEXT NOT NULL, -- why it was decided so
  decided_by TEXT NOT NULL,
  decided_at INTEGER,
  gone       INTEGER NOT NULL, -- 1: the evidence of now does not propose it, and it is here for its holds
  units      TEXT NOT NULL  -- JSON: [[key, UUID], ...]; a key is PCI, or PCI/UUID of a part of the card
) STRICT, WITHOUT ROWID;
CREATE INDEX node_resource_slots_node ON node_resource_slots(node_id, id);

-- Slots of the nodes that a selector names are approved when they are proposed.
CREATE TABLE slot_rules (
  name       TEXT NOT NULL PRIMARY KEY,
  selector   TEXT NOT NULL,
  shape      TEXT NOT NULL, -- '' any
  created_at INTEGER NOT NULL,
  created_by TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- How many units a tenant may have at once.
CREATE TABLE quotas (
  tenant TEXT NOT NULL PRIMARY KEY,
  gpus   INTEGER NOT NULL,
  set_at INTEGER NOT NULL,
  set_by TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE allocations (
  number     INTEGER PRIMARY KEY AUTOINCREMENT, -- in the order of asking
  id         TEXT NOT NULL UNIQUE,
  owner      TEXT NOT NULL,
  tenant     TEXT NOT NULL,
  sku        TEXT NOT NULL,
  wish       TEXT NOT NULL, -- JSON
  user       TEXT NOT NULL, -- JSON; '' none
  priority   INTEGER NOT NULL,
  note       TEXT NOT NULL,
  ttl_ms     INTEGER NOT NULL,
  state      TEXT NOT NULL, -- waiting, allocated, releasing, released
  created_at INTEGER NOT NULL,
  claimed_at INTEGER,
  ends_at    INTEGER,
  ended_at   INTEGER, -- when it was released or expired
  ended_why  TEXT NOT NULL DEFAULT '',
  warned     INTEGER NOT NULL DEFAULT 0 -- 1: its owner was told of ends_at
) STRICT;
CREATE INDEX allocations_queue ON allocations(priority DESC, number) WHERE state = 'waiting';
CREATE INDEX allocations_end ON allocations(ends_at) WHERE state = 'allocated';
CREATE INDEX allocations_live ON allocations(number) WHERE state <> 'released';
CREATE INDEX allocations_owner ON allocations(owner, number);
CREATE INDEX allocations_tenant ON allocations(tenant, number);
CREATE INDEX allocations_released ON allocations(ended_at) WHERE state = 'released';

-- The units of allocations. One that was freed stays as a record of who had it; no unit has two that are not.
CREATE TABLE holds (
  allocation TEXT NOT NULL,
  node_id    TEXT NOT NULL,
  unit       TEXT NOT NULL, -- its key
  uuid       TEXT NOT NULL, -- as it was claimed
  slot_id    TEXT NOT NULL,
  tenant     TEXT NOT NULL, -- of the allocation
  state      TEXT NOT NULL, -- held, cleaning, blocked
  reason     TEXT NOT NULL DEFAULT '', -- why it is not clean
  next       TEXT NOT NULL DEFAULT '', -- what to do about that
  tries      INTEGER NOT NULL DEFAULT 0,
  try_at     INTEGER, -- when it is to be cleaned
  freed_at   INTEGER,
  PRIMARY KEY (allocation, node_id, unit)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX holds_unit ON holds(node_id, unit) WHERE freed_at IS NULL;
CREATE UNIQUE INDEX holds_uuid ON holds(uuid) WHERE freed_at IS NULL AND uuid <> '';
CREATE INDEX holds_tenant ON holds(tenant, freed_at) WHERE freed_at IS NULL; -- with freed_at, a count reads the index alone
CREATE INDEX holds_slot ON holds(slot_id) WHERE freed_at IS NULL;
CREATE INDEX holds_due ON holds(try_at) WHERE freed_at IS NULL AND state <> 'held';
CREATE INDEX holds_node ON holds(node_id, freed_at);

-- Tasks that an allocation asked for.
CREATE TABLE allocation_tasks (
  allocation TEXT NOT NULL,
  task       TEXT NOT NULL,
  node_id    TEXT NOT NULL,
  kind       TEXT NOT NULL,
  PRIMARY KEY (allocation, task)
) STRICT, WITHOUT ROWID;
