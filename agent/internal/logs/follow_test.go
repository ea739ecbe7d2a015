package logs_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/logs"
	"muster/agent/wire"
)

// TestFailsLate: a source that fails in the moment in which it would count as followed is not followed.
func TestFailsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failed atomic.Int64
		s := logs.NewShipper(logs.Shipping{Node: "n-1", Folder: t.TempDir(), Call: (&gateway{}).call, May: func() error { return nil },
			Follow: func(context.Context, string, logs.Place, func(wire.LogLine, string) error) error {
				time.Sleep(10 * time.Second)
				failed.Add(1)
				return errAway
			}})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = s.Run(ctx) }()
		synctest.Wait() // else the shipping would begin twice
		s.Heard(&wire.LogShipping{Sources: []string{wire.LogAgent}})
		pass(time.Second / 2) // what is looked at below is never in the moment of a failure
		for told := int64(0); told < 50; pass(time.Second) {
			if now := failed.Load(); now > told && s.Unshipped() == nil {
				t.Fatalf("failure %d is not told", now)
			}
			told = failed.Load()
		}
		stop()
		<-ended
	})
}
