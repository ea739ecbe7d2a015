package provider

import (
	"context"

	"muster/store"
	"muster/store/engine"
)

// SetPrice labels a node with what its company charges for it an hour. It hides what the agent says, and is hidden by what an operator or a
// credential says. ErrConflict if the node does not exist, or has this label of its company already.
func (r Records) SetPrice(ctx context.Context, nodeID, perHour string, events ...store.Event) error {
	const price, company = "price_per_hour", int64(store.OriginProvider)
	return r.db.Change(ctx, []engine.Statement{
		engine.Guard("EXISTS(SELECT 1 FROM nodes WHERE id = ?)", nodeID),
		engine.Guard("NOT EXISTS(SELECT 1 FROM labels WHERE node_id = ? AND key = ? AND origin = ? AND value = ?)", nodeID, price,
			company, perHour),
		engine.Do("INSERT INTO labels(node_id, key, value, origin) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value",
			nodeID, price, perHour, company),
	}, events...)
}
