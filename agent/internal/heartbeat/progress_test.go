package heartbeat_test

import (
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/wire"
)

// watchdog is the longest time that a service manager waits for a sign of life.
const watchdog = 2 * time.Minute

// TestProgressFeedsAWatchdog: the loop gives a sign of life in time, whatever the gateway says. A loop that is stuck gives none.
func TestProgressFeedsAWatchdog(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(n *node)
		phase  string
		fed    bool
	}{
		{"online, slowly", func(n *node) { n.cfg.Interval = 10 * time.Minute }, identity.PhaseOnline, true},
		{"unreachable", func(n *node) { n.pipe.Down = func() bool { return true } }, identity.PhaseRetrying, true},
		{"refused for good", func(n *node) {
			n.g.Script = func(gatewaytest.Request) *gatewaytest.Reply { return gatewaytest.Refusal(403, wire.CodeRetired) }
		}, identity.PhaseRefused, true},
		{"answered too late", func(n *node) {
			n.g.Script = func(gatewaytest.Request) *gatewaytest.Reply { time.Sleep(45 * time.Second); return nil }
		}, identity.PhaseRetrying, true},
		{"stuck", func(n *node) {
			n.cfg.Fill = func(*wire.HeartbeatRequest) { time.Sleep(10 * time.Minute) }
		}, "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, false, nil)
				test.change(n)
				last := time.Now()
				longest := time.Duration(0)
				phase := ""
				n.cfg.Progress = func(now string) {
					longest = max(longest, time.Since(last))
					last = time.Now()
					phase = now
				}
				n.run(t, time.Hour)
				longest = max(longest, time.Since(last))
				time.Sleep(time.Minute) // for answers that are under way
				if fed := longest < watchdog; fed != test.fed {
					t.Errorf("the longest silence was %s", longest)
				}
				if test.fed && phase != test.phase {
					t.Errorf("phase %q, want %q", phase, test.phase)
				}
			})
		})
	}
}
