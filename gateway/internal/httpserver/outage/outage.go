// Package outage keeps the log readable while the database takes no writes, as with a full disk: it is said once that this is so and
// once that it is over. The log is often on the same disk.
package outage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"muster/store"
)

// Watch knows whether the database takes writes.
type Watch struct{ outage atomic.Pointer[began] }

type began struct {
	at     time.Time
	reason string
}

// Writable reports whether writes to the database work.
func (w *Watch) Writable() bool { return w.outage.Load() == nil }

// Lasts says since when the database takes no writes, and why. lasts is false while it takes them.
func (w *Watch) Lasts() (since time.Time, reason string, lasts bool) {
	b := w.outage.Load()
	if b == nil {
		return time.Time{}, "", false
	}
	return b.at, b.reason, true
}

// Tell has the log say once that the database takes no writes, for each reason, and once that it does again.
func Tell(s *store.Store, log *slog.Logger) *Watch {
	w := &Watch{}
	s.Outages(func(err error) { w.note(err, log) })
	return w
}

// note takes an *store.Outage, or nil when it is over.
func (w *Watch) note(err error, log *slog.Logger) {
	var outage *store.Outage
	if errors.As(err, &outage) {
		w.outage.CompareAndSwap(nil, &began{time.Now(), fmt.Sprint(errors.Unwrap(outage))})
		log.Error("the database takes no writes: heartbeats wait in memory, requests that change something are refused",
			"reason", errors.Unwrap(outage), "hint", outage.Unavailable())
		return
	}
	w.outage.Store(nil)
	log.Info("the database takes writes again")
}

// Quiet drops records about a write that failed because the database takes none. Every part meets that again and again, and Tell has
// said it once.
func Quiet(h slog.Handler) slog.Handler { return quiet{h} }

type quiet struct{ slog.Handler }

// Handle drops a record with such an error.
func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	known := false
	r.Attrs(func(a slog.Attr) bool {
		err, ok := a.Value.Any().(error)
		var outage *store.Outage
		known = ok && errors.As(err, &outage)
		return !known
	})
	if known {
		return nil
	}
	return q.Handler.Handle(ctx, r)
}

// WithAttrs wraps the new handler too. Without this slog would give out one that drops nothing.
func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(attrs)} }

// WithGroup does the same.
func (q quiet) WithGroup(name string) slog.Handler { return quiet{q.Handler.WithGroup(name)} }
