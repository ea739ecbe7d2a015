package bootstrap_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/audit"
	"muster/gateway/internal/bootstrap"
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
	var err error
	d.store, err = store.Open(t.Context(), store.Options{
		Path: filepath.Join(t.TempDir(), "muster.db"), MasterKey: bytes.Repeat([]byte{7}, 32), Now: clock,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.store.Close() })
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
