package heartbeat_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/wire"
)

// TestRenamed: the node keeps the name that a proven answer gives it, on the disk and for its status. Its certificate stays the same.
func TestRenamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, false, nil)
		var name atomic.Pointer[string]
		var proven atomic.Bool
		name.Store(new(string))
		proven.Store(true)
		n.g.Script = func(q gatewaytest.Request) *gatewaytest.Reply {
			if !strings.HasSuffix(q.Path, "/heartbeat") || q.Signature == nil || !strings.HasPrefix(q.Signature.Nonce, n.g.Epoch) {
				return nil
			}
			reply := n.g.JSON(200, wire.HeartbeatAnswer{State: "active", Epoch: n.g.Epoch, Time: n.g.Now(), Name: *name.Load()})
			reply.Unproven = !proven.Load()
			return reply
		}
		before := n.cfg.State
		for _, c := range []struct {
			says   string
			proven bool
			want   string
		}{
			{"", true, before.Name}, {"h100-a", true, "h100-a"}, {"forged", false, "h100-a"}, {"a\nb", true, "h100-a"}, {"h100-b", true, "h100-b"},
		} {
			name.Store(&c.says)
			proven.Store(c.proven)
			n.run(t, 2*time.Minute)
			state, err := n.cfg.Directory.Load()
			if err != nil || state.Name != c.want || state.NodeID != before.NodeID || state.Current.Key != before.Current.Key {
				t.Errorf("%q: on the disk %q, %v, want %q", c.says, state.Name, err, c.want)
			}
			if s := n.status(t); s.Name != c.want {
				t.Errorf("%q: the status says %q, want %q", c.says, s.Name, c.want)
			}
			n.cfg.State = state
		}
		if log := n.log.String(); strings.Count(log, "has renamed this node") != 2 {
			t.Errorf("logged:\n%s", log)
		}
	})
}
