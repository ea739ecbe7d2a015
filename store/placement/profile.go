package placement

import (
	"context"
	"time"

	"muster/store"
	"muster/store/engine"
)

// Profile is a firmware profile that a person has made.
type Profile struct {
	Name      string    `sql:"name"`
	Body      string    `sql:"body"` // JSON
	UpdatedAt time.Time `sql:"updated_at"`
	UpdatedBy string    `sql:"updated_by"`
}

var profiles = engine.NewTable[Profile]("profiles", "", "")

// Profiles returns all profiles on record, by name.
func (r Records) Profiles(ctx context.Context) ([]Profile, error) {
	return profiles.All(ctx, r.db, "ORDER BY name")
}

// Profile returns one profile. ErrNotFound if there is none of this name.
func (r Records) Profile(ctx context.Context, name string) (Profile, error) {
	return profiles.First(ctx, r.db, "WHERE name = ?", name)
}

// PutProfile stores a profile in the place of an earlier one. The evidence of the nodes that have it is not current after that, because it
// was judged for the earlier one.
func (r Records) PutProfile(ctx context.Context, p Profile, events ...store.Event) error {
	return r.db.Change(ctx, []engine.Statement{
		profiles.Put(p),
		engine.Do("UPDATE evidence SET current = 0 WHERE current = 1 AND node_id IN (SELECT id FROM nodes WHERE profile = ?)", p.Name),
	}, events...)
}

// RemoveProfile deletes a profile. ErrConflict if there is none, or if a node that is not retired has it.
func (r Records) RemoveProfile(ctx context.Context, name string, events ...store.Event) error {
	return r.db.Change(ctx, []engine.Statement{
		engine.Guard(`EXISTS(SELECT 1 FROM profiles WHERE name = ?)
			AND NOT EXISTS(SELECT 1 FROM nodes WHERE profile = ? AND retired_at IS NULL)`, name, name),
		engine.Do("DELETE FROM profiles WHERE name = ?", name),
	}, events...)
}

// Assignment gives a node a profile, in place of its present one.
type Assignment struct {
	NodeID   string
	From, To string // ""; none
	Pushed   bool   // To is one that a person has made, and must be on record
}

// Assign writes an assignment. If the profile changes, the slots of the node go, because the profile gave them, and its evidence is not
// current any more. ErrConflict if the node is retired or not there, if it has another profile than From, if To is not on record, or if
// the profile changes while an allocation has a part of the node.
func (r Records) Assign(ctx context.Context, a Assignment, events ...store.Event) error {
	statements := []engine.Statement{
		engine.Guard("EXISTS(SELECT 1 FROM nodes WHERE id = ? AND retired_at IS NULL AND coalesce(profile, '') = ?)", a.NodeID, a.From),
	}
	if a.Pushed {
		statements = append(statements, engine.Guard("EXISTS(SELECT 1 FROM profiles WHERE name = ?)", a.To))
	}
	if a.To != a.From {
		statements = append(statements,
			engine.Guard("NOT EXISTS(SELECT 1 FROM holds WHERE node_id = ? AND freed_at IS NULL)", a.NodeID),
			engine.Do("UPDATE nodes SET profile = nullif(?, '') WHERE id = ?", a.To, a.NodeID),
			engine.Do("DELETE FROM node_resource_slots WHERE node_id = ?", a.NodeID),
			outdate(a.NodeID))
	}
	return r.db.Change(ctx, statements, events...)
}

// Assignments returns the profiles of the nodes that have one and are not retired, by node id.
func (r Records) Assignments(ctx context.Context) (map[string]string, error) {
	const all = "SELECT id, profile FROM nodes WHERE profile IS NOT NULL AND retired_at IS NULL"
	by := map[string]string{}
	_, err := engine.All(ctx, r.db, func(r *engine.Row) struct{} {
		by[r.Text()] = r.Text()
		return struct{}{}
	}, engine.Do(all))
	return by, err
}
