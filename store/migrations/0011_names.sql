-- The name that the operator gave the node that joins with this token. Of a token that is bound to a node: that node's name when the
-- token was made, which its script asks for also if the node was renamed meanwhile. '' none.
ALTER TABLE tokens ADD COLUMN name TEXT NOT NULL DEFAULT '';
