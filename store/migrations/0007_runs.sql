-- Which run came after which is told by numbers, counted up with every heartbeat of the node: the clock may have been set meanwhile.
-- The runs so far are numbered as if one had ended before the next began: two that go on at once show it again soon.
ALTER TABLE runs ADD COLUMN first_beat INTEGER NOT NULL DEFAULT 0;  -- the number of its first heartbeat
ALTER TABLE runs ADD COLUMN last_beat INTEGER NOT NULL DEFAULT 0;   -- of its latest proof of life
ALTER TABLE runs ADD COLUMN before_beat INTEGER NOT NULL DEFAULT 0; -- of the one before that, 0: none

UPDATE runs SET first_beat = 2 * place - 1, last_beat = 2 * place, before_beat = 2 * place - 1
  FROM (SELECT node_id AS n, run_id AS r, row_number() OVER (PARTITION BY node_id ORDER BY first_at, run_id) AS place FROM runs) AS o
  WHERE runs.node_id = o.n AND runs.run_id = o.r;
