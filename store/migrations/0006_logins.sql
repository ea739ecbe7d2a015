-- Browsers that are logged in to the console. hash is the SHA-256 of the cookie, in hex: the cookie itself is kept nowhere.
CREATE TABLE sessions (
  hash       TEXT NOT NULL PRIMARY KEY,
  account    TEXT NOT NULL, -- id
  created_at INTEGER NOT NULL,
  seen_at    INTEGER NOT NULL,
  ends_at    INTEGER NOT NULL, -- however often it is used
  address    TEXT NOT NULL,
  browser    TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_account ON sessions(account);

-- Codes that log a browser in, once. hash is as above.
CREATE TABLE login_codes (
  hash       TEXT NOT NULL PRIMARY KEY,
  account    TEXT NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
