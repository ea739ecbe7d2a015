package heartbeat_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/wire"
)

// TestWhyTheNodeIsHeldBack: what the gateway says about the node's state is in the status, and once per change in the log.
func TestWhyTheNodeIsHeldBack(t *testing.T) {
	for _, test := range []struct {
		name    string
		reasons []string
		level   string
		want    string
	}{
		{"conflict", []string{wire.ReasonConflict}, "ERROR", "two machines use the identity of this node"},
		{"health", []string{wire.HealthGPUCountDropped}, "WARN", "reasons=[gpu_count_dropped]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, false, nil)
				var held atomic.Bool
				n.g.Script = func(gatewaytest.Request) *gatewaytest.Reply {
					if !held.Load() {
						return nil
					}
					return n.g.JSON(200, wire.HeartbeatAnswer{State: "unavailable", StateReasons: test.reasons, Epoch: n.g.Epoch,
						Time: n.g.Now().UTC()})
				}
				time.AfterFunc(time.Minute, func() { held.Store(true) })
				n.run(t, 10*time.Minute)
				if s := n.status(t); s.State != "unavailable" || !slices.Equal(s.Reasons, test.reasons) || s.LastOnline == nil {
					t.Errorf("status %+v", s)
				}
				if log := n.log.String(); strings.Count(log, "level="+test.level) != 1 || !strings.Contains(log, test.want) {
					t.Errorf("logged:\n%s", log)
				}
			})
		})
	}
}

// TestHeldBackNoMore: a cure is logged as well.
func TestHeldBackNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, false, nil)
		var held atomic.Bool
		held.Store(true)
		n.g.Script = func(gatewaytest.Request) *gatewaytest.Reply {
			if !held.Load() {
				return nil
			}
			return n.g.JSON(200, wire.HeartbeatAnswer{State: "unavailable", StateReasons: []string{wire.ReasonSuspended}, Epoch: n.g.Epoch,
				Time: n.g.Now().UTC()})
		}
		time.AfterFunc(time.Minute, func() { held.Store(false) })
		n.run(t, 2*time.Minute)
		if s := n.status(t); s.State != "active" || len(s.Reasons) != 0 ||
			!strings.Contains(n.log.String(), "nothing holds this node back") {
			t.Errorf("status %+v\n%s", s, n.log.String())
		}
	})
}
