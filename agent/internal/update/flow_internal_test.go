package update

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/sign"
	"muster/agent/wire"
)

// TestUpdate: a release is fetched in pieces over two runs of the agent, put on trial, and committed.
func TestUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.release.StaggerSeconds = 600
		n.cuts = []int{40 << 10, 10} // the transport tries twice
		began := time.Now()
		due := share(n.state.NodeID, 7, 10*time.Minute)
		n.run(due + 5*time.Second)
		n.goes("first", "held stagger")
		if time.Since(began) < due || n.restarted || len(n.ranges.get()) != 2 {
			t.Errorf("after %v of %v: asked for %q", time.Since(began), due, n.ranges.get())
		}
		n.release.StaggerSeconds = 0
		n.run(time.Hour)
		if want := []string{"", "bytes=40960-", "bytes=40970-"}; !n.restarted || !slices.Equal(n.ranges.get(), want) ||
			n.Current() != hexOf(n.layer) || n.Good() != n.old {
			t.Fatalf("restarted %t, asked for %q, said %q", n.restarted, n.ranges.get(), n.said)
		}
		n.goes("a trial begins", "trial")
		if v := n.settle(); v.Decision != GoOn {
			t.Fatalf("%+v", v)
		}
		n.offer = ""
		n.run(time.Minute)
		n.goes("on trial", "trial", "committed")
		if n.Good() != hexOf(n.layer) || n.last.Sequence != 7 || n.last.Phase != "" {
			t.Errorf("good %.8s, last %+v", n.Good(), n.last)
		}
		entries, _ := os.ReadDir(n.Base + "/versions")
		if len(entries) != 2 { // this version, and the one before
			t.Errorf("%d files are left", len(entries))
		}
		n.offer = n.release.Digest
		n.publish(n.layer, func(p *wire.ReleasePointer) { p.Sequence = 12 })
		n.restarted = false
		n.run(time.Minute)
		n.goes("the same under a higher number")
		if r, _ := n.load(); n.restarted || r.floor("stable") != 12 || len(n.ranges.get()) != 3 {
			t.Errorf("restarted %t, floor %d, asked for %q", n.restarted, r.floor("stable"), n.ranges.get())
		}
	})
}

// TestTrialEnds: a version on trial beats fast, and ends itself when its time is over. The good version then goes back, and tells why.
func TestTrialEnds(t *testing.T) {
	for name, play := range map[string]func(n *node){
		"no heartbeat": func(n *node) { n.refuse = true }, "no wait": func(n *node) { n.silent = true },
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t)
			n.run(time.Hour)
			n.settle()
			play(n)
			n.waited = 0
			began := time.Now()
			err := n.run(time.Hour)
			if lived := time.Since(began); !errors.Is(err, ErrNotProven) || lived.Round(time.Second) != wire.TrialTime || n.waited < 8 {
				t.Errorf("%s: %v after %v, %d beats", name, err, lived, n.waited)
			}
			n.said = nil
			if v := n.settle(); v.Decision != GoBack || v.Code != wire.UpdateUnreachable || n.Current() != n.old {
				t.Errorf("%s: %+v", name, v)
			}
			n.refuse = false
			n.restarted = false
			n.ranges.set(nil)
			n.run(time.Hour)
			n.goes(name, "rolled_back no_gateway")
			if n.restarted || len(n.ranges.get()) > 0 || n.last.Sequence != 7 {
				t.Errorf("%s: the failed version was taken again: %+v", name, n.last)
			}
		})
	}
}

// TestTrialStopped: a stop of the agent is no crash, and the trial goes on with the next start.
func TestTrialStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.run(time.Hour)
		for range 5 {
			n.settle()
			if err := n.run(5 * time.Second); err != nil {
				t.Error(err)
			}
		}
		n.settle()
		n.run(time.Minute)
		if n.Good() != hexOf(n.layer) {
			t.Errorf("not committed: %q", n.said)
		}
	})
}

// TestPieces: a server may send less than it was asked for. Then the node asks for what is missing.
func TestPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.blob = func(q gatewaytest.Request) *gatewaytest.Reply {
			reply := n.part(q)
			reply.Whole = n.layer
			reply.Body = reply.Body[:min(len(reply.Body), 40<<10)]
			return reply
		}
		n.run(time.Hour)
		if asked := n.ranges.get(); !n.restarted || len(asked) != len(n.layer)/(40<<10)+1 || asked[1] != "bytes=40960-" {
			t.Errorf("restarted %t, asked for %q, said %q", n.restarted, asked, n.said)
		}
	})
}

// TestNotTaken: what stops an update before it begins, and what the gateway hears of it.
func TestNotTaken(t *testing.T) {
	for name, c := range map[string]struct {
		play func(n *node)
		want []string
		most int // requests for the layer within some hours
	}{
		"tasks run":        {func(n *node) { n.busy = true }, []string{"held tasks_run"}, 0},
		"no room":          {func(n *node) { n.free = 64 << 20 }, []string{"failed no_room"}, 0},
		"an older release": {func(n *node) { n.state.Gateway.ChannelSequence = 8 }, []string{"failed older"}, 0},
		"expired": {func(n *node) {
			n.publish(n.layer, func(p *wire.ReleasePointer) { p.Expires = p.NotBefore })
		}, []string{"failed not_valid"}, 0},
		"no release there": {func(n *node) {
			n.g.Script = func(q gatewaytest.Request) *gatewaytest.Reply {
				if q.Path == wire.PathRelease {
					return &gatewaytest.Reply{Status: 502, Body: []byte("<html>"), Unproven: true}
				}
				return nil
			}
		}, nil, 0},
		"a page": {func(n *node) {
			n.blob = func(gatewaytest.Request) *gatewaytest.Reply {
				return &gatewaytest.Reply{Status: 200, Body: []byte("<html>Just a moment..."), Unproven: true}
			}
		}, []string{"failed not_fetched"}, 25},
		"a redirect": {func(n *node) {
			n.blob = func(gatewaytest.Request) *gatewaytest.Reply {
				return &gatewaytest.Reply{Status: 302, Header: map[string]string{"Location": "https://elsewhere.example/"}, Unproven: true}
			}
		}, []string{"failed not_fetched"}, 25},
		"it stalls": {func(n *node) {
			n.blob = func(q gatewaytest.Request) *gatewaytest.Reply { <-q.Gone; return nil }
		}, []string{"failed not_fetched"}, 25},
		"another content": {func(n *node) {
			n.blob = func(q gatewaytest.Request) *gatewaytest.Reply {
				reply := n.part(q)
				reply.Body = append([]byte("x"), reply.Body[1:]...)
				return reply
			}
		}, []string{"failed bad_content"}, 25},
		"changed on its way": {func(n *node) {
			n.blob = func(q gatewaytest.Request) *gatewaytest.Reply {
				reply := n.part(q)
				reply.Whole = n.layer
				reply.Body = append([]byte("x"), reply.Body[1:]...)
				return reply
			}
		}, []string{"failed bad_content"}, 25},
		"more than it has": {func(n *node) {
			n.blob = func(q gatewaytest.Request) *gatewaytest.Reply {
				reply := n.part(q)
				reply.Whole = n.layer
				reply.Body = append(slices.Clone(reply.Body), 'x')
				return reply
			}
		}, []string{"failed bad_content"}, 25},
		"less than it has": {func(n *node) {
			n.blob = func(q gatewaytest.Request) *gatewaytest.Reply {
				reply := n.part(q)
				reply.Body = reply.Body[:len(reply.Body)-1]
				return reply
			}
		}, []string{"failed bad_content"}, 25},
		"it ends early": { // what has come is kept
			func(n *node) {
				n.blob = func(q gatewaytest.Request) *gatewaytest.Reply {
					reply := n.part(q)
					reply.Whole = n.layer
					reply.Body = reply.Body[:len(reply.Body)-1]
					return reply
				}
			}, []string{"failed not_fetched"}, 25},
		"it fails its test": {func(n *node) { n.publish([]byte("#!/bin/sh\nexit 3\n"), nil) }, []string{"failed self_test"}, 1},
		"it says nothing":   {func(n *node) { n.publish([]byte("#!/bin/sh\n"), nil) }, []string{"failed self_test"}, 1},
		"it hangs":          {func(n *node) { n.publish([]byte("#!/bin/sh\nsleep 30\n"), nil) }, []string{"failed self_test"}, 1},
		"it is no program":  {func(n *node) { n.publish([]byte("MZ\x00\x00"), nil) }, []string{"failed self_test"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			play := func(t *testing.T) {
				n := newNode(t)
				c.play(n)
				length := 8 * time.Hour
				if name == "it hangs" {
					length = 3 * time.Second
				}
				err := n.run(length)
				got := n.said[:min(len(n.said), len(c.want))]
				if err != nil || n.restarted || n.Current() != n.old || !slices.Equal(got, c.want) || len(n.ranges.get()) > c.most ||
					c.most > 0 && len(n.ranges.get()) == 0 {
					t.Errorf("%v, restarted %t, said %.6q, %d requests: %s", err, n.restarted, n.said, len(n.ranges.get()), n.last.Detail)
				}
			}
			if name == "it hangs" { // a real program hangs in real time
				play(t)
				return
			}
			synctest.Test(t, play)
		})
	}
}

// TestTaughtTime: a gateway was taken over, and teaches a time at which a pointer that it has held back was good. It is not taken.
func TestTaughtTime(t *testing.T) {
	for _, taught := range []time.Duration{-45 * 24 * time.Hour, 45 * 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(365 * 24 * time.Hour)
			n := newNode(t)
			good := time.Now().Add(taught).UTC()
			n.publish(n.layer, func(p *wire.ReleasePointer) { p.NotBefore = good.Add(-time.Hour); p.Expires = good.Add(time.Hour) })
			n.g.Now = func() time.Time { return time.Now().Add(taught) }
			n.run(30 * time.Minute)
			n.goes(taught.String(), "failed not_valid")
		})
	}
}

// TestWithdrawn: what the gateway does not want any more is not fetched.
func TestWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.release.StaggerSeconds = 3600
		n.until = time.Now().Add(10 * time.Second)
		n.run(2 * time.Hour)
		n.goes("withdrawn", "held stagger")
		if n.restarted || len(n.ranges.get()) > 0 || n.last.Phase != "" {
			t.Errorf("asked for %q, %+v", n.ranges.get(), n.last)
		}
	})
}

// TestNewKey: a pointer of a key that is not known makes the node follow the trust sets, and is taken where a newer one names the key. The
// gateway hears of no failure.
func TestNewKey(t *testing.T) {
	for pace, newer := range map[time.Duration]time.Duration{30 * time.Second: 0, 10 * time.Minute: time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t)
			n.pace = pace
			n.newer = time.Now().Add(newer)
			n.release.Pointer = n.f.seal(n.f.unknown, sign.RoleRelease, n.f.pointer(n.layer))
			n.run(2 * time.Minute)
			if !n.restarted || slices.ContainsFunc(n.said, func(s string) bool { return strings.HasPrefix(s, "failed") }) {
				t.Errorf("a heartbeat each %v: restarted %t, said %q", pace, n.restarted, n.said)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.newer = time.Now()
		n.release.Pointer = n.f.seal(newKey(t), sign.RoleRelease, n.f.pointer(n.layer))
		n.run(10 * time.Minute)
		n.goes("a forged one", "failed bad_pointer")
	})
}

// TestChannel: the channel and its floor come from proven answers, and another enrolment begins anew.
func TestChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.offer = ""
		n.run(time.Minute)
		u := New(Config{Folder: n.Base, State: n.state, Digest: digestPrefix + n.old})
		u.Heard(n.state, u.Report(), wire.HeartbeatAnswer{Channel: "edge", ChannelSequence: 40})
		u.Heard(n.state, u.Report(), wire.HeartbeatAnswer{Channel: "edge", ChannelSequence: 30})
		u.flush()
		u = New(Config{Folder: n.Base, State: n.state, Digest: digestPrefix + n.old})
		if said := u.Report(); said.Channel != "edge" || said.Sequence != 40 {
			t.Errorf("%+v", said)
		}
		n.state.NodeID = "another"
		u = New(Config{Folder: n.Base, State: n.state, Digest: digestPrefix + n.old})
		if said := u.Report(); said.Channel != "stable" || said.Sequence != 0 {
			t.Errorf("after another enrolment: %+v", said)
		}
		if u := New(Config{Folder: n.Base, State: n.state, Digest: digestPrefix + hexOf(nil)}); u.Report() != nil {
			t.Error("a program that is not installed says that it updates itself")
		}
		os.WriteFile(n.recordPath(), []byte("{"), 0o600)
		if u := New(Config{Folder: n.Base, State: n.state}); len(u.Notices()) != 1 {
			t.Error("nobody hears of a damaged record")
		}
	})
}

// TestTakeUp: what a record says of an update that stopped in between.
func TestTakeUp(t *testing.T) {
	for name, c := range map[string]struct {
		starts  int
		current bool // the new version
		good    bool
		runs    bool
		phase   string
	}{
		"never begun":                {0, false, false, false, ""},
		"back, and not written":      {2, false, false, false, "rolled_back no_room"},
		"on trial":                   {1, true, false, true, "trial"},
		"committed, and not written": {1, true, true, true, "committed"},
	} {
		p := newPlace(t)
		p.amend(func(r *Record) { r.Last.Trial.Starts = c.starts; r.Node = "n1" })
		running := p.old
		if c.runs {
			running = p.new
		}
		if !c.current {
			p.SetCurrent(p.old)
		}
		if c.good {
			p.SetGood(p.new)
		}
		f := newFleet(t)
		u := New(Config{Folder: p.Base, State: f.state(), Digest: digestPrefix + running})
		said := u.Report()
		if got := strings.TrimSpace(said.Phase + " " + said.Code); got != c.phase || said.Sequence != 7 {
			t.Errorf("%s: %+v", name, said)
		}
		if on := u.Pace() == wire.TrialBeat; on != (c.phase == "trial") {
			t.Errorf("%s: pace %v", name, u.Pace())
		}
	}
}
