-- Machines that are rented: accounts with companies, what they show and charge, until when somebody pays, and what is being rented.
-- Money is in millionths of a dollar. Prices and limits are an hour's.

CREATE TABLE providers ( -- accounts
  name       TEXT NOT NULL PRIMARY KEY,
  kind       TEXT NOT NULL,
  tenant     TEXT NOT NULL,
  url        TEXT NOT NULL,
  ssh_key    TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  created_by TEXT NOT NULL,
  synced_at  INTEGER, -- of the last complete view; NULL: there was none
  failed_at  INTEGER, -- since when there is none; NULL: it works
  error      TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;

-- What the last complete views show. Their keys are in the table secrets.
CREATE TABLE provider_instances (
  account  TEXT NOT NULL,
  id       TEXT NOT NULL,
  tenant   TEXT NOT NULL, -- of the rental that it is, else of the account
  name     TEXT NOT NULL,
  state    TEXT NOT NULL,
  price    INTEGER, -- charged now; NULL: not known, here and below
  running  INTEGER, -- charged while it runs
  storage  INTEGER, -- charged while it is stopped
  first_at INTEGER NOT NULL,
  missing  INTEGER NOT NULL DEFAULT 0, -- views in a row that do not have it
  seen_at  INTEGER, -- while it is missing: of the last view that had it
  gone_at  INTEGER, -- since when the company is known to have it no longer
  start_at INTEGER, -- when it was last asked to start, until the company shows what has come of that: till then it counts as one that runs
  body     TEXT NOT NULL, -- JSON; last: it is long
  PRIMARY KEY (account, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX provider_instances_tenant ON provider_instances(tenant) WHERE gone_at IS NULL;
CREATE INDEX provider_instances_name ON provider_instances(name) WHERE gone_at IS NULL;
CREATE INDEX provider_instances_gone ON provider_instances(gone_at) WHERE gone_at IS NOT NULL;

-- What is wrong between the fleet and a company.
CREATE TABLE provider_findings (
  account  TEXT NOT NULL,
  instance TEXT NOT NULL, -- '' it is about the account
  kind     TEXT NOT NULL,
  since    INTEGER NOT NULL,
  PRIMARY KEY (account, instance, kind)
) STRICT, WITHOUT ROWID;

-- What machines may cost an hour.
CREATE TABLE spending_limits (
  of       TEXT NOT NULL, -- account, tenant
  name     TEXT NOT NULL,
  per_hour INTEGER NOT NULL,
  set_at   INTEGER NOT NULL,
  set_by   TEXT NOT NULL,
  PRIMARY KEY (of, name)
) STRICT, WITHOUT ROWID;

-- Until when somebody has decided to pay for a machine.
CREATE TABLE machine_leases (
  account    TEXT NOT NULL,
  instance   TEXT NOT NULL,
  tenant     TEXT NOT NULL,
  owner      TEXT NOT NULL,
  state      TEXT NOT NULL, -- live, draining, ending, ended
  act        TEXT NOT NULL, -- at the end: stop, destroy, keep
  why        TEXT NOT NULL,
  node_id    TEXT NOT NULL,
  rental     TEXT NOT NULL, -- '' none
  ends_at    INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  idle_ms    INTEGER, -- it ends too when the machine is idle for so long; NULL: it does not
  tries      INTEGER NOT NULL,
  try_at     INTEGER,
  ended_at   INTEGER,
  drained_at INTEGER,
  asked_at   INTEGER,
  drained    INTEGER NOT NULL, -- 1: its node was drained for it
  warned     INTEGER NOT NULL, -- 1: its owner was told of ends_at
  version    INTEGER NOT NULL, -- of this row: each write adds one
  PRIMARY KEY (account, instance)
) STRICT, WITHOUT ROWID;
CREATE INDEX machine_leases_live ON machine_leases(account, instance) WHERE state <> 'ended';
CREATE INDEX machine_leases_ended ON machine_leases(ended_at) WHERE state = 'ended';

-- Requests for machines.
CREATE TABLE rental_requests (
  number     INTEGER PRIMARY KEY AUTOINCREMENT, -- in the order of asking
  id         TEXT NOT NULL UNIQUE,
  account    TEXT NOT NULL,
  tenant     TEXT NOT NULL,
  owner      TEXT NOT NULL,
  state      TEXT NOT NULL, -- renting, done, failed
  want       TEXT NOT NULL, -- JSON
  why        TEXT NOT NULL,
  count      INTEGER NOT NULL, -- machines that are wanted
  created_at INTEGER NOT NULL,
  done_at    INTEGER,
  allocation TEXT NOT NULL -- that it is for; '' none
) STRICT;
CREATE INDEX rental_requests_live ON rental_requests(number) WHERE state = 'renting';
CREATE INDEX rental_requests_tenant ON rental_requests(tenant, number);
CREATE INDEX rental_requests_done ON rental_requests(done_at) WHERE state <> 'renting';

-- The machines of requests. One that has failed or ended stays as a record of what was rented.
CREATE TABLE rentals (
  id         TEXT NOT NULL PRIMARY KEY,
  request    TEXT NOT NULL,
  number     INTEGER NOT NULL, -- its place in the request
  account    TEXT NOT NULL,
  tenant     TEXT NOT NULL,
  state      TEXT NOT NULL, -- intended, booting, checking, ready, failed, ended
  offer      TEXT NOT NULL, -- JSON
  host       TEXT NOT NULL,
  instance   TEXT NOT NULL, -- '' there is none yet
  token      TEXT NOT NULL, -- id of the one that it joins with
  node_id    TEXT NOT NULL,
  why        TEXT NOT NULL,
  price      INTEGER NOT NULL CHECK (price > 0), -- 0 would pass every limit
  created_at INTEGER NOT NULL,
  asked_at   INTEGER,
  booted_at  INTEGER,
  ready_at   INTEGER,
  ended_at   INTEGER,
  version    INTEGER NOT NULL -- of this row: each write adds one
) STRICT, WITHOUT ROWID;
CREATE INDEX rentals_request ON rentals(request, number);
CREATE UNIQUE INDEX rentals_place ON rentals(request, number) WHERE state <> 'failed' AND state <> 'ended'; -- none is rented twice
CREATE UNIQUE INDEX rentals_instance ON rentals(account, instance) WHERE instance <> '';
CREATE INDEX rentals_live ON rentals(account) WHERE state <> 'failed' AND state <> 'ended';

-- Hosts of companies that did not come up, or did not pass.
CREATE TABLE bad_hosts (
  kind  TEXT NOT NULL,
  host  TEXT NOT NULL,
  why   TEXT NOT NULL,
  at    INTEGER NOT NULL,
  until INTEGER NOT NULL,
  PRIMARY KEY (kind, host)
) STRICT, WITHOUT ROWID;

-- What was charged for an instance on one day, by the gateway's clock.
CREATE TABLE provider_costs (
  day      INTEGER NOT NULL, -- whole days since 1970, UTC
  account  TEXT NOT NULL,
  instance TEXT NOT NULL,
  tenant   TEXT NOT NULL,
  node_id  TEXT NOT NULL, -- '' none
  seconds  INTEGER NOT NULL, -- for which it was charged
  billed   INTEGER NOT NULL, -- all of the money
  used     INTEGER NOT NULL, -- of that, the share of GPUs that were seen at work
  idle     INTEGER NOT NULL, -- of that, the share of GPUs that were seen idle
  silent   INTEGER NOT NULL, -- of that, while its node was not heard
  storage  INTEGER NOT NULL, -- of that, while it was stopped
  PRIMARY KEY (day, account, instance)
) STRICT, WITHOUT ROWID;
