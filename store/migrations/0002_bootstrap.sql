-- The script of each bootstrap token, frozen when the token is minted. It holds neither the fetch part nor the secret: whoever
-- presents them gets them filled in, so that nothing in this table can fetch or enrol. tokens.expires_at is when the token ends:
-- the first fetch makes that earlier.
CREATE TABLE bootstraps (
  token          TEXT NOT NULL PRIMARY KEY, -- tokens.id
  fetch_hash     TEXT NOT NULL, -- hex SHA-256 of the fetch part
  mode           TEXT NOT NULL,
  window_ms      INTEGER NOT NULL, -- how long the token lives from the first fetch on
  first_fetch_at INTEGER,
  script         TEXT NOT NULL,
  fetch_sha256   TEXT NOT NULL, -- of the script with the fetch part
  whole_sha256   TEXT NOT NULL, -- of the script with the whole token
  registry       TEXT NOT NULL DEFAULT '' -- that the frozen script logs in to: no other's credential may go to it
) STRICT;
