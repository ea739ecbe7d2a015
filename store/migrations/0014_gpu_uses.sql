-- Who has worked on which GPU. A row is one use without a long gap: of a GPU, by a user's program in a container, for an allocation.
CREATE TABLE gpu_uses (
  node_id    TEXT NOT NULL,
  since      INTEGER NOT NULL,
  gpu        TEXT NOT NULL, -- its UUID
  user       TEXT NOT NULL, -- on the node; '' not known, as in the next three
  program    TEXT NOT NULL,
  container  TEXT NOT NULL,
  allocation TEXT NOT NULL, -- that it worked for, or that had the GPU
  owner      TEXT NOT NULL, -- of the allocation
  until      INTEGER NOT NULL, -- when it was last seen
  memory_mib INTEGER, -- the most that was seen; NULL: not known
  PRIMARY KEY (node_id, since, gpu, user, program, container, allocation)
) STRICT, WITHOUT ROWID;
CREATE INDEX gpu_uses_until ON gpu_uses(until);
