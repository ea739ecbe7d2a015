package audit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"muster/gateway/internal/audit"
	"muster/store"
)

// TestRun: numbers are recorded when their minute is over, and those that are left at the end.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFixture(t)
		trail := audit.New(audit.Config{Store: d.store})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- trail.Run(ctx) }()
		trail.Count(t.Context(), store.Event{Kind: "admin.refused", Outcome: "forbidden", Address: "192.0.2.9"})
		time.Sleep(59 * time.Second) // of the test's own clock
		if n := len(d.events("admin.refused")); n != 0 {
			t.Errorf("%d events before the minute is over", n)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := len(d.events("admin.refused")); n != 1 {
			t.Errorf("%d events when the minute is over", n)
		}
		trail.Count(t.Context(), store.Event{Kind: "admin.refused", Outcome: "forbidden", Address: "192.0.2.9"})
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if n := len(d.events("admin.refused")); n != 2 {
			t.Errorf("%d events at the end", n)
		}
		d.store.Close()
	})
}
