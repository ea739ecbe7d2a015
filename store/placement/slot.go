package placement

import (
	"context"
	"strings"
	"time"

	"muster/store"
	"muster/store/engine"
)

// Unit is one GPU of a node, or one part of a divided one.
type Unit struct {
	Key  string // its PCI address; of a part: that of the card, "/", and the part's UUID
	UUID string
}

// PCI returns the address of the card.
func (u Unit) PCI() string {
	address, _, _ := strings.Cut(u.Key, "/")
	return address
}

// Decisions about a slot.
const (
	Proposed = "proposed" // nobody has decided
	Approved = "approved"
	Disabled = "disabled" // a person said so; no evidence and no rule changes that
)

// ReasonDrift is the reason of a slot that was approved for other evidence than the present one.
const ReasonDrift = "drift"

// Slot is a part of a node that can be allocated.
type Slot struct {
	ID        string     `sql:"id"`
	NodeID    string     `sql:"node_id"`
	Shape     string     `sql:"shape"`
	Model     string     `sql:"model"`
	Digest    string     `sql:"digest"` // of the evidence that proposes it
	Decision  string     `sql:"decision"`
	Reason    string     `sql:"reason"`
	DecidedBy string     `sql:"decided_by"`
	DecidedAt *time.Time `sql:"decided_at"`
	Gone      bool       `sql:"gone"` // the evidence of now does not propose it, and it is on record for its holds; it takes no claims
	Units     []Unit
}

// Proposal is a slot that evidence gives.
type Proposal struct {
	ID    string
	Shape string
	Model string
	Units []Unit
	Rule  string // who approves it at once, if the evidence is ready; "": nobody
}

// SlotQuery selects slots. A nil list does not restrict the result.
type SlotQuery struct{ IDs, Nodes []string }

// Slots returns the slots that match a query, by node and id.
func (r Records) Slots(ctx context.Context, q SlotQuery) ([]Slot, error) {
	var where engine.Where
	if q.IDs != nil {
		where.And("id IN (SELECT value FROM json_each(?))", engine.JSON(q.IDs))
	}
	if q.Nodes != nil {
		where.And("node_id IN (SELECT value FROM json_each(?))", engine.JSON(q.Nodes))
	}
	return engine.All(ctx, r.db, readSlot, engine.Do("SELECT "+slots.Columns+", units FROM node_resource_slots"+where.SQL()+
		"ORDER BY node_id, id", where.Args...))
}

var slots = engine.NewTable[Slot]("node_resource_slots", "", "")

func readSlot(r *engine.Row) Slot {
	s := slots.Read(r)
	s.Units = readUnits(r)
	return s
}

// readUnits reads a list of pairs: key and UUID.
func readUnits(r *engine.Row) []Unit {
	var pairs [][2]string
	r.Document(&pairs)
	units := make([]Unit, 0, len(pairs))
	for _, p := range pairs {
		units = append(units, Unit{Key: p[0], UUID: p[1]})
	}
	return units
}

// propose makes a node's slots those that its new evidence gives. A decision about a slot stays while the digest is the same. With another
// one an approval ends, for it was about another machine; holds stay. A rule approves what was never approved: what has changed since, and
// what a
// restore has left to a person, it does not. A slot that is not proposed any more goes, unless it is held.
func propose(e Evidence, slots []Proposal) []engine.Statement {
	ids := make([]string, 0, len(slots))
	rows, ruled := [][]any{}, [][2]string{}
	for _, p := range slots {
		pairs := make([][2]string, 0, len(p.Units))
		for _, u := range p.Units {
			pairs = append(pairs, [2]string{u.Key, u.UUID})
		}
		ids = append(ids, p.ID)
		rows = append(rows, []any{p.ID, p.Shape, p.Model, pairs})
		if p.Rule != "" && e.Ready {
			ruled = append(ruled, [2]string{p.ID, p.Rule})
		}
	}
	return []engine.Statement{
		engine.Do(`UPDATE node_resource_slots SET decision = 'proposed', reason = 'drift', decided_by = '', decided_at = NULL
			WHERE node_id = ? AND decision = 'approved' AND (digest <> ? OR gone = 1)`, e.NodeID, e.Digest),
		engine.Do(`INSERT INTO node_resource_slots(id, node_id, shape, model, digest, decision, reason, decided_by, gone, units)
			SELECT p.value ->> 0, ?, p.value ->> 1, p.value ->> 2, ?, 'proposed', '', '', 0, p.value -> 3 FROM json_each(?) p WHERE true
			ON CONFLICT DO UPDATE SET shape = excluded.shape, model = excluded.model, digest = excluded.digest, gone = 0,
				units = excluded.units`, e.NodeID, e.Digest, engine.JSON(rows)),
		engine.Do(`UPDATE node_resource_slots SET decision = 'approved', reason = '', decided_by = p.value ->> 1, decided_at = ?
			FROM json_each(?) p WHERE node_resource_slots.id = p.value ->> 0 AND decision = 'proposed' AND reason = ''`,
			engine.Millis(e.At), engine.JSON(ruled)),
		engine.Do("UPDATE node_resource_slots SET gone = 1 WHERE node_id = ? AND id NOT IN (SELECT value FROM json_each(?))",
			e.NodeID, engine.JSON(ids)),
		dropGone(e.NodeID),
	}
}

// dropGone deletes the slots of a node that were on record only for holds that they have no longer.
func dropGone(nodeID string) engine.Statement {
	return engine.Do(`DELETE FROM node_resource_slots WHERE node_id = ? AND gone = 1
		AND NOT EXISTS(SELECT 1 FROM holds h WHERE h.slot_id = node_resource_slots.id AND h.freed_at IS NULL)`, nodeID)
}

// Decision approves or disables slots.
type Decision struct {
	IDs    []string // store.Piece at most
	To     string   // Approved or Disabled
	Reason string
	By     string
	At     time.Time
}

// Decide approves or disables those of the slots that may be changed, and returns their ids. A slot is approved only if the node's current
// evidence proposes it and shows everything that the profile asks for. ErrConflict if nothing changes.
func (r Records) Decide(ctx context.Context, d Decision, events ...store.Event) (changed []string, err error) {
	which := "id IN (SELECT value FROM json_each(?)) AND decision <> ?"
	if d.To == Approved {
		which += ` AND gone = 0 AND EXISTS(SELECT 1 FROM evidence e WHERE e.node_id = node_resource_slots.node_id AND e.current = 1
			AND e.ready = 1 AND e.digest = node_resource_slots.digest)`
	}
	ids := engine.JSON(d.IDs)
	err = r.db.Change(ctx, engine.In("node_resource_slots", which, ids, d.To).Update(
		"decision = ?, reason = ?, decided_by = ?, decided_at = ?", d.To, d.Reason, d.By, engine.Millis(d.At)), events...)
	if err != nil {
		return nil, err
	}
	return engine.All(ctx, r.db, (*engine.Row).Text, engine.Do(`SELECT id FROM node_resource_slots WHERE id IN (SELECT value FROM json_each(?))
		AND decision = ? AND decided_by = ? AND decided_at = ? ORDER BY id`, ids, d.To, d.By, engine.Millis(d.At)))
}
