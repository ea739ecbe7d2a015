-- What the rules of health have found and what is not cured yet. How severe a finding is stands with its rule, in the program.
CREATE TABLE findings (
  node_id TEXT NOT NULL,
  rule    TEXT NOT NULL,
  gpu     TEXT NOT NULL, -- its UUID; '' the finding is about the node
  since   INTEGER NOT NULL,
  text    TEXT NOT NULL,
  PRIMARY KEY (node_id, rule, gpu)
) STRICT, WITHOUT ROWID;

-- What operators said of rules, for the nodes that a selector names.
CREATE TABLE health_rules (
  rule     TEXT NOT NULL,
  selector TEXT NOT NULL,
  off      INTEGER NOT NULL,
  bound    TEXT NOT NULL, -- the limit, a decimal number; '' the rule's own
  set_at   INTEGER NOT NULL,
  set_by   TEXT NOT NULL,
  held     INTEGER NOT NULL DEFAULT 0, -- ms: how long a thing must be bad; 0: as the rule says
  PRIMARY KEY (rule, selector)
) STRICT, WITHOUT ROWID;
