package bootstrap_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/audit"
	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/kit"
	"muster/store"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

var operator = store.Actor{Name: "operator:socket", Address: "socket"}

// fixture is a Bootstrap on a database of its own, with a clock that the test sets.
type fixture struct {
	*bootstrap.Bootstrap
	t     testing.TB
	store *store.Store
	audit *audit.Trail
	now   time.Time
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	d := &fixture{t: t, now: start}
	clock := func() time.Time { return d.now }
	d.store = kit.Store(t, clock)
	d.audit = audit.New(audit.Config{Store: d.store, Now: clock})
	d.Bootstrap = bootstrap.New(bootstrap.Config{Store: d.store, Now: clock, Audit: d.audit})
	return d
}

func (d *fixture) events(kind string) []store.Event {
	d.t.Helper()
	events, err := d.store.Events(d.t.Context(), store.EventQuery{Kind: kind, Limit: 1000})
	if err != nil {
		d.t.Fatal(err)
	}
	return events
}

// code is the code of a refusal, "ok" for none, and the error's text for what is no refusal.
func code(err error) string {
	var refused *wire.ErrorDetail
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &refused) && refused.Hint == "":
		return refused.Code + " without a hint"
	case errors.As(err, &refused):
		return refused.Code
	}
	return err.Error()
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
