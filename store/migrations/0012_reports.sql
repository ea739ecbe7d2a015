-- When the node said what its row has of it beside last_seen, run_id, counter and skew_ms, which are newer; NULL: at last_seen.
ALTER TABLE liveness ADD COLUMN reported_at INTEGER;
