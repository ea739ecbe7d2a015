package placement

import (
	"context"
	"time"

	"muster/store"
	"muster/store/engine"
)

// Pick is a slot that is to be claimed, as it was when it was chosen.
type Pick struct {
	SlotID string
	Digest string
}

// Claim asks for slots for an allocation.
type Claim struct {
	Allocation string
	New        *Allocation // it is made in the same batch, so that nothing is left of it if the claim is lost; nil: it is on record
	Slots      []Pick
	Want       int // units that the slots have together
	At         time.Time
	EndsAt     time.Time
}

// take holds every unit of the slots whose conditions are all true. Each element of the first JSON is a Pick. A card that is held whole
// keeps its parts from being held, and the reverse. A GPU that is held is not held again because it is at another address now, or on a
// machine that has joined a second time. (That a unit is not held twice, its index says.)
const take = `INSERT INTO holds(allocation, node_id, unit, uuid, slot_id, tenant, state)
	SELECT a.id, s.node_id, u.value ->> 0, u.value ->> 1, s.id, a.tenant, 'held'
	FROM allocations a
	CROSS JOIN json_each(?) p
	CROSS JOIN node_resource_slots s ON s.id = p.value ->> 0 AND s.digest = p.value ->> 1 AND s.decision = 'approved' AND s.gone = 0
	CROSS JOIN evidence e ON e.node_id = s.node_id AND e.current = 1 AND e.ready = 1 AND e.digest = s.digest
	CROSS JOIN nodes n ON n.id = s.node_id AND n.state = 'active'
	CROSS JOIN json_each(s.units) u
	WHERE a.id = ? AND NOT EXISTS(SELECT 1 FROM holds h WHERE h.uuid = u.value ->> 1 AND h.freed_at IS NULL AND h.uuid <> '') AND NOT EXISTS(
		SELECT 1 FROM holds h WHERE h.node_id = s.node_id AND h.freed_at IS NULL AND (h.unit || '/' = substr(u.value ->> 0, 1, length(h.unit) + 1)
			OR u.value ->> 0 || '/' = substr(h.unit, 1, length(u.value ->> 0) + 1)))`

// overQuota is true of an allocation whose tenant has more than it may.
const overQuota = `EXISTS(SELECT 1 FROM quotas q WHERE q.tenant = (SELECT tenant FROM allocations WHERE id = ?)
	AND q.gpus < (SELECT count(*) FROM holds h WHERE h.tenant = q.tenant AND h.freed_at IS NULL))`

// Claim gives an allocation all of the slots, or nothing. ErrConflict if the allocation does not wait (with New: if its id is taken), if
// one of the units is taken, if a slot is not approved or was chosen for other evidence, if a node's evidence is not current or not ready,
// if a node is in another state than active, or if the tenant would have more than its quota.
func (r Records) Claim(ctx context.Context, c Claim, events ...store.Event) error {
	var statements []engine.Statement
	if c.New != nil {
		statements = append(statements, c.New.insert())
	}
	picks := make([][2]string, 0, len(c.Slots))
	for _, p := range c.Slots {
		picks = append(picks, [2]string{p.SlotID, p.Digest})
	}
	return r.db.Change(ctx, append(statements,
		engine.Guard("EXISTS(SELECT 1 FROM allocations WHERE id = ? AND state = 'waiting')", c.Allocation),
		engine.Do(take, engine.JSON(picks), c.Allocation),
		engine.Guard("? > 0 AND (SELECT count(*) FROM holds WHERE allocation = ?) = ?", int64(c.Want), c.Allocation, int64(c.Want)),
		engine.Guard("NOT "+overQuota, c.Allocation),
		engine.Do("UPDATE allocations SET state = 'allocated', claimed_at = ?, ends_at = ? WHERE id = ?",
			engine.Millis(c.At), engine.Millis(c.EndsAt), c.Allocation),
	), events...)
}
