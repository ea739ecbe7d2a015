-- What the gateway tells people about. subject is what the alert is about: a node, a channel, a tenant; at most one alert of a cause is
-- open for it.
CREATE TABLE alerts (
  id          TEXT NOT NULL PRIMARY KEY,
  cause       TEXT NOT NULL,
  subject     TEXT NOT NULL,
  node_id     TEXT NOT NULL, -- '' it is about no single node
  node_name   TEXT NOT NULL,
  tenant      TEXT NOT NULL, -- '' it is about the whole fleet
  severity    TEXT NOT NULL,
  text        TEXT NOT NULL,
  since       INTEGER NOT NULL, -- when the cause began
  fired_at    INTEGER NOT NULL,
  resolved_at INTEGER,
  members     TEXT NOT NULL  -- JSON: the ids of the nodes, where it is about many
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX alerts_open ON alerts(cause, subject) WHERE resolved_at IS NULL;
CREATE INDEX alerts_resolved ON alerts(resolved_at);

-- How far each receiver has been told of an alert. want and told are states of the alert; told '' nothing was told yet.
CREATE TABLE alert_deliveries (
  alert    TEXT NOT NULL,
  receiver TEXT NOT NULL,
  want     TEXT NOT NULL,
  told     TEXT NOT NULL,
  since    INTEGER NOT NULL, -- when the receiver was first to be told what it is to be told now
  tries    INTEGER NOT NULL, -- of that, that failed
  next_at  INTEGER NOT NULL, -- not before
  told_at  INTEGER,
  error    TEXT NOT NULL,    -- of the last try
  gave_up  INTEGER NOT NULL,
  PRIMARY KEY (alert, receiver)
) STRICT, WITHOUT ROWID;

-- Alerts that nobody is told of for a while. '' in a condition: any.
CREATE TABLE alert_silences (
  id         TEXT NOT NULL PRIMARY KEY,
  node_id    TEXT NOT NULL,
  node_name  TEXT NOT NULL,
  selector   TEXT NOT NULL,
  cause      TEXT NOT NULL,
  tenant     TEXT NOT NULL,
  reason     TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  created_by TEXT NOT NULL,
  ends_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- How the last tries to reach a receiver went. What a receiver is, with its address, is sealed among the secrets.
CREATE TABLE alert_receivers (
  name      TEXT NOT NULL PRIMARY KEY,
  sent_at   INTEGER, -- the last that was taken
  failed_at INTEGER,
  error     TEXT NOT NULL
) STRICT, WITHOUT ROWID;
