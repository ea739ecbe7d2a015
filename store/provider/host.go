package provider

import (
	"context"
	"time"

	"muster/store"
	"muster/store/engine"
)

// BadHost is a host of a company on which a machine did not come up, or did not pass.
type BadHost struct {
	Kind  string // of company
	Host  string
	Why   string
	At    time.Time
	Until time.Time // it is not rented before
}

// BadHost notes a bad host in the place of what was known of it before, and forgets those whose time is over.
func (r Records) BadHost(ctx context.Context, kind, host, why string, at, until time.Time, events ...store.Event) error {
	return r.db.Change(ctx, []engine.Statement{
		engine.Do("DELETE FROM bad_hosts WHERE until <= ?", engine.Millis(at)),
		engine.Do(`INSERT INTO bad_hosts(kind, host, why, at, until) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET why = excluded.why,
			at = excluded.at, until = excluded.until`, kind, host, why, engine.Millis(at), engine.Millis(until)),
	}, events...)
}

// BadHosts are those of a kind of company whose time is not over, by host.
func (r Records) BadHosts(ctx context.Context, kind string, now time.Time) ([]BadHost, error) {
	return engine.All(ctx, r.db, func(r *engine.Row) BadHost {
		return BadHost{Kind: r.Text(), Host: r.Text(), Why: r.Text(), At: r.Time(), Until: r.Time()}
	}, engine.Do("SELECT kind, host, why, at, until FROM bad_hosts WHERE kind = ? AND until > ? ORDER BY host", kind, engine.Millis(now)))
}
