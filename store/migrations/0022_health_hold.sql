-- How long a thing must be bad before a rule finds it, in milliseconds; 0: as the rule says.
ALTER TABLE health_rules ADD COLUMN held INTEGER NOT NULL DEFAULT 0;
