package placement

import (
	"context"
	"time"

	"muster/store"
	"muster/store/engine"
)

// kept is how many runs of one node are kept. The newest acceptance and the current run are kept beside them.
const kept = 10

// Evidence is what one run of checks found on a node.
type Evidence struct {
	Task    string    `sql:"task"` // id of the task that looked
	NodeID  string    `sql:"node_id"`
	Profile string    `sql:"profile"` // for which it was judged; "": none
	BootID  string    `sql:"boot_id"`
	Digest  string    `sql:"digest"`  // of the stable facts
	At      time.Time `sql:"at"`      // when it came, by the gateway's clock
	Ready   bool      `sql:"ready"`   // it shows all that the profile asks for
	Accept  bool      `sql:"accept"`  // it is an acceptance too
	Current bool      `sql:"current"` // it is what the node is now: of this boot, and judged for its profile
	Body    string    `sql:"body"`    // JSON
}

var evidences = engine.NewTable[Evidence]("evidence", "", "")

// PutEvidence stores what a run found. If it is Current, it takes the place of the node's current evidence, and the node's slots are the
// proposed ones from then on: see propose. If it is not, it is only kept. The same task again is the same run, judged again.
//
// ErrConflict if the node is retired or not there, if its profile is not the one for which the run was judged, or if a newer run is
// current.
func (r Records) PutEvidence(ctx context.Context, e Evidence, slots []Proposal, events ...store.Event) error {
	const newer = `SELECT 1 FROM evidence WHERE node_id = ? AND current = 1
		AND number > (SELECT number FROM evidence WHERE task = ?)`
	statements := []engine.Statement{
		engine.Guard("EXISTS(SELECT 1 FROM nodes WHERE id = ? AND retired_at IS NULL AND coalesce(profile, '') = ?)", e.NodeID, e.Profile),
		engine.Guard("NOT EXISTS("+newer+")", e.NodeID, e.Task),
	}
	if e.Current {
		statements = append(statements, outdate(e.NodeID))
	}
	statements = append(statements,
		evidences.Insert(e, `ON CONFLICT(task) DO UPDATE SET profile = excluded.profile, digest = excluded.digest, ready = excluded.ready,
			current = excluded.current`),
		engine.Do(`DELETE FROM evidence WHERE node_id = ? AND current = 0
			AND number NOT IN (SELECT number FROM evidence WHERE node_id = ? ORDER BY number DESC LIMIT ?)
			AND number <> (SELECT coalesce(max(number), 0) FROM evidence WHERE node_id = ? AND accept = 1)`,
			e.NodeID, e.NodeID, int64(kept), e.NodeID))
	if e.Current {
		statements = append(statements, propose(e, slots)...)
	}
	return r.db.Change(ctx, statements, events...)
}

// outdate says that a node may be another one than its evidence says.
func outdate(nodeID string) engine.Statement {
	return engine.Do("UPDATE evidence SET current = 0 WHERE node_id = ? AND current = 1", nodeID)
}

// Booted says that a node has booted since its current evidence, or may be another machine. The node takes no claims until there is new
// evidence.
func (r Records) Booted(ctx context.Context, nodeID string, events ...store.Event) error {
	return r.db.Change(ctx, []engine.Statement{outdate(nodeID)}, events...)
}

// Newest returns the newest run of a node. ErrNotFound if there is none.
func (r Records) Newest(ctx context.Context, nodeID string) (Evidence, error) {
	return evidences.First(ctx, r.db, "WHERE node_id = ? ORDER BY number DESC LIMIT 1", nodeID)
}

// NewestOfAll returns the newest run of each node that is not retired, by node id: at most limit nodes, those after the node after. Runs
// are long, so those of a fleet are read in pages.
func (r Records) NewestOfAll(ctx context.Context, after string, limit int) ([]Evidence, error) {
	return r.page(ctx, "", after, limit)
}

// AcceptedOfAll returns the newest acceptance of each node, in pages like NewestOfAll.
func (r Records) AcceptedOfAll(ctx context.Context, after string, limit int) ([]Evidence, error) {
	return r.page(ctx, "accept = 1 AND ", after, limit)
}

func (r Records) page(ctx context.Context, condition, after string, limit int) ([]Evidence, error) {
	return evidences.All(ctx, r.db, "WHERE number IN (SELECT max(number) FROM evidence WHERE "+condition+
		"node_id > ? AND EXISTS(SELECT 1 FROM nodes WHERE id = node_id AND retired_at IS NULL) GROUP BY node_id "+
		"ORDER BY node_id LIMIT ?) ORDER BY node_id", after, int64(limit))
}

// Promised returns the labels that a person or its credential gave a node. Labels that the node itself proposes are not among them.
func (r Records) Promised(ctx context.Context, nodeID string) (map[string]string, error) {
	const given = `SELECT key, value FROM (SELECT key, value, min(origin) FROM labels WHERE node_id = ? AND origin < ? GROUP BY key)
		WHERE value IS NOT NULL`
	labels := map[string]string{}
	_, err := engine.All(ctx, r.db, func(r *engine.Row) bool {
		key := r.Text()
		labels[key] = r.Text()
		return true
	}, engine.Do(given, nodeID, int64(store.OriginAgent)))
	return labels, err
}
