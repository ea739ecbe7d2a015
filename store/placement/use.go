package placement

import (
	"context"
	"time"

	"muster/store/engine"
)

// MostUses is how many uses of GPUs are kept of one node: those that were seen last. A node can send any, and must not fill the database.
const MostUses = 1000

// UseKey tells uses of GPUs apart.
type UseKey struct {
	NodeID     string
	GPU        string // UUID
	User       string // on the node; empty: not known, as in the next two
	Program    string
	Container  string
	Allocation string // that it works for, or that has the GPU; empty: none
}

// Use is one use of a GPU without a long gap.
type Use struct {
	UseKey
	Owner        string // of the allocation; empty: not known
	Since, Until time.Time
	MemoryMiB    *int64 // the most that was seen; nil: not known
}

// SaveUses stores what is known of uses, at most engine.Piece of them, in one batch. A use with the same key and beginning goes on, and
// what the database has more of stays. fresh are the nodes that have new ones: their oldest beyond MostUses are dropped.
func (r Records) SaveUses(ctx context.Context, uses []Use, fresh []string) error {
	rows := make([][10]any, 0, len(uses))
	for _, u := range uses {
		rows = append(rows, [10]any{u.NodeID, engine.Millis(u.Since), u.GPU, u.User, u.Program, u.Container, u.Allocation, u.Owner,
			engine.Millis(u.Until), u.MemoryMiB})
	}
	statements := []engine.Statement{
		engine.Do(`INSERT INTO gpu_uses(node_id, since, gpu, user, program, container, allocation, owner, until, memory_mib)
			SELECT u.value ->> 0, u.value ->> 1, u.value ->> 2, u.value ->> 3, u.value ->> 4, u.value ->> 5, u.value ->> 6, u.value ->> 7,
				u.value ->> 8, u.value ->> 9 FROM json_each(?) u WHERE true
			ON CONFLICT DO UPDATE SET until = max(until, excluded.until),
				memory_mib = max(coalesce(memory_mib, excluded.memory_mib), coalesce(excluded.memory_mib, memory_mib))`, engine.JSON(rows)),
	}
	if len(fresh) > 0 {
		statements = append(statements, engine.Do(`DELETE FROM gpu_uses WHERE (node_id, since, gpu, user, program, container, allocation) IN
			(SELECT node_id, since, gpu, user, program, container, allocation FROM
				(SELECT *, row_number() OVER (PARTITION BY node_id ORDER BY until DESC, since DESC) AS place FROM gpu_uses
					WHERE node_id IN (SELECT value FROM json_each(?))) WHERE place > ?)`, texts(fresh), int64(MostUses)))
	}
	return r.db.Change(ctx, statements)
}

func (r Records) uses(ctx context.Context, rest string, args ...any) ([]Use, error) {
	return engine.All(ctx, r.db, func(r *engine.Row) Use {
		u := Use{UseKey: UseKey{NodeID: r.Text()}, Since: r.Time()}
		u.GPU, u.User, u.Program, u.Container, u.Allocation, u.Owner = r.Text(), r.Text(), r.Text(), r.Text(), r.Text(), r.Text()
		u.Until, u.MemoryMiB = r.Time(), r.Integer()
		return u
	}, engine.Do("SELECT node_id, since, gpu, user, program, container, allocation, owner, until, memory_mib FROM gpu_uses "+rest, args...))
}

// Uses are the uses of a node's GPUs that were seen at this time or later, those that were seen last first.
func (r Records) Uses(ctx context.Context, nodeID string, since time.Time) ([]Use, error) {
	return r.uses(ctx, "WHERE node_id = ? AND until >= ? ORDER BY until DESC, since DESC", nodeID, engine.Millis(since))
}

// RecentUses are those of all nodes that were seen at this time or later.
func (r Records) RecentUses(ctx context.Context, since time.Time) ([]Use, error) {
	return r.uses(ctx, "WHERE until >= ? ORDER BY until", engine.Millis(since))
}

// PruneUses deletes uses that were last seen before a time, at most limit of them, and tells how many.
func (r Records) PruneUses(ctx context.Context, before time.Time, limit int) (int, error) {
	return r.db.Most(ctx, limit, engine.Do(`DELETE FROM gpu_uses WHERE (node_id, since, gpu, user, program, container, allocation) IN
		(SELECT node_id, since, gpu, user, program, container, allocation FROM gpu_uses WHERE until < ? ORDER BY until LIMIT ?)`,
		engine.Millis(before), int64(limit)))
}
