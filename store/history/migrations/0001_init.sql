-- Times are whole numbers of the row's own unit since 1970: minutes in raw, hours in minutes and due, days in hours and nodes. The rows of one
-- time lie together, so that a round of all nodes writes few pages, and the oldest rows free whole pages.

CREATE TABLE nodes (
	number INTEGER PRIMARY KEY AUTOINCREMENT, -- never given again: old rows may bear it
	id     TEXT    NOT NULL UNIQUE,
	seen   INTEGER NOT NULL                   -- the last day on which it had samples
) STRICT;

CREATE TABLE gpus (
	node   INTEGER NOT NULL,
	number INTEGER NOT NULL, -- from 1, for each node
	uuid   TEXT    NOT NULL,
	PRIMARY KEY (node, number),
	UNIQUE (node, uuid)
) STRICT, WITHOUT ROWID;

-- What one node said in one minute.
CREATE TABLE raw (
	start INTEGER NOT NULL,
	node  INTEGER NOT NULL,
	data  BLOB    NOT NULL,
	PRIMARY KEY (start, node)
) STRICT, WITHOUT ROWID;

-- The minutes of one hour of one node.
CREATE TABLE minutes (
	start INTEGER NOT NULL,
	node  INTEGER NOT NULL,
	data  BLOB    NOT NULL,
	PRIMARY KEY (start, node)
) STRICT, WITHOUT ROWID;

-- The hours of one day of one node.
CREATE TABLE hours (
	start INTEGER NOT NULL,
	node  INTEGER NOT NULL,
	data  BLOB    NOT NULL,
	PRIMARY KEY (start, node)
) STRICT, WITHOUT ROWID;

-- Hours whose raw samples are not yet, or not all, in minutes and hours. A row goes in the same batch that rolls its hour up.
CREATE TABLE due (
	start  INTEGER NOT NULL,
	node   INTEGER NOT NULL,
	writes INTEGER NOT NULL, -- of samples since the last roll-up: what was written meanwhile is rolled up once more
	PRIMARY KEY (start, node)
) STRICT, WITHOUT ROWID;
