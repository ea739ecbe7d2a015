package main

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"muster/store"
)

// newLog makes the gateway's log.
func newLog(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(untold{slog.NewTextHandler(w, &slog.HandlerOptions{Level: level})})
}

// untold leaves out what a part says of a write that failed because the database takes none: every part meets that again and
// again, and tellOutages says it once. The log is often on the disk that is full.
type untold struct{ slog.Handler }

// Handle drops a record with such an error.
func (u untold) Handle(ctx context.Context, r slog.Record) error {
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
	return u.Handler.Handle(ctx, r)
}

// WithAttrs keeps the handler's manner.
func (u untold) WithAttrs(attrs []slog.Attr) slog.Handler { return untold{u.Handler.WithAttrs(attrs)} }

// WithGroup keeps the handler's manner.
func (u untold) WithGroup(name string) slog.Handler { return untold{u.Handler.WithGroup(name)} }

// tellOutages has the log say once that the database takes no writes, for each reason, and once that it does again.
func (g *gateway) tellOutages() {
	g.store.Outages(func(err error) {
		var outage *store.Outage
		if errors.As(err, &outage) {
			g.log.Error("the database takes no writes: heartbeats wait in memory, requests that change something are refused",
				"reason", errors.Unwrap(outage), "hint", outage.Unavailable())
			return
		}
		g.log.Info("the database takes writes again")
	})
}
