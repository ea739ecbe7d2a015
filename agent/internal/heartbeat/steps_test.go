package heartbeat_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/wire"
)

// step is a place at which a renewal is cut off.
type step struct {
	name   string
	down   bool // the gateway cannot be reached at all
	path   string
	newOne bool // only once the new pair is on the disk
	before bool // the gateway hears of it: else the answer is lost
	disk   bool // the answer arrives and cannot be saved
}

// TestSteps cuts a renewal off at one step after the other, as a crash or a broken connection would. It goes on from what is on the disk:
// the next try uses the same key, and the node never stops.
func TestSteps(t *testing.T) {
	for _, c := range []step{
		{name: "before it is asked", down: true},
		{name: "asked, not heard", path: "/renew", before: true},
		{name: "issued, not answered", path: "/renew"},
		{name: "answered, not saved", path: "/renew", disk: true},
		{name: "saved, not used", path: "/heartbeat", newOne: true, before: true},
		{name: "used, not answered", path: "/heartbeat", newOne: true},
	} {
		for _, restarts := range []bool{false, true} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					n := newNode(t, false, nil)
					n.cfg.Interval = 5 * time.Minute
					time.Sleep(15*time.Hour + time.Minute)
					mend := n.cut(t, c)
					if restarts {
						n.run(t, 90*time.Minute)
						mend()
						n.reload(t)
					} else {
						time.AfterFunc(90*time.Minute, mend)
					}
					n.run(t, 150*time.Minute)
					n.reload(t)
					if s := n.cfg.State; s.Current.Generation < 2 || s.Pending != "" || n.status(t).Phase != identity.PhaseOnline {
						t.Errorf("generation %d, status %+v", s.Current.Generation, n.status(t))
					}
					keys := map[string]bool{}
					for _, r := range n.g.Requests("/renew") {
						var request wire.RenewRequest
						if err := json.Unmarshal(r.Body, &request); err != nil {
							t.Fatal(err)
						}
						keys[gatewaytest.CSRKey(t, request.CSR)] = true
					}
					if len(keys) != 1 {
						t.Errorf("%d keys were used for one renewal", len(keys))
					}
				})
			})
		}
	}
}

// reload is an agent that is started again, with what it finds on the disk.
func (n *node) reload(t *testing.T) {
	t.Helper()
	state, err := n.cfg.Directory.Load()
	if err != nil || state.Current == nil {
		t.Fatalf("nothing to go on with: %v", err)
	}
	n.cfg.State = state
}

// cut makes a step fail until mend is called.
func (n *node) cut(t *testing.T, c step) (mend func()) {
	var mended atomic.Bool
	block := filepath.Join(n.cfg.Directory.Path(), "identity.json.new")
	hit := func(q gatewaytest.Request) bool {
		if mended.Load() || c.down || !strings.HasSuffix(q.Path, c.path) {
			return false
		}
		state, err := n.cfg.Directory.Load()
		if err != nil {
			t.Error(err)
		}
		return !c.newOne || state.Current.Generation > 1
	}
	n.pipe.Down = func() bool { return c.down && !mended.Load() }
	n.g.Script = func(q gatewaytest.Request) *gatewaytest.Reply {
		if c.before && hit(q) {
			return &gatewaytest.Reply{Hangup: true}
		}
		return nil
	}
	n.g.Tamper = func(q gatewaytest.Request, _ *gatewaytest.Reply) {
		switch {
		case c.before || !hit(q):
		case c.disk:
			if err := os.MkdirAll(block, 0o700); err != nil {
				t.Error(err)
			}
		default:
			panic(http.ErrAbortHandler)
		}
	}
	return func() {
		mended.Store(true)
		os.RemoveAll(block)
	}
}
