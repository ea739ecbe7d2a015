-- By how many milliseconds the end of each was taken earlier because the clock was set back. Where the clock turns out to have been
-- behind, and not ahead before, that is given back.
ALTER TABLE certificates ADD COLUMN set_back INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tokens ADD COLUMN set_back INTEGER NOT NULL DEFAULT 0;
ALTER TABLE accounts ADD COLUMN set_back INTEGER NOT NULL DEFAULT 0;
CREATE INDEX certificates_set_back ON certificates(set_back) WHERE set_back > 0;
CREATE INDEX tokens_set_back ON tokens(set_back) WHERE set_back > 0;
CREATE INDEX accounts_set_back ON accounts(set_back) WHERE set_back > 0;
