package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/gateway/internal/datadir"
	"muster/gateway/internal/datadir/seen"
	"muster/store/rqlite/rqlitetest"
)

// TestJudge: a store that is not the one that a gateway knows is not taken, also if nobody has it. A refusal is looked at again with a read
// that waits for all that is stored, and one that is over is forgotten.
func TestJudge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rqlitetest.New(t)
		m := join(t, n, "gw1", 0)
		defer m.DB.Close()
		var bad, once atomic.Bool
		bad.Store(true)
		m.Judge = func(_ context.Context, fence, beat int64, _ bool) error {
			if bad.Load() || once.Swap(false) {
				return fmt.Errorf("%w: it is that of another gateway", seen.ErrOther)
			}
			return nil
		}
		m.stand(t.Context())
		time.Sleep(time.Hour)
		m.waits()
		if said := strings.Count(m.log.String(), "it is that of another gateway"); said < 50 || said > 70 || !m.Refused() {
			t.Errorf("it said so %d times in an hour, and is refused: %t", said, m.Refused())
		}
		if err := m.CheckNow(t.Context()); err == nil {
			t.Error("a start goes on")
		}
		before := len(n.Paths())
		bad.Store(false)
		once.Store(true)
		m.takes()
		if m.Refused() || !strings.Contains(strings.Join(n.Paths()[before:], " "), "linearizable") {
			t.Errorf("refused: %t, after %q", m.Refused(), n.Paths()[before:])
		}
		m.stop()
		time.Sleep(time.Minute)
	})
}

// TestSeize: a command that has the store keeps every gateway from it, and gives it back at its end. A gateway that is active keeps it.
func TestSeize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rqlitetest.New(t)
		at := datadir.SharedStore{Store: "rqlite://127.0.0.1:4001"}
		attach := func() *Seized {
			s, err := Attach(t.Context(), at, io.Discard, n)
			must(t, err)
			return s
		}
		first := attach()
		must(t, first.Take(t.Context(), false))
		m := join(t, n, "gw1", 0)
		defer m.DB.Close()
		m.claim.Schema = first.claim.Schema
		m.stand(t.Context())
		time.Sleep(time.Hour)
		m.waits()
		must(t, first.Close())
		m.takes()
		second := attach()
		if err := second.Take(t.Context(), false); err == nil || !strings.Contains(err.Error(), "gw1 is the active gateway") {
			t.Errorf("got %v", err)
		}
		must(t, second.Close())
		if len(m.Lost()) > 0 {
			t.Fatalf("the gateway is deposed: %v", <-m.Lost())
		}
		third := attach()
		began := time.Now()
		must(t, third.Take(t.Context(), true))
		if took := time.Since(began); took < Silent || m.DB.Holds() {
			t.Errorf("it waited %s for a gateway to be silent", took)
		}
		if err := <-m.Lost(); !errors.Is(err, ErrLost) {
			t.Errorf("got %v", err)
		}
		must(t, third.Close())
		m.stop()
	})
	for want, at := range map[string]datadir.SharedStore{"--store-ca FILE": {Store: "rqlite://10.0.0.1:1"}, "write rqlite://": {Store: "x"},
		"--store-ca": {Store: "rqlite://127.0.0.1:1", StoreCert: "x", StoreKey: "y"}} {
		if _, err := Attach(t.Context(), at, io.Discard, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %s", at, err, want)
		}
	}
}
