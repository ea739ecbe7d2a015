-- SQLite builds a table of its own for every IN of more than two values, here with every certificate that is written: a status is
-- compared with each instead. Nothing else changes, but for the last index: it finds what is kept of certificates that ended long ago.
CREATE TABLE certificates_new (
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
  overdue_at    INTEGER                     -- when its renewal was found to be overdue
) STRICT;
INSERT INTO certificates_new(fingerprint, node_id, enrolment_id, generation, status, key_hash, public_key, chain, not_before, not_after,
    issued_at, first_used_at, ended_at, recovery, overdue_at)
  SELECT fingerprint, node_id, enrolment_id, generation, status, key_hash, public_key, chain, not_before, not_after,
    issued_at, first_used_at, ended_at, recovery, overdue_at FROM certificates ORDER BY rowid;
DROP TABLE certificates;
ALTER TABLE certificates_new RENAME TO certificates;
CREATE INDEX certificates_node ON certificates(node_id);
CREATE UNIQUE INDEX certificates_live ON certificates(node_id, status) WHERE status IN ('current', 'pending');
CREATE INDEX certificates_renewal ON certificates(issued_at + (not_after - issued_at) * 43 / 60)
  WHERE status = 'current' AND overdue_at IS NULL;
CREATE INDEX certificates_overdue ON certificates(not_after) WHERE status = 'current' AND overdue_at IS NOT NULL;
CREATE INDEX certificates_ended ON certificates(ended_at) WHERE ended_at IS NOT NULL AND chain <> '';
