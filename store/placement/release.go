package placement

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"muster/store"
	"muster/store/engine"
)

// States of a Hold that is not freed.
const (
	Held     = "held"
	Cleaning = "cleaning" // its allocation has ended, and nobody knows yet whether it is clean
	Blocked  = "blocked"  // it is not clean, or could not be looked at
)

// Hold is a unit that an allocation has, or had.
type Hold struct {
	Allocation string
	NodeID     string
	SlotID     string
	Unit       // as it was claimed
	State      string
	Reason     string     // why it is not clean
	Next       string     // what to do about that
	Tries      int        // to clean it
	TryAt      *time.Time // when it is to be cleaned; nil: it is held
	FreedAt    *time.Time // nil: it is not, and nobody else can have the unit
}

const holdArray = `json_array(h.allocation, h.node_id, h.slot_id, h.unit, h.uuid, h.state, h.reason, h.next, h.tries, h.try_at, h.freed_at)`

// storedHold is a Hold as the array that holdArray makes.
type storedHold Hold

// UnmarshalJSON reads the array.
func (s *storedHold) UnmarshalJSON(b []byte) error {
	var try, freed *int64
	err := json.Unmarshal(b, &[]any{&s.Allocation, &s.NodeID, &s.SlotID, &s.Key, &s.UUID, &s.State, &s.Reason, &s.Next, &s.Tries, &try,
		&freed})
	s.TryAt, s.FreedAt = maybe(try), maybe(freed)
	return err
}

func maybe(millis *int64) *time.Time {
	if millis == nil {
		return nil
	}
	at := time.UnixMilli(*millis).UTC()
	return &at
}

// readHolds reads a list of holds.
func readHolds(r *engine.Row) []Hold {
	var stored []storedHold
	r.Document(&stored)
	holds := make([]Hold, 0, len(stored))
	for _, s := range stored {
		holds = append(holds, Hold(s))
	}
	slices.SortFunc(holds, func(a, b Hold) int {
		return cmp.Or(strings.Compare(a.NodeID, b.NodeID), strings.Compare(a.Key, b.Key))
	})
	return holds
}

// Holds returns the holds of some nodes that are not freed, by node and unit; nil: of all nodes.
func (r Records) Holds(ctx context.Context, nodes []string) ([]Hold, error) {
	var where engine.Where
	where.And("h.freed_at IS NULL")
	if nodes != nil {
		where.And("h.node_id IN (SELECT value FROM json_each(?))", engine.JSON(nodes))
	}
	return engine.First(ctx, r.db, readHolds, engine.Do("SELECT json_group_array("+holdArray+") FROM holds h"+where.SQL(), where.Args...))
}

// Release ends an allocation.
type Release struct {
	ID      string
	Why     string
	At      time.Time
	Expired bool // only if its end is not after At, so that one that was extended meanwhile stays
}

// Release ends an allocation. If it waits, it is released at once. If it is allocated, its units must be cleaned from now on. ErrConflict
// if no such allocation is open, so a second call is harmless.
func (r Records) Release(ctx context.Context, rel Release, events ...store.Event) error {
	which := "id = ? AND (state = 'waiting' OR state = 'allocated')"
	args := []any{rel.ID}
	if rel.Expired {
		which += " AND ends_at <= ?"
		args = append(args, engine.Millis(rel.At))
	}
	at := engine.Millis(rel.At)
	end := engine.In("allocations", which, args...).Update(
		"state = CASE state WHEN 'waiting' THEN 'released' ELSE 'releasing' END, ended_at = ?, ended_why = ?", at, rel.Why)
	return r.db.Change(ctx, append(end,
		engine.Do("UPDATE holds SET state = 'cleaning', try_at = ? WHERE allocation = ? AND freed_at IS NULL", at, rel.ID)), events...)
}

// Work is the cleaning of one node after one allocation.
type Work struct {
	Allocation string
	NodeID     string
	Units      []Unit // with the UUIDs of what is at these addresses now, where the evidence says that
	Tries      int    // before this one
}

// longest is how far ahead the next try may be. One that is further ahead was planned by a clock that was wrong.
const longest = 24 * time.Hour

// dueNow is true of the units that are to be cleaned. Its parameters are times.
const dueNow = "freed_at IS NULL AND state <> 'held' AND (try_at <= ? OR try_at > ?)"

func dueArgs(now time.Time) []any {
	return []any{engine.Millis(now), engine.Millis(now.Add(longest))}
}

// Due returns the cleanings that are due now, by allocation and node.
func (r Records) Due(ctx context.Context, now time.Time) ([]Work, error) {
	const unit = `json_array(unit, coalesce((SELECT u.value ->> 1 FROM node_resource_slots s, json_each(s.units) u
		WHERE s.id = h.slot_id AND u.value ->> 0 = h.unit), uuid))`
	return engine.All(ctx, r.db, func(r *engine.Row) Work {
		w := Work{Allocation: r.Text(), NodeID: r.Text(), Tries: int(r.Number())}
		w.Units = readUnits(r)
		return w
	}, engine.Do("SELECT allocation, node_id, max(tries), json_group_array("+unit+") FROM holds h WHERE "+dueNow+
		" GROUP BY allocation, node_id ORDER BY allocation, node_id", dueArgs(now)...))
}

// Try says that a cleaning is about to be asked for, and when it is asked for again if no answer comes: within a day. ErrConflict if it
// is not due.
func (r Records) Try(ctx context.Context, w Work, now, again time.Time, events ...store.Event) error {
	due := engine.In("holds", "allocation = ? AND node_id = ? AND "+dueNow, append([]any{w.Allocation, w.NodeID}, dueArgs(now)...)...)
	return r.db.Change(ctx, due.Update("tries = tries + 1, try_at = ?", engine.Millis(again)), events...)
}

// Obstacle is why a unit is not clean.
type Obstacle struct {
	Unit   string // its key
	Reason string
	Next   string // what to do
}

// unclean is true of what is not freed of an allocation that has ended, on one node.
const unclean = "allocation = ? AND node_id = ? AND freed_at IS NULL AND state <> 'held'"

// Block says what keeps units of an ended allocation from being freed, and when that is tried again: within a day. ErrConflict if it has
// nothing on the node that is to be cleaned.
func (r Records) Block(ctx context.Context, allocation, nodeID string, left []Obstacle, again time.Time, events ...store.Event) error {
	rows := make([][3]string, 0, len(left))
	for _, o := range left {
		rows = append(rows, [3]string{o.Unit, o.Reason, o.Next})
	}
	return r.db.Change(ctx, []engine.Statement{
		engine.Guard("EXISTS(SELECT 1 FROM holds WHERE "+unclean+")", allocation, nodeID),
		engine.Do("UPDATE holds SET state = 'blocked', reason = b.value ->> 1, next = b.value ->> 2, try_at = ? FROM json_each(?) b WHERE "+
			"unit = b.value ->> 0 AND "+unclean, engine.Millis(again), engine.JSON(rows), allocation, nodeID),
	}, events...)
}

// Clean frees units of an ended allocation, which are named by their keys: exactly these are clean. When the allocation has no units left,
// it is released. ErrConflict if it has nothing on the node that is to be cleaned.
func (r Records) Clean(ctx context.Context, allocation, nodeID string, units []string, at time.Time, events ...store.Event) error {
	return r.db.Change(ctx, []engine.Statement{
		engine.Guard("EXISTS(SELECT 1 FROM holds WHERE "+unclean+")", allocation, nodeID),
		engine.Do("UPDATE holds SET freed_at = ?, reason = '', next = '' WHERE "+unclean+" AND unit IN (SELECT value FROM json_each(?))",
			engine.Millis(at), allocation, nodeID, engine.JSON(units)),
		engine.Do(`UPDATE allocations SET state = 'released' WHERE id = ?
			AND NOT EXISTS(SELECT 1 FROM holds WHERE allocation = ? AND freed_at IS NULL)`, allocation, allocation),
		dropGone(nodeID),
	}, events...)
}

// Hasten makes the gateway look again now at the units of an allocation that could not be cleaned.
func (r Records) Hasten(ctx context.Context, allocation string, now time.Time) error {
	return r.db.Change(ctx, []engine.Statement{engine.Do(
		"UPDATE holds SET try_at = ? WHERE allocation = ? AND freed_at IS NULL AND state = 'blocked'", engine.Millis(now), allocation)})
}

// empty is true of a node on which nothing is installed any more: no agent makes a node commissioned or ready.
const empty = "(retired_at IS NOT NULL OR state IN ('commissioned', 'ready'))"

// Stranded returns the nodes that still have holds although nothing is installed on them, or slots although they are retired, so that
// FreeNode is due.
func (r Records) Stranded(ctx context.Context) ([]string, error) {
	return engine.All(ctx, r.db, (*engine.Row).Text, engine.Do("SELECT id FROM nodes WHERE "+empty+` AND id IN
		(SELECT node_id FROM holds WHERE freed_at IS NULL)
		OR retired_at IS NOT NULL AND id IN (SELECT node_id FROM node_resource_slots) ORDER BY id`))
}

// FreeNode frees all that is held of a node on which nothing is installed any more, because the machine is given back. A retired one loses
// its slots. Allocations that have nothing else are released. ErrConflict if the node is in another state.
func (r Records) FreeNode(ctx context.Context, nodeID, why string, at time.Time, events ...store.Event) error {
	return r.db.Change(ctx, []engine.Statement{
		engine.Guard("EXISTS(SELECT 1 FROM nodes WHERE id = ? AND "+empty+")", nodeID),
		engine.Do(`UPDATE allocations SET state = 'released', ended_at = coalesce(ended_at, ?),
			ended_why = CASE WHEN ended_at IS NULL THEN ? ELSE ended_why END
			WHERE id IN (SELECT allocation FROM holds WHERE node_id = ? AND freed_at IS NULL)
			AND NOT EXISTS(SELECT 1 FROM holds h WHERE h.allocation = allocations.id AND h.node_id <> ? AND h.freed_at IS NULL)`,
			engine.Millis(at), why, nodeID, nodeID),
		engine.Do("UPDATE holds SET freed_at = ? WHERE node_id = ? AND freed_at IS NULL", engine.Millis(at), nodeID),
		engine.Do("DELETE FROM node_resource_slots WHERE node_id IN (SELECT id FROM nodes WHERE id = ? AND retired_at IS NOT NULL)", nodeID),
		outdate(nodeID),
	}, events...)
}
