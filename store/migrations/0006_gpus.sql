-- How many GPUs a node has is the gateway's to remember: nodes.gpus_expected is the highest number that was ever seen, or what the token
-- or a person said. A person's word is not raised by what is seen.
ALTER TABLE nodes ADD COLUMN gpus_said INTEGER NOT NULL DEFAULT 0; -- 1: gpus_expected is a person's word

-- What stands behind a reason, for a person: which GPU is gone, what a device said.
ALTER TABLE reasons ADD COLUMN detail TEXT NOT NULL DEFAULT '';
