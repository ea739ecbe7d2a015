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
	Tries     int        `json:"tries,omitempty"`    // of the step
	TryAt     *time.Time `json:"try_at,omitempty"`   // nil: now
	Why       string     `json:"why,omitempty"`      // why the last try did not work
	Failed    string     `json:"failed,omitempty"`   // why the work cannot succeed: what it did is taken back
	Canceled  bool       `json:"canceled,omitempty"` // a person ended it: Failed says who
	By        string     `json:"by"`
	Series    string     `json:"series,omitempty"`
	Profile   string     `json:"profile,omitempty"` // that the node gets first; empty: it keeps its own
	Reimage   bool       `json:"reimage,omitempty"`
	Erase     bool       `json:"erase,omitempty"`
	Erasing   bool       `json:"erasing,omitempty"` // MAAS was seen to erase the disks
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

// Works returns all works that go on, by system id.
func (r Records) Works(ctx context.Context) ([]Work, error) {
	return engine.All(ctx, r.db, readWork, engine.Do("SELECT system_id, id, version, body FROM maas_works ORDER BY system_id"))
}

// Work returns the work that goes on with a machine. ErrNotFound if there is none.
func (r Records) Work(ctx context.Context, systemID string) (Work, error) {
	return engine.First(ctx, r.db, readWork,
		engine.Do("SELECT system_id, id, version, body FROM maas_works WHERE system_id = ?", systemID))
}

// Start is a work that begins, and the conditions for it.
type Start struct {
	Work
	NodeID string // of the machine; "": none
	State  string // of the node
}

// Begin stores works, all or none. ErrConflict if another one goes on with a machine, if a machine is not the node, if the node is in
// another state than given, or if an allocation has a part of it and Force is not set.
func (r Records) Begin(ctx context.Context, works []Start, events ...store.Event) error {
	var statements []engine.Statement
	for _, w := range works {
		statements = append(statements,
			engine.Guard("EXISTS(SELECT 1 FROM maas_machines WHERE system_id = ? AND node_id = ?)", w.SystemID, w.NodeID))
		if w.NodeID != "" {
			statements = append(statements, engine.Guard("EXISTS(SELECT 1 FROM nodes WHERE id = ? AND state = ?)", w.NodeID, w.State))
		}
		if w.NodeID != "" && !w.Force {
			statements = append(statements, engine.Guard("NOT EXISTS(SELECT 1 FROM holds WHERE node_id = ? AND freed_at IS NULL)", w.NodeID))
		}
		statements = append(statements, engine.Do("INSERT INTO maas_works(system_id, id, version, body) VALUES (?, ?, 1, ?)", w.SystemID, w.ID,
			engine.JSON(w.Work)))
	}
	return r.db.Change(ctx, statements, events...)
}

const same = "EXISTS(SELECT 1 FROM maas_works WHERE system_id = ? AND id = ? AND version = ?)"

// Step stores how far a work is, and returns it with its new version. ErrConflict if somebody else has written it since it was read.
func (r Records) Step(ctx context.Context, w Work, events ...store.Event) (Work, error) {
	err := r.db.Change(ctx, []engine.Statement{
		engine.Guard(same, w.SystemID, w.ID, w.Version),
		engine.Do("UPDATE maas_works SET version = version + 1, body = ? WHERE system_id = ?", engine.JSON(w), w.SystemID),
	}, events...)
	w.Version++
	return w, err
}

// Ended is how the last work ended, and what the works have left on the machine.
type Ended struct {
	Act string    `json:"act"` // empty: there was none
	At  time.Time `json:"at"`
	Why string    `json:"why,omitempty"` // it failed; empty: it is done

	Canceled  bool   `json:"canceled,omitempty"`   // a person ended it, and nothing is left of it
	Allocates string `json:"allocation,omitempty"` // that it was for
	Profile   string `json:"profile,omitempty"`    // that the machine was installed with last; empty: not known
	Tag       string `json:"tag,omitempty"`        // of a profile, that was written to the machine last; empty: none was
}

// ReadEnded reads what Machine.Ended holds.
func ReadEnded(body string) (e Ended) {
	if json.Unmarshal([]byte(body), &e) != nil {
		return Ended{}
	}
	return e
}

// left is what stays of a machine's column ended when another work ends.
const left = "CASE WHEN ended = '' THEN '{}' ELSE json_remove(ended, '$.why', '$.allocation', '$.canceled') END"

// Tags records that machines are about to get the tag of a profile.
func (r Records) Tags(ctx context.Context, tag string, ids ...string) error {
	return r.db.Change(ctx, []engine.Statement{engine.Do(`UPDATE maas_machines SET ended = json_set(CASE WHEN ended = '' THEN '{}' ELSE ended
		END, '$.tag', ?) WHERE system_id IN (SELECT value FROM json_each(?))`, tag, engine.JSON(ids))})
}

// End ends a work, and keeps how it ended. A profile or a tag that e does not name stays. ErrConflict as for Step.
func (r Records) End(ctx context.Context, w Work, e Ended, events ...store.Event) error {
	return r.db.Change(ctx, []engine.Statement{
		engine.Guard(same, w.SystemID, w.ID, w.Version),
		engine.Do("DELETE FROM maas_works WHERE system_id = ?", w.SystemID),
		engine.Do("UPDATE maas_machines SET ended = json_patch("+left+", ?) WHERE system_id = ?", engine.JSON(e), w.SystemID),
	}, events...)
}
