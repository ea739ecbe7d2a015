// Package health keeps the records of health: what the rules have found, and what operators said of the rules. A package of its own
// keeps package store readable.
//
// The conditions of every write stand in its SQL. A write whose condition is not true is store.ErrConflict and changes nothing.
package health

import (
	"context"
	"strconv"
	"time"

	"muster/store"
	"muster/store/engine"
)

// Place is what a finding is about: at most one finding is open for it.
type Place struct {
	NodeID string `sql:"node_id"`
	Rule   string `sql:"rule"`
	GPU    string `sql:"gpu"` // UUID; "": it is about the node
}

// Finding is something that a rule found and that is not cured yet.
type Finding struct {
	Place
	Since time.Time `sql:"since"`
	Text  string    `sql:"text"`
}

// Setting is what an operator said of a rule, for the nodes that a selector names.
type Setting struct {
	Rule     string
	Selector string // "": all nodes
	Off      bool
	Limit    *float64      // nil: the rule's own
	For      time.Duration // so long it must be bad; 0: as the rule says
	SetAt    time.Time
	SetBy    string
}

// MostSettings bounds the settings: each is looked at for each heartbeat.
const MostSettings = 200

// Records is the database, for health.
type Records struct{ db store.Records }

// New makes Records.
func New(db store.Records) Records { return Records{db} }

// Findings returns all open findings.
func (r Records) Findings(ctx context.Context) ([]Finding, error) {
	return findings.All(ctx, r.db, "ORDER BY node_id, since, rule, gpu")
}

var findings = engine.NewTable[Finding]("findings", "", "")

// Change is one change of the findings. With Cured the finding is closed.
type Change struct {
	Finding
	Cured bool
}

// Write opens and closes findings, in this order, in one batch with their events. A finding of a node that is not there or is retired is
// not stored.
func (r Records) Write(ctx context.Context, changes []Change, events ...store.Event) error {
	var statements []engine.Statement
	for _, c := range changes {
		if c.Cured {
			statements = append(statements,
				engine.Do("DELETE FROM findings WHERE node_id = ? AND rule = ? AND gpu = ?", c.NodeID, c.Rule, c.GPU))
			continue
		}
		statements = append(statements, engine.Do(`INSERT INTO findings(node_id, rule, gpu, since, text)
			SELECT id, ?, ?, ?, ? FROM nodes WHERE id = ? AND retired_at IS NULL
			ON CONFLICT DO UPDATE SET since = excluded.since, text = excluded.text`,
			c.Rule, c.GPU, engine.Millis(c.Since), c.Text, c.NodeID))
	}
	return r.db.Change(ctx, statements, events...)
}

// Forget drops the findings of nodes that are retired.
func (r Records) Forget(ctx context.Context) error {
	return r.db.Change(ctx, []engine.Statement{
		engine.Do("DELETE FROM findings WHERE node_id NOT IN (SELECT id FROM nodes WHERE retired_at IS NULL)"),
	})
}

// Notices returns what a node last said is wrong on it.
func (r Records) Notices(ctx context.Context, nodeID string) ([]string, error) {
	const one = "SELECT notices FROM liveness WHERE node_id = ?"
	return engine.First(ctx, r.db, func(r *engine.Row) (notices []string) {
		r.Document(&notices)
		return notices
	}, engine.Do(one, nodeID))
}

// Settings returns all settings, by rule and selector.
func (r Records) Settings(ctx context.Context) ([]Setting, error) {
	const all = "SELECT rule, selector, off, bound, held, set_at, set_by FROM health_rules ORDER BY rule, selector"
	return engine.All(ctx, r.db, func(r *engine.Row) Setting {
		s := Setting{Rule: r.Text(), Selector: r.Text(), Off: r.Flag()}
		if text := r.Text(); text != "" {
			limit, err := strconv.ParseFloat(text, 64)
			if err != nil {
				r.Fail(text)
			}
			s.Limit = &limit
		}
		s.For = time.Duration(r.Number()) * time.Millisecond
		s.SetAt = r.Time()
		s.SetBy = r.Text()
		return s
	}, engine.Do(all))
}

// Set stores a setting in the place of an earlier one for the same rule and selector. ErrConflict if there are MostSettings already.
func (r Records) Set(ctx context.Context, s Setting, events ...store.Event) error {
	limit := ""
	if s.Limit != nil {
		limit = strconv.FormatFloat(*s.Limit, 'g', -1, 64)
	}
	return r.db.Change(ctx, []engine.Statement{
		engine.Guard("(SELECT count(*) FROM health_rules WHERE NOT (rule = ? AND selector = ?)) < ?", s.Rule, s.Selector,
			int64(MostSettings)),
		engine.Do(`INSERT INTO health_rules(rule, selector, off, bound, held, set_at, set_by) VALUES (?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET off = excluded.off, bound = excluded.bound, held = excluded.held,
				set_at = excluded.set_at, set_by = excluded.set_by`,
			s.Rule, s.Selector, engine.Flag(s.Off), limit, s.For.Milliseconds(), engine.Millis(s.SetAt), s.SetBy),
	}, events...)
}

// Unset drops a setting. ErrConflict if there is none.
func (r Records) Unset(ctx context.Context, rule, selector string, events ...store.Event) error {
	return r.db.Change(ctx, []engine.Statement{
		engine.Guard("EXISTS(SELECT 1 FROM health_rules WHERE rule = ? AND selector = ?)", rule, selector),
		engine.Do("DELETE FROM health_rules WHERE rule = ? AND selector = ?", rule, selector),
	}, events...)
}
