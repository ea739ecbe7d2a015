package update

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/internal/transport"
	"muster/agent/sign"
	"muster/agent/wire"
)

// runsIt makes what the node runs the wanted release.
func (n *node) runsIt(change func(*wire.ReleasePointer)) {
	n.t.Helper()
	program, err := os.ReadFile(n.Version(n.old))
	if err != nil {
		n.t.Fatal(err)
	}
	n.publish(program, change)
}

// TestWithheld: a node whose gateway gives it no pointer any more says so from the end of the last one on, and stays as it is. A later end
// of the same pointer cures it.
func TestWithheld(t *testing.T) {
	const words = "the gateway may hold newer ones back"
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		complains := func() bool {
			return slices.ContainsFunc(n.notices.get(), func(notice string) bool { return strings.HasSuffix(notice, words) })
		}
		n.runsIt(nil)
		end := time.Now().Add(48 * time.Hour)
		n.run(time.Minute)
		n.offer = ""
		if r, err := n.load(); err != nil || r.Ends == nil || !r.Ends.Equal(end) || complains() {
			t.Fatalf("it knows %+v, %v", r, err)
		}
		n.run(47 * time.Hour)
		if complains() {
			t.Error("it complains before the end")
		}
		n.run(2 * time.Hour)
		if !complains() || n.Current() != n.old || n.restarted || n.last.Phase != "" {
			t.Errorf("after the end it says %q and %+v", n.notices.get(), n.last)
		}
		n.runsIt(nil)
		n.run(time.Minute)
		if complains() {
			t.Error("it complains of a pointer that was renewed")
		}
	})
}

// TestEndsForgotten: another channel has other pointers, and another gateway too.
func TestEndsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.runsIt(nil)
		n.run(time.Minute)
		fresh := func() *Updater { return New(Config{Folder: n.Base, State: n.state, Digest: digestPrefix + n.old}) }
		u := fresh()
		if u.Ends() == nil {
			t.Fatal("it knows no end")
		}
		u.Heard(n.state, u.Report(), wire.HeartbeatAnswer{Channel: "edge", ChannelSequence: 1})
		if u.Ends() != nil {
			t.Error("it takes the end over to another channel")
		}
		n.state.NodeID = "another"
		if fresh().Ends() != nil {
			t.Error("it takes the end over to another enrolment")
		}
	})
}

// TestEndsUnbelieved: a pointer that is not believed moves no end, and one of what runs already is no failed release.
func TestEndsUnbelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.runsIt(nil)
		n.run(time.Minute)
		before, _ := n.load()
		n.runsIt(func(p *wire.ReleasePointer) { p.Expires = time.Now() })
		n.run(10 * time.Minute)
		if len(n.said) != 0 {
			t.Errorf("of a pointer that is past its end to what runs it says %v", n.said)
		}
		n.release.Pointer = n.f.seal(newKey(t), sign.RoleRelease, n.f.pointer(n.layer))
		n.run(10 * time.Minute)
		if after, err := n.load(); err != nil || !after.Ends.Equal(*before.Ends) {
			t.Errorf("it knows %v, and knew %v: %v", after.Ends, before.Ends, err)
		}
	})
}

// TestWithheldByEitherClock: a gateway that teaches an old time hides no end, and a node whose clock is behind goes by the gateway's.
func TestWithheldByEitherClock(t *testing.T) {
	for taught, want := range map[time.Duration]int{0: 0, -time.Hour: 0, time.Hour: 1} {
		for own, end := range map[int]time.Duration{0: 30 * time.Minute, 1: -30 * time.Minute} {
			client, err := transport.New(transport.Config{Gateway: "http://gateway.example"})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			client.LearnTime(time.Now().Add(taught))
			u := New(Config{Client: client, Folder: t.TempDir()})
			ends := time.Now().Add(end)
			u.record.Ends = &ends
			if got := len(u.Notices()); got != max(want, own) {
				t.Errorf("taught %v, end in %v: %d notices, want %d", taught, end, got, max(want, own))
			}
		}
	}
}
