-- The registry that a frozen script logs in to: no other's credential may go to it, whatever the setting is by then. Scripts that
-- are there have it in the line REGISTRY='...'.
ALTER TABLE bootstraps ADD COLUMN registry TEXT NOT NULL DEFAULT '';
UPDATE bootstraps SET registry = substr(script, instr(script, char(10) || 'REGISTRY=''') + 11,
    instr(substr(script, instr(script, char(10) || 'REGISTRY=''') + 11), '''') - 1)
  WHERE instr(script, char(10) || 'REGISTRY=''') > 0;

-- Who made an account: as events name the actor, and, where that was an account, its id.
ALTER TABLE accounts ADD COLUMN created_by TEXT NOT NULL DEFAULT '';
ALTER TABLE accounts ADD COLUMN maker TEXT NOT NULL DEFAULT '';
