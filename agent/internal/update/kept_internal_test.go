package update

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/disk/disktest"
	"muster/agent/wire"
)

// newKeptPlace has a version that was committed, and the one before.
func newKeptPlace(t *testing.T) *place {
	t.Helper()
	p := newPlace(t)
	err := errors.Join(p.SetGood(p.new), p.KeepBefore())
	p.amend(func(r *Record) { r.end(wire.UpdateCommitted, "", "") })
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// fails starts the version so often, and it ends after a while each time. It gives what was decided before the start after that.
func (p *place) fails(times int, after time.Duration) Verdict {
	for range times {
		p.settle()
		p.at += after
	}
	return p.settle()
}

// TestSettleKept: a version that was committed and cannot stay up long enough to report is left, once.
func TestSettleKept(t *testing.T) {
	for name, c := range map[string]struct {
		play  func(p *place) Verdict
		want  Decision
		code  string
		calls int
	}{
		"it ends four times":     {func(p *place) Verdict { return p.fails(4, time.Second) }, GoOn, "", 0},
		"it ends five times":     {func(p *place) Verdict { return p.fails(5, time.Second) }, GoBack, wire.UpdateCrashed, 1},
		"it hangs at each start": {func(p *place) Verdict { return p.fails(5, 77*time.Second) }, GoBack, wire.UpdateCrashed, 1},
		"each run is long":       {func(p *place) Verdict { return p.fails(20, 90*time.Second) }, GoOn, "", 0},
		"the clock of the machine is lost": {func(p *place) Verdict {
			p.boot = ""
			p.at = 0
			return p.fails(5, 0)
		}, GoBack, wire.UpdateCrashed, 1},
		"the machine starts anew each time": {func(p *place) Verdict {
			for i := range 10 {
				p.boot = strings.Repeat("x", i+1)
				p.settle()
			}
			return p.settle()
		}, GoOn, "", 0},
		"the gateway hears of each run": {func(p *place) Verdict {
			for range 10 {
				p.settle()
				p.amend(func(r *Record) { r.stays(p.new) })
			}
			return p.settle()
		}, GoOn, "", 0},
		"the gateway is away": {func(p *place) Verdict { p.away = true; return p.fails(5, time.Second) }, Extend, "", 1},
		"the gateway was away": {func(p *place) Verdict {
			p.away = true
			p.fails(12, time.Second)
			p.away = false
			return p.fails(2, time.Second)
		}, GoBack, wire.UpdateCrashed, 3},
		"it ends while it asks": {func(p *place) Verdict {
			for range 10 {
				s := p.settling()
				s.Call = func(context.Context) error { panic("of the version that asks") }
				func() {
					defer func() { _ = recover() }()
					Settle(t.Context(), s)
				}()
			}
			return p.settle()
		}, GoBack, wire.UpdateCrashed, 0},
		"it cannot be started": {func(p *place) Verdict {
			s := p.settling()
			s.Broken = "exec format error"
			return Settle(t.Context(), s)
		}, GoBack, wire.UpdateNoStart, 0},
		"the version before is gone": {func(p *place) Verdict { os.Remove(p.Version(p.old)); return p.fails(20, 0) }, GoOn, "", 0},
		"the disk is full":           {func(p *place) Verdict { p.full = disktest.Named(fullDisk); return p.fails(20, 0) }, GoOn, "", 0},
		"a guard looks":              {func(p *place) Verdict { p.fails(4, time.Second); p.guarded(); return p.guarded() }, GoOn, "", 0},
	} {
		p := newKeptPlace(t)
		v := c.play(p)
		if v.Decision != c.want || v.Code != c.code || p.calls != c.calls || (v.Detail == "") != (v.Decision == GoOn) {
			t.Errorf("%s: %+v after %d calls", name, v, p.calls)
		}
		want := p.new
		if c.want == GoBack {
			want = p.old
		}
		if p.Current() != want || p.Good() != want {
			t.Errorf("%s: %.8s is current, %.8s is good", name, p.Current(), p.Good())
		}
		if c.want != GoBack {
			continue
		}
		r, err := p.load()
		if l := r.Last; err != nil || l.Phase != wire.UpdateRolledBack || l.Code != c.code || l.Release != releaseDigest || l.About != 7 ||
			l.Told || r.Kept.To != "" || r.failedAt("stable", releaseDigest) != 7 {
			t.Errorf("%s: the record says %+v, %v", name, r, err)
		}
		if v := p.fails(20, time.Second); v.Decision != GoOn || p.Current() != p.old {
			t.Errorf("%s: then %+v", name, v)
		}
	}
}

// TestSettleAnotherThanKept: what a person has installed since is not left for the version before the last update.
func TestSettleAnotherThanKept(t *testing.T) {
	p := newKeptPlace(t)
	third := build(t, p.files, "third")
	if err := errors.Join(p.SetCurrent(third), p.SetGood(third)); err != nil {
		t.Fatal(err)
	}
	if v := p.fails(20, time.Second); v.Decision != GoOn || p.Current() != third || p.calls != 0 {
		t.Errorf("%+v, %.8s is current", v, p.Current())
	}
}

// TestKeptThroughAnotherTrial: the version before is there until the next commit, whatever was tried in between.
func TestKeptThroughAnotherTrial(t *testing.T) {
	p := newKeptPlace(t)
	third := build(t, p.files, "third")
	p.amend(func(r *Record) {
		r.Last = Last{Channel: "stable", Release: "sha256:22", About: 8, Phase: wire.UpdateTrial, From: p.new, To: third, Trial: &Trial{}}
	})
	if err := errors.Join(p.PrepareBack(p.new), p.SetCurrent(third)); err != nil {
		t.Fatal(err)
	}
	if v := p.fails(3, time.Second); v.Decision != GoBack || p.Current() != p.new {
		t.Fatalf("%+v", v)
	}
	if err := p.Prune(); err != nil {
		t.Fatal(err)
	}
	entries, _ := filepath.Glob(p.Base + "/versions/*")
	if v := p.fails(5, time.Second); v.Decision != GoBack || p.Current() != p.old || len(entries) != 2 {
		t.Errorf("%+v, %q", v, entries)
	}
}

// TestGoesBackAfterTheCommit: the gateway hears of the way back, and the version that did not stay up is not taken again.
func TestGoesBackAfterTheCommit(t *testing.T) {
	n := newLife(t, newFleet(t), false)
	n.later = true
	for range 12 {
		n.turn(nil)
	}
	r, err := n.load()
	if want := []string{"committed", "rolled_back crashed"}; !slices.Equal(n.said, want) || n.fetched != 1 ||
		n.Current() != n.old || n.Good() != n.old || err != nil {
		t.Errorf("said %q, fetched %d times, current %.8s, good %.8s, %+v, %v", n.said, n.fetched, n.Current(), n.Good(), r, err)
	}
}

// TestStays: a version that reports, or is told to end, is not left, however often it is started.
func TestStays(t *testing.T) {
	n := newLife(t, newFleet(t), false)
	for range 12 {
		n.turn(nil)
	}
	if r, err := n.load(); n.Current() != n.new || err != nil || r.Kept.Trial != nil {
		t.Errorf("current %.8s, %+v, %v", n.Current(), r.Kept, err)
	}
	for range 12 {
		n.at += time.Second
		Settle(t.Context(), Settling{Base: n.Base, clock: n.clock})
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := n.process(n.new, nil).Run(ctx); err != nil {
			t.Error(err)
		}
	}
	if n.Current() != n.new {
		t.Error("it was left although each end was asked for")
	}
	for range 6 {
		Settle(t.Context(), Settling{Base: n.Base, clock: n.clock})
		ctx, fail := context.WithCancelCause(t.Context())
		fail(errors.New("another part has failed"))
		if err := n.process(n.new, nil).Run(ctx); err != nil {
			t.Error(err)
		}
	}
	if n.Current() != n.old {
		t.Error("it was not left although it failed each time")
	}
}

// TestEndsAtItsStart: a program that ends as soon as it is started has crashed. One that cannot be started is another matter.
func TestEndsAtItsStart(t *testing.T) {
	p := newPlace(t)
	p.new = build(t, p.files, "#!/bin/sh\nexit 3\n")
	p.amend(func(r *Record) { r.Last.To = p.new })
	if err := p.SetCurrent(p.new); err != nil {
		t.Fatal(err)
	}
	if v := p.fails(3, time.Second); v.Decision != GoBack || v.Code != wire.UpdateCrashed || p.Current() != p.old {
		t.Errorf("%+v", v)
	}
}
