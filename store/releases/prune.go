package releases

import (
	"context"
	"time"

	"muster/store/engine"
)

// Prune deletes what nobody asks for any more, at most limit rows of each kind: what nodes said that were retired before a time or are
// gone, pointers from before that time that neither a channel nor a pin has, and the nodes of rollouts that ended before it. The newest
// rollout of a channel keeps its nodes, but for those that were retired before that time or are gone. Pins of retired nodes go at once:
// earlier versions left them.
func (r Records) Prune(ctx context.Context, before time.Time, limit int) error {
	at := engine.Millis(before)
	most := int64(limit)
	return r.db.Change(ctx, []engine.Statement{
		engine.Do(`DELETE FROM node_updates WHERE node_id IN (SELECT u.node_id FROM node_updates u LEFT JOIN nodes n ON n.id = u.node_id
			WHERE n.id IS NULL OR n.retired_at < ? LIMIT ?)`, at, most),
		engine.Do(`DELETE FROM pins WHERE node_id IN (SELECT i.node_id FROM pins i LEFT JOIN nodes n ON n.id = i.node_id
			WHERE n.id IS NULL OR n.retired_at IS NOT NULL LIMIT ?)`, most),
		engine.Do(`DELETE FROM pointers WHERE (channel, seq) IN (SELECT p.channel, p.seq FROM pointers p
			LEFT JOIN channels c ON c.channel = p.channel AND c.seq = p.seq
			WHERE p.signed_at < ? AND c.channel IS NULL
				AND NOT EXISTS(SELECT 1 FROM pins i WHERE i.channel = p.channel AND i.seq = p.seq AND i.digest <> '') LIMIT ?)`, at, most),
		engine.Do(`DELETE FROM rollout_nodes WHERE (rollout, node_id) IN (SELECT n.rollout, n.node_id FROM rollout_nodes n
			JOIN rollouts o ON o.number = n.rollout LEFT JOIN nodes k ON k.id = n.node_id
			WHERE o.ended_at < ? AND (k.id IS NULL OR k.retired_at < ? OR o.number < (SELECT max(number) FROM rollouts WHERE channel = o.channel))
			LIMIT ?)`, at, at, most),
	})
}
