package maas

import (
	"context"
	"encoding/json"
	"time"

	"muster/store"
	"muster/store/engine"
)

// Work is what muster means to do with a machine until it is done. It is written before MAAS is asked for anything.
type Work struct {
	SystemID string `json:"-"`
	ID       string `json:"-"` // also in the agent name with which the machine is acquired
	Version  int64  `json:"-"` // a writer names the one that it read

	Act       string     `json:"act"`
	Step      string     `json:"step"` // what was asked last; empty: nothing
	Begun     time.Time  `json:"begun"`
	Deadline  time.Time  `json:"deadline"`
	Tries     int        `json:"tries,omitempty"`  // of the step
	TryAt     *time.Time `json:"try_at,omitempty"` // nil: now
	Why       string     `json:"why,omitempty"`    // why the last try did not work
	Failed    string     `json:"failed,omitempty"` // why the work cannot succeed: what it did is taken back
	By        string     `json:"by"`
	Series    string     `json:"series,omitempty"`
	Reimage   bool       `json:"reimage,omitempty"`
	Erase     bool       `json:"erase,omitempty"`
	Force     bool       `json:"force,omitempty"`
	Allocates string     `json:"allocation,omitempty"` // that it is for
}

func readWork(r *engine.Row) Work {
	var w Work
	id, name, version := r.Text(), r.Text(), r.Number()
	r.Document(&w)
	w.SystemID, w.ID, w.Version = id, name, version
	return w
}

// Works are all that go on, by system id.
func (r Records) Works(ctx context.Context) ([]Work, error) {
	return engine.All(ctx, r.db, readWork, engine.Do("SELECT system_id, id, version, body FROM maas_works ORDER BY system_id"))
}

// Begin stores a work. ErrConflict if another one goes on with the machine, if the machine is not the node ("": none), if the node is in
// another state than given, or if an allocation has a part of it and Force is not set.
func (r Records) Begin(ctx context.Context, w Work, nodeID, state string, events ...store.Event) error {
	statements := []engine.Statement{engine.Guard("EXISTS(SELECT 1 FROM maas_machines WHERE system_id = ? AND node_id = ?)", w.SystemID,
		nodeID)}
	if nodeID != "" {
		statements = append(statements, engine.Guard("EXISTS(SELECT 1 FROM nodes WHERE id = ? AND state = ?)", nodeID, state))
		if !w.Force {
			statements = append(statements, engine.Guard("NOT EXISTS(SELECT 1 FROM holds WHERE node_id = ? AND freed_at IS NULL)", nodeID))
		}
	}
	statements = append(statements, engine.Do("INSERT INTO maas_works(system_id, id, version, body) VALUES (?, ?, 1, ?)", w.SystemID, w.ID,
		engine.JSON(w)))
	return r.db.Change(ctx, statements, events...)
}

const same = "EXISTS(SELECT 1 FROM maas_works WHERE system_id = ? AND id = ? AND version = ?)"

// Step stores what a work has come to, and gives it with its new version. ErrConflict if somebody else has written it since it was read.
func (r Records) Step(ctx context.Context, w Work) (Work, error) {
	err := r.db.Change(ctx, []engine.Statement{
		engine.Guard(same, w.SystemID, w.ID, w.Version),
		engine.Do("UPDATE maas_works SET version = version + 1, body = ? WHERE system_id = ?", engine.JSON(w), w.SystemID),
	})
	w.Version++
	return w, err
}

// Ended is how a work ended.
type Ended struct {
	Act string    `json:"act"`
	At  time.Time `json:"at"`
	Why string    `json:"why,omitempty"` // it failed; empty: it is done

	Allocates string `json:"allocation,omitempty"` // that it was for
}

// ReadEnded reads what Machine.Ended holds; false: nothing.
func ReadEnded(body string) (e Ended, ok bool) {
	return e, body != "" && json.Unmarshal([]byte(body), &e) == nil
}

// End ends a work, and keeps how. ErrConflict as for Step.
func (r Records) End(ctx context.Context, w Work, e Ended, events ...store.Event) error {
	return r.db.Change(ctx, []engine.Statement{
		engine.Guard(same, w.SystemID, w.ID, w.Version),
		engine.Do("DELETE FROM maas_works WHERE system_id = ?", w.SystemID),
		engine.Do("UPDATE maas_machines SET ended = ? WHERE system_id = ?", engine.JSON(e), w.SystemID),
	}, events...)
}
