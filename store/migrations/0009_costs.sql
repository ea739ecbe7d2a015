-- What was seen of a node on one day, by the gateway's clock. Money is in millionths of the currency of the prices.
CREATE TABLE costs (
  day       INTEGER NOT NULL, -- whole days since 1970, UTC
  node_id   TEXT NOT NULL,
  watched   INTEGER NOT NULL, -- seconds for which its GPUs were known
  idle      INTEGER NOT NULL, -- seconds of idle GPUs, each counted by itself
  idle_cost INTEGER NOT NULL, -- the share of the price that the idle GPUs had
  cost      INTEGER NOT NULL, -- the price, while it was heard from
  measured  INTEGER NOT NULL, -- of that, while it was known what its GPUs did
  price     INTEGER,          -- an hour, as it was last; NULL: none
  PRIMARY KEY (day, node_id)  -- the rows of one day lie together: a round of all nodes writes few pages
) STRICT, WITHOUT ROWID;
