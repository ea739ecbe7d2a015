package heartbeat_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/wire"
)

// led is a node that several URLs lead to its gateway.
type led struct {
	*node
	down  atomic.Pointer[string] // the host that refuses
	heard atomic.Pointer[string] // the host that was dialled last
}

func newLed(t *testing.T) *led {
	l := &led{node: newNode(t, true, nil)}
	l.down.Store(new(string))
	l.cfg.State.Gateway.URL = "https://gw1.test"
	l.start(t)
	return l
}

// start makes a new client, as a new start of the agent does.
func (l *led) start(t *testing.T) {
	t.Helper()
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, _ := net.SplitHostPort(address)
		if host == *l.down.Load() {
			return nil, errors.New("connection refused")
		}
		l.heard.Store(&host)
		return l.pipe.Dial(ctx, network, address)
	}
	client, err := transport.New(transport.Config{Gateway: "https://gw1.test", Dial: dial})
	if err != nil {
		t.Fatal(err)
	}
	l.cfg.Client = client
}

// TestFollowsTheGateways: the node keeps the list of a proven answer on the disk, goes to the next gateway where one cannot be reached,
// says so, and begins there after a restart.
func TestFollowsTheGateways(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLed(t)
		var list atomic.Pointer[[]string]
		l.g.Script = func(q gatewaytest.Request) *gatewaytest.Reply {
			if !strings.HasSuffix(q.Path, "/heartbeat") || q.Signature == nil && q.Peer == nil ||
				q.Signature != nil && !strings.HasPrefix(q.Signature.Nonce, l.g.Epoch) {
				return nil
			}
			return l.g.JSON(200, wire.HeartbeatAnswer{State: "active", Epoch: l.g.Epoch, Time: l.g.Now(), Gateways: *list.Load()})
		}
		hour := func(down string, says, want []string, last, dialed string) {
			t.Helper()
			l.down.Store(&down)
			list.Store(&says)
			l.run(t, time.Hour)
			state, err := l.cfg.Directory.Load()
			if err != nil || !slices.Equal(state.Gateway.Gateways, want) || state.Gateway.Last != last || state.Gateway.URL != "https://gw1.test" {
				t.Errorf("on the disk is %q, %q, %v, want %q, %q", state.Gateway.Gateways, state.Gateway.Last, err, want, last)
			}
			s := l.status(t)
			if *l.heard.Load() != dialed || s.Through != last || s.Gateway != "https://gw1.test" || s.Phase != identity.PhaseOnline {
				t.Errorf("it has talked to %s, and says %q (%s)", *l.heard.Load(), s.Through, s.Phase)
			}
			l.cfg.State = state
			l.start(t)
		}
		both := []string{"https://gw1.test", "https://gw2.test"}
		if err := l.cfg.Directory.Save(l.cfg.State); err != nil {
			t.Fatal(err)
		}
		hour("", nil, nil, "", "gw1.test")
		hour("", []string{"https://evil.test"}, []string{"https://evil.test"}, "", "gw1.test")
		hour("", append(both, "http://gw3.test", "https://gw4.test/path"), both, "", "gw1.test")
		hour("gw1.test", both, both, "https://gw2.test", "gw2.test")
		hour("", both, both, "https://gw2.test", "gw2.test")
		hour("gw2.test", both, both, "", "gw1.test")
		hour("gw1.test", both, both, "https://gw2.test", "gw2.test")
		second := both[1:]
		hour("", nil, second, "https://gw2.test", "gw2.test")
		hour("gw1.test", nil, second, "https://gw2.test", "gw2.test")
		hour("", both, both, "https://gw2.test", "gw2.test")
	})
}

// TestForgedGateways: a list in an answer that is not proven counts for nothing.
func TestForgedGateways(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, false, nil)
		n.g.Script = func(q gatewaytest.Request) *gatewaytest.Reply {
			reply := n.g.JSON(200, wire.HeartbeatAnswer{State: "active", Epoch: n.g.Epoch, Time: n.g.Now(), Gateways: []string{"https://evil.test"}})
			reply.Unproven = true
			return reply
		}
		n.run(t, time.Hour)
		state, err := n.cfg.Directory.Load()
		if err != nil || len(state.Gateway.Gateways) > 0 || len(n.g.Requests("/heartbeat")) == 0 {
			t.Errorf("on the disk is %q, %v", state.Gateway.Gateways, err)
		}
	})
}
