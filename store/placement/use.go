package placement

import (
	"context"
	"time"

	"muster/store/engine"
)

// MostUses is how many uses of GPUs are kept of one node: those that were seen last. A node can send any number, and must not fill the
// database.
const MostUses = 1000

// UseKey tells uses of GPUs apart.
type UseKey struct {
	NodeID     string `sql:"node_id"`
	GPU        string `sql:"gpu"`  // UUID
	User       string `sql:"user"` // on the node; empty: not known, as in the next two
	Program    string `sql:"program"`
	Container  string `sql:"container"`
	Allocation string `sql:"allocation"` // that it works for, or that has the GPU; empty: none
}

// Use is one use of a GPU without a long gap.
type Use struct {
	UseKey
	Owner     string    `sql:"owner"` // of the allocation; empty: not known
	Since     time.Time `sql:"since"`
	Until     time.Time `sql:"until"`
	MemoryMiB *int64    `sql:"memory_mib"` // the most that was seen; nil: not known
}

// SaveUses stores what is known of uses, at most engine.Piece of them, in one batch. A use with the same key and beginning goes on; it
// never gets shorter. fresh are the nodes that have new uses: their oldest uses beyond MostUses are dropped.
func (r Records) SaveUses(ctx context.Context, seen []Use, fresh []string) error {
	rows := make([][10]any, 0, len(seen))
	for _, u := range seen {
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
					WHERE node_id IN (SELECT value FROM json_each(?))) WHERE place > ?)`, engine.JSON(fresh), int64(MostUses)))
	}
	return r.db.Change(ctx, statements)
}

var uses = engine.NewTable[Use]("gpu_uses", "", "")

// Uses returns the uses of a node's GPUs that were seen at this time or later; those that were seen last come first.
func (r Records) Uses(ctx context.Context, nodeID string, since time.Time) ([]Use, error) {
	return uses.All(ctx, r.db, "WHERE node_id = ? AND until >= ? ORDER BY until DESC, since DESC", nodeID, engine.Millis(since))
}

// RecentUses returns the uses on all nodes that were seen at this time or later.
func (r Records) RecentUses(ctx context.Context, since time.Time) ([]Use, error) {
	return uses.All(ctx, r.db, "WHERE until >= ? ORDER BY until", engine.Millis(since))
}

// PruneUses deletes uses that were last seen before a time, at most limit of them, and tells how many.
func (r Records) PruneUses(ctx context.Context, before time.Time, limit int) (int, error) {
	return r.db.Most(ctx, limit, engine.Do(`DELETE FROM gpu_uses WHERE (node_id, since, gpu, user, program, container, allocation) IN
		(SELECT node_id, since, gpu, user, program, container, allocation FROM gpu_uses WHERE until < ? ORDER BY until LIMIT ?)`,
		engine.Millis(before), int64(limit)))
}
