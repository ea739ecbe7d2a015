package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"muster/store"
	"muster/store/engine"
)

// NamePrefix begins the name of an instance that was made for a rental. The rental's id follows.
const NamePrefix = "muster-"

// Instance is a machine as its company shows it.
type Instance struct {
	Account string     `sql:"i.account"`
	ID      string     `sql:"i.id"`
	Tenant  string     `sql:"i.tenant"` // of the rental that it is, else of the account
	Name    string     `sql:"i.name"`
	State   string     `sql:"i.state"`
	Price   *int64     `sql:"i.price"`   // charged now; nil: not known, here and below
	Running *int64     `sql:"i.running"` // charged while it runs
	Storage *int64     `sql:"i.storage"` // charged while it is stopped
	FirstAt time.Time  `sql:"i.first_at"`
	SeenAt  time.Time  // of the last complete view that had it
	Missing int        `sql:"i.missing"`  // complete views in a row that do not have it
	GoneAt  *time.Time `sql:"i.gone_at"`  // since when the company is known to have it no longer
	StartAt *time.Time `sql:"i.start_at"` // when it was asked to start, until the company shows what has come of that
	Body    string     `sql:"i.body"`     // JSON
}

var instances = engine.NewTable[Instance]("provider_instances", "i", "")

func readInstance(r *engine.Row) Instance {
	i := instances.Read(r)
	i.SeenAt = r.Time()
	return i
}

func (r Records) instances(ctx context.Context, rest string, most int, args ...any) ([]Instance, error) {
	return engine.All(ctx, r.db, readInstance, engine.Do("SELECT "+instances.Columns+`,
		coalesce(CASE i.missing WHEN 0 THEN p.synced_at ELSE i.seen_at END, i.first_at)
		FROM providers p CROSS JOIN provider_instances i ON i.account = p.name WHERE p.name = ? `+rest+" ORDER BY i.id LIMIT ?",
		append(args, int64(most))...))
}

// Instances returns the instances of an account that are not gone, by id. They are read in pieces, so that a large account does not need
// memory twice. An error ends them.
func (r Records) Instances(ctx context.Context, account string) iter.Seq2[Instance, error] {
	return r.pieces(ctx, "AND i.gone_at IS NULL", account)
}

func (r Records) pieces(ctx context.Context, which, account string) iter.Seq2[Instance, error] {
	return func(yield func(Instance, error) bool) {
		for after, n := "", engine.Piece; n == engine.Piece; {
			piece, err := r.instances(ctx, which+" AND i.id > ?", engine.Piece, account, after)
			if err != nil {
				yield(Instance{}, err)
				return
			}
			n = len(piece)
			for _, i := range piece {
				if after = i.ID; !yield(i, nil) {
					return
				}
			}
		}
	}
}

// shows is true if the company shows the same of an instance as before.
func (i *Instance) shows(was *Instance) bool {
	same := func(a, b *int64) bool { return a == b || a != nil && b != nil && *a == *b }
	return i.Body == was.Body && i.Name == was.Name && i.State == was.State && same(i.Price, was.Price) && same(i.Running, was.Running) &&
		same(i.Storage, was.Storage)
}

// lag is for how long a view may show a machine as it was before it was asked to start.
const lag = 10 * time.Minute

// show stores instances that a view has. The tenant of the rental that one is goes before that of the account.
func show(account string, at time.Time, list []Instance) engine.Statement {
	rows := make([][]any, 0, len(list))
	for _, i := range list {
		rows = append(rows, []any{i.ID, i.Name, i.State, i.Price, i.Running, i.Storage, i.Body})
	}
	const rented = "(SELECT r.tenant FROM rentals r WHERE r.account = p.name AND "
	return engine.Do(`INSERT INTO provider_instances(account, id, tenant, name, state, price, running, storage, first_at, body)
		SELECT p.name, v.value ->> 0, coalesce(`+rented+"r.instance = v.value ->> 0 AND r.instance <> ''), "+rented+made("v.value ->> 1")+`),
			p.tenant), v.value ->> 1, v.value ->> 2, v.value ->> 3, v.value ->> 4, v.value ->> 5, ?, v.value ->> 6
		FROM providers p CROSS JOIN json_each(?) v WHERE p.name = ?
		ON CONFLICT DO UPDATE SET tenant = excluded.tenant, name = excluded.name, state = excluded.state, price = excluded.price,
			running = excluded.running, storage = excluded.storage, body = excluded.body, missing = 0, seen_at = NULL, gone_at = NULL,
			start_at = CASE WHEN excluded.state = 'stopped' AND start_at > ? THEN start_at END`,
		engine.Millis(at), engine.JSON(rows), account, engine.Millis(at.Add(-lag)))
}

// SaveView stores a complete view of an account: all that it shows at a time. Only what has changed is written, in batches of a bounded
// size; the last one says that the view is complete, and has the events. If SaveView fails before that, the next view puts it right. Of the
// instances, what they show is taken; their tenant and times are not.
//
// It returns the ids of those that two complete views in a row, or more, do not have. ErrNotFound if there is no such account. ErrConflict
// if another view was stored meanwhile: one caller at a time saves views of an account.
func (r Records) SaveView(ctx context.Context, account string, at time.Time, all []Instance, events ...store.Event) (missing []string,
	err error,
) {
	a, err := r.account(ctx, account)
	if err != nil {
		return nil, err
	}
	changed, absent, missing, err := r.differences(ctx, account, all)
	if err != nil {
		return nil, err
	}
	still := engine.Guard("EXISTS(SELECT 1 FROM providers WHERE name = ? AND synced_at IS ?)", account, engine.MaybeMillis(a.SyncedAt))
	for len(changed) > engine.Piece {
		piece := []engine.Statement{still, show(account, at, changed[:engine.Piece])}
		if err := r.db.Change(ctx, piece); err != nil {
			return nil, r.noAccount(ctx, account, err)
		}
		changed = changed[engine.Piece:]
	}
	err = r.noAccount(ctx, account, r.db.Change(ctx, []engine.Statement{
		still,
		show(account, at, changed),
		engine.Do(`UPDATE provider_instances SET missing = missing + 1, seen_at = CASE missing WHEN 0 THEN (SELECT synced_at FROM providers
			WHERE name = account) ELSE seen_at END WHERE account = ? AND id IN (SELECT value FROM json_each(?))`,
			account, engine.JSON(absent)),
		engine.Do("UPDATE providers SET synced_at = ?, failed_at = NULL, error = '' WHERE name = ?", engine.Millis(at), account),
	}, events...))
	if err != nil {
		return nil, err
	}
	return missing, nil
}

// differences are, between what is on record and a view, the instances that the view shows otherwise, the ids of those that it does not
// have, and of these, the ids of those that the view before did not have either.
func (r Records) differences(ctx context.Context, account string, all []Instance) (changed []Instance, absent, again []string, err error) {
	left := make(map[string]*Instance, len(all)) // that are not on record as they are shown
	for i := range all {
		left[all[i].ID] = &all[i]
	}
	absent = []string{}
	for was, err := range r.pieces(ctx, "", account) {
		now, isShown := left[was.ID]
		switch {
		case err != nil:
			return nil, nil, nil, err
		case isShown && was.Missing == 0 && was.StartAt == nil && now.shows(&was):
			delete(left, was.ID)
		case !isShown && was.GoneAt == nil:
			if absent = append(absent, was.ID); was.Missing > 0 {
				again = append(again, was.ID)
			}
		}
	}
	for i := range all {
		if left[all[i].ID] != nil {
			changed = append(changed, all[i])
		}
	}
	return slices.Clip(changed), absent, again, nil
}

// Start stores that an instance is about to be asked to start: it counts as one that runs from then on, until a view shows that it does, or
// one of ten minutes later that it does not. ErrLimit if a limit would be passed by it, or if nobody knows whether it would. ErrNotFound if
// there is no such instance. ErrConflict if it has changed meanwhile.
func (r Records) Start(ctx context.Context, account, id string, at time.Time, events ...store.Event) error {
	ctx = store.Fresh(ctx)
	found, err := r.instances(ctx, "AND i.gone_at IS NULL AND i.id = ?", 1, account, id)
	if err != nil || len(found) == 0 {
		return cmp.Or(err, store.ErrNotFound)
	}
	i := found[0]
	err = r.db.Change(ctx, []engine.Statement{
		engine.Guard("EXISTS(SELECT 1 FROM provider_instances WHERE account = ? AND id = ? AND tenant = ? AND gone_at IS NULL)",
			account, id, i.Tenant),
		engine.Do("UPDATE provider_instances SET start_at = ? WHERE account = ? AND id = ?", engine.Millis(at), account, id),
		engine.Guard("NOT "+blind, account, account, i.Tenant),
		engine.Guard("NOT "+over(OfAccount), account, account, account, account),
		engine.Guard("NOT "+over(OfTenant), i.Tenant, i.Tenant, i.Tenant, i.Tenant),
	}, events...)
	if !errors.Is(err, store.ErrConflict) {
		return err
	}
	if limit := r.Passed(ctx, Rental{Account: account, Tenant: i.Tenant, Price: i.more()}); limit != nil || i.Running != nil {
		return cmp.Or(limit, err)
	}
	return fmt.Errorf("%w: it is not known what %s costs while it runs", ErrLimit, id)
}

// more is what an instance costs more an hour while it runs than what counts of it now; 0: nobody knows.
func (i *Instance) more() int64 {
	disk := cmp.Or(i.Price, i.Storage)
	switch {
	case i.Running == nil || i.StartAt != nil:
		return 0
	case i.State == "stopped" && disk != nil:
		return max(*i.Running-*disk, 0)
	}
	return *i.Running
}

// NotStarted says that the company did not start an instance.
func (r Records) NotStarted(ctx context.Context, account, id string, events ...store.Event) error {
	return r.db.Change(ctx, []engine.Statement{
		engine.Do("UPDATE provider_instances SET start_at = NULL WHERE account = ? AND id = ?", account, id)}, events...)
}

// Gone says that the company has an instance no longer: it has said so of this one. ErrConflict if there is none that two complete views
// did not have, or if it is gone already.
func (r Records) Gone(ctx context.Context, account, id string, at time.Time, events ...store.Event) error {
	missed := engine.In("provider_instances", "account = ? AND id = ? AND gone_at IS NULL AND missing >= 2", account, id)
	return r.db.Change(ctx, missed.Update("gone_at = ?", engine.Millis(at)), events...)
}

// WhenGone looks for instances with these ids at companies of a kind. It returns which account had each, and when it was known that the
// company has it no longer. It leaves out instances of which that is not known.
func (r Records) WhenGone(ctx context.Context, kind string, ids []string) (map[string]Instance, error) {
	const some = `SELECT i.account, i.id, i.gone_at FROM providers p CROSS JOIN provider_instances i ON i.account = p.name
		WHERE p.kind = ? AND i.gone_at IS NOT NULL AND i.id IN (SELECT value FROM json_each(?)) ORDER BY i.gone_at`
	found, err := engine.All(ctx, r.db, func(r *engine.Row) Instance {
		return Instance{Account: r.Text(), ID: r.Text(), GoneAt: r.Maybe()}
	}, engine.Do(some, kind, engine.JSON(ids)))
	all := make(map[string]Instance, len(found))
	for _, i := range found {
		all[i.ID] = i
	}
	return all, err
}

// DropGone deletes instances that were gone before a time, with their rejoins, at most most, and tells how many.
func (r Records) DropGone(ctx context.Context, before time.Time, most int) (int, error) {
	const old = "(SELECT account, id FROM provider_instances WHERE gone_at < ? ORDER BY gone_at LIMIT ?)"
	at := engine.Millis(before)
	return r.db.Most(ctx, most,
		engine.Do("DELETE FROM rejoins WHERE (account, instance) IN "+old, at, int64(most)),
		engine.Do("DELETE FROM provider_instances WHERE (account, id) IN "+old, at, int64(most)))
}
