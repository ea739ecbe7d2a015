package update

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/wire"
)

// TestByHand: a version that failed as an update may be installed by hand, and is not taken away again.
func TestByHand(t *testing.T) {
	p := newPlace(t)
	p.amend(func(r *Record) { r.Last.Trial.GaveUp = "x"; r.Node = "n1" })
	p.settle()
	u := New(Config{Folder: p.Base, State: newFleet(t).state(), Digest: digestPrefix + p.old})
	u.flush()
	if err := p.SetCurrent(p.new); err != nil {
		t.Fatal(err)
	}
	if v := p.settle(); v.Decision != GoOn || p.Current() != p.new {
		t.Errorf("%+v", v)
	}
	if said := u.Report(); said.Phase != wire.UpdateRolledBack {
		t.Errorf("%+v", said)
	}
}

// TestStoppedThenCrashes: only the start that was told to end does not count.
func TestStoppedThenCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.run(time.Hour)
		n.settle()
		n.run(2 * time.Second)
		n.run(2 * time.Second) // a restart in place: nobody settles
		r, err := n.load()
		if err != nil || r.Last.Trial == nil || !r.Last.Trial.Stopped || r.Last.Trial.Up != 1 {
			t.Fatalf("%+v, %v", r.Last.Trial, err)
		}
		short, cut := context.WithTimeout(t.Context(), time.Second)
		defer cut()
		u := New(Config{Folder: n.Base, State: n.state, Digest: digestPrefix + n.Current(), Answered: func() bool { return false }})
		ended := make(chan error)
		go func() { ended <- u.Run(short) }()
		synctest.Wait()
		if r, _ := n.load(); r.Last.Trial.Stopped {
			t.Error("it runs, and counts as stopped")
		}
		<-ended
	})
}

// TestAnotherPartFails: a version of which another part fails was not told to end: that start counts.
func TestAnotherPartFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.run(time.Hour)
		n.settle()
		ctx, end := context.WithCancelCause(t.Context())
		u := New(Config{Folder: n.Base, State: n.state, Digest: digestPrefix + n.Current(), Answered: func() bool { return false }})
		ended := make(chan error)
		go func() { ended <- u.Run(ctx) }()
		synctest.Wait()
		end(fmt.Errorf("the tasks: %w", context.Canceled))
		<-ended
		if r, err := n.load(); err != nil || r.Last.Trial == nil || r.Last.Trial.Stopped || r.Last.Trial.Starts != 1 {
			t.Errorf("%+v, %v", r.Last.Trial, err)
		}
	})
}

// TestShare: the shares of nodes spread over the stagger, and stay the same.
func TestShare(t *testing.T) {
	var quarters [4]int
	for i := range 400 {
		id := fmt.Sprintf("node-%d", i)
		at := share(id, 7, time.Hour)
		if at < 0 || at >= time.Hour || at != share(id, 7, time.Hour) {
			t.Fatalf("%s: %v", id, at)
		}
		quarters[at/(15*time.Minute)]++
	}
	for _, count := range quarters {
		if count < 60 || count > 140 {
			t.Errorf("%v", quarters)
		}
	}
	if share("n", 7, time.Hour) == share("n", 8, time.Hour) || share("n", 7, 0) != 0 || share("n", 7, -time.Second) != 0 {
		t.Error("the share does not go by the number, or by no time")
	}
}

// TestAcknowledged: a heartbeat that was accepted ends the report that it carried, and no other.
func TestAcknowledged(t *testing.T) {
	p := newPlace(t)
	p.amend(func(r *Record) {
		r.end(wire.UpdateRolledBack, wire.UpdateCrashed, "x")
		r.Last.Log = "log"
		r.Node = "n1"
	})
	p.SetCurrent(p.old)
	f := newFleet(t)
	u := New(Config{Folder: p.Base, State: f.state(), Digest: digestPrefix + p.old})
	for _, other := range []*wire.Update{nil, {Phase: wire.UpdateFetching}, {Phase: wire.UpdateRolledBack, Release: "x", About: 7}} {
		u.Heard(f.state(), other, wire.HeartbeatAnswer{})
		if said := u.Report(); said.Phase != wire.UpdateRolledBack || said.Log != "log" {
			t.Errorf("%+v ended %+v", other, said)
		}
	}
	u.Heard(f.state(), u.Report(), wire.HeartbeatAnswer{})
	if said := u.Report(); said.Phase != "" {
		t.Errorf("%+v", said)
	}
	u.flush()
	raw, _ := os.ReadFile(p.recordPath())
	var r Record
	if json.Unmarshal(raw, &r) != nil || !r.Last.Told || r.Last.Log != "" {
		t.Errorf("%s", raw)
	}
}

// TestSpare: in its first time a version on trial follows no wish of the gateway to be left alone. If the trial was extended it does,
// but for the end of that time.
func TestSpare(t *testing.T) {
	for name, c := range map[string]struct {
		extended int
		window   time.Duration
		want     time.Duration
	}{
		"first":      {0, 0, 0},
		"extended":   {1, 0, wire.TrialTime - spareEnd},
		"later":      {2, 30 * time.Second, wire.TrialTime - spareEnd - 30*time.Second},
		"at its end": {1, wire.TrialTime - spareEnd + time.Second, 0},
	} {
		p := newPlace(t)
		p.amend(func(r *Record) {
			r.Node = "n1"
			r.Last.Trial.Starts = 1
			r.Last.Trial.Extended = c.extended
			r.Last.Trial.Window = c.window.Milliseconds()
		})
		u := New(Config{Folder: p.Base, State: newFleet(t).state(), Digest: digestPrefix + p.new})
		u.clock = p.clock
		if got := u.Spare(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		u.proof = nil
		if got := u.Spare(); got != 0 {
			t.Errorf("%s: %v without a trial", name, got)
		}
	}
}
