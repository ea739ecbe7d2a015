-- A node's rows are counted whenever some are written.
CREATE INDEX gpus_node ON gpus(node_id, last_seen);
