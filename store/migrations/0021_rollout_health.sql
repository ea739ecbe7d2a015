-- How a node does with a release after it took it is measured against what was before: how often its agent had crashed when it committed,
-- and how much memory it took. tried_at is since when findings may come from the release. why says what is not well.
ALTER TABLE rollout_nodes ADD COLUMN tried_at INTEGER;
ALTER TABLE rollout_nodes ADD COLUMN crashes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE rollout_nodes ADD COLUMN memory INTEGER NOT NULL DEFAULT 0; -- KiB; 0: not known
ALTER TABLE rollout_nodes ADD COLUMN why TEXT NOT NULL DEFAULT '';
