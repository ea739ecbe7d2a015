-- What watching over identities takes: renewals that do not come, recoveries after expiry, and the runs of an agent, of which
-- two at once give a copied identity away.

ALTER TABLE nodes ADD COLUMN recoveries INTEGER NOT NULL DEFAULT 0; -- certificates issued to an expired one

ALTER TABLE certificates ADD COLUMN recovery INTEGER NOT NULL DEFAULT 0; -- 1: issued to an expired one
ALTER TABLE certificates ADD COLUMN overdue_at INTEGER;                  -- when its renewal was found to be overdue

-- A renewal is due after two thirds of the lifetime and overdue a twentieth later: 43/60.
CREATE INDEX certificates_renewal ON certificates(issued_at + (not_after - issued_at) * 43 / 60)
  WHERE status = 'current' AND overdue_at IS NULL;
CREATE INDEX certificates_overdue ON certificates(not_after) WHERE status = 'current' AND overdue_at IS NOT NULL;

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
  PRIMARY KEY (node_id, run_id)
) STRICT, WITHOUT ROWID;
