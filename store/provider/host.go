package provider

import (
	"context"
	"time"

	"muster/store"
	"muster/store/engine"
)

// BadHost is a host of a company on which a machine did not start, or was not as paid for.
type BadHost struct {
	Kind  string    `sql:"kind"` // of company
	Host  string    `sql:"host"`
	Why   string    `sql:"why"`
	At    time.Time `sql:"at"`
	Until time.Time `sql:"until"` // it is not rented before
}

// BadHost notes a bad host in the place of what was known of it before, and forgets those whose time is over.
func (r Records) BadHost(ctx context.Context, kind, host, why string, at, until time.Time, events ...store.Event) error {
	return r.db.Change(ctx, []engine.Statement{
		engine.Do("DELETE FROM bad_hosts WHERE until <= ?", engine.Millis(at)),
		badHosts.Put(BadHost{kind, host, why, at, until}),
	}, events...)
}

// BadHosts returns the bad hosts of a kind of company whose time is not over, by host.
func (r Records) BadHosts(ctx context.Context, kind string, now time.Time) ([]BadHost, error) {
	return badHosts.All(ctx, r.db, "WHERE kind = ? AND until > ? ORDER BY host", kind, engine.Millis(now))
}

var badHosts = engine.NewTable[BadHost]("bad_hosts", "", "")
