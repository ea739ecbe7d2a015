-- For how long the gateway's clock had not been set when it was last looked at. There is one row.
CREATE TABLE clock (
	one    INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
	at     INTEGER NOT NULL, -- milliseconds since 1970
	steady INTEGER NOT NULL  -- milliseconds
) STRICT;
