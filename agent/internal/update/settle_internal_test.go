package update

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/agent/disk"
	"muster/agent/disk/disktest"
	"muster/agent/internal/identity"
	"muster/agent/internal/service"
	"muster/agent/wire"
)

// place is a state directory with a good version and one on trial.
type place struct {
	files
	t        *testing.T
	old, new string // builds
	boot     string
	at       time.Duration
	away     bool // the good version does not reach the gateway
	calls    int
	full     disk.Steps
}

// releaseDigest is the release on trial.
const releaseDigest = "sha256:11"

func build(t testing.TB, f files, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), service.Name)
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
	digest, err := f.Install(path)
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// newPlace has a version on trial that was not started yet.
func newPlace(t *testing.T) *place {
	p := &place{files: newFiles(t.TempDir()), t: t, boot: "one", at: time.Hour}
	p.old = build(t, p.files, "old")
	p.new = build(t, p.files, "new")
	r := Record{Channel: "stable", Floors: map[string]int64{"stable": 7}, Last: Last{
		Channel: "stable", Release: releaseDigest, About: 7, Version: "2", Phase: wire.UpdateTrial, From: p.old, To: p.new,
		Trial: &Trial{Boot: p.boot, At: p.at.Milliseconds()},
	}}
	for _, err := range []error{p.SetGood(p.old), p.save(r), p.PrepareBack(p.old), p.SetCurrent(p.new)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func (p *place) clock() (string, int64) { return p.boot, p.at.Milliseconds() }

func (p *place) settling() Settling {
	return Settling{Base: p.Base, clock: p.clock, steps: p.full, Call: func(context.Context) error {
		p.calls++
		if p.away {
			return errors.New("connection refused")
		}
		return nil
	}}
}

func (p *place) settle() Verdict { return Settle(p.t.Context(), p.settling()) }

// guarded is what a guard decides now.
func (p *place) guarded() Verdict {
	s := p.settling()
	s.Running = true
	return Settle(p.t.Context(), s)
}

// amend changes the record as the version on trial does.
func (p *place) amend(change func(*Record)) {
	p.t.Helper()
	r, err := p.load()
	if err != nil {
		p.t.Fatal(err)
	}
	change(&r)
	if err := p.save(r); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) up() {
	p.amend(func(r *Record) { r.Last.Trial.tick(p.clock); r.Last.Trial.Up = r.Last.Trial.Starts })
}

func (p *place) giveUp() {
	p.amend(func(r *Record) { r.Last.Trial.tick(p.clock); r.Last.Trial.GaveUp = "no heartbeat was accepted" })
}

func (p *place) stop() {
	p.amend(func(r *Record) { r.Last.Trial.tick(p.clock); r.Last.Trial.Stopped = true })
}

func TestSettle(t *testing.T) {
	for name, c := range map[string]struct {
		play  func(p *place) Verdict
		want  Decision
		code  string
		calls int
	}{
		"the first start": {(*place).settle, GoOn, "", 0},
		"the third start": {func(p *place) Verdict { p.settle(); p.settle(); return p.settle() }, GoOn, "", 0},
		"it is no program": {func(p *place) Verdict {
			p.settle()
			p.settle()
			p.settle()
			return p.settle()
		}, GoBack, wire.UpdateNoStart, 0},
		"it crashed three times": {func(p *place) Verdict {
			for range 3 {
				p.settle()
				p.up()
				p.at += 5 * time.Second
			}
			return p.settle()
		}, GoBack, wire.UpdateCrashed, 0},
		"told to end, again and again": {func(p *place) Verdict {
			for range 8 {
				p.settle()
				p.up()
				p.at += 5 * time.Second
				p.stop()
			}
			return p.settle()
		}, GoOn, "", 0},
		"told to end, until its time is over": {func(p *place) Verdict {
			for range 18 {
				p.settle()
				p.up()
				p.at += 5 * time.Second
				p.stop()
			}
			return p.settle()
		}, GoBack, wire.UpdateHung, 1},
		"stopped for an hour": {func(p *place) Verdict {
			p.settle()
			p.up()
			p.at += 5 * time.Second
			p.stop()
			p.at += time.Hour
			return p.settle()
		}, GoOn, "", 0},
		"stopped for an hour, then it hangs": {func(p *place) Verdict {
			p.settle()
			p.up()
			p.stop()
			p.at += time.Hour
			p.settle()
			p.at += wire.TrialTime
			return p.settle()
		}, GoBack, wire.UpdateHung, 1},
		"stopped for an hour, and guarded": {func(p *place) Verdict {
			p.settle()
			p.up()
			p.stop()
			p.at += time.Hour
			return p.guarded()
		}, GoOn, "", 0},
		"told to end, and runs on": {func(p *place) Verdict {
			closed := os.Chmod(p.Base, 0o700)
			running, err := identity.Open(p.Base)
			if errors.Join(closed, err) != nil {
				p.t.Fatal(closed, err)
			}
			defer running.Close()
			p.settle()
			p.up()
			p.stop()
			p.at += wire.TrialTime
			return p.guarded()
		}, GoBack, wire.UpdateHung, 1},
		"killed after half a minute": {func(p *place) Verdict {
			p.settle()
			p.up()
			p.at += 31 * time.Second
			return p.settle()
		}, GoBack, wire.UpdateHung, 1},
		"the power failed after half a minute": {func(p *place) Verdict {
			p.settle()
			p.up()
			p.boot = "two"
			p.at = 10 * time.Second
			return p.settle()
		}, GoOn, "", 0},
		"hangs before it comes up": {func(p *place) Verdict {
			p.settle()
			p.at += wire.TrialTime
			return p.settle()
		}, GoBack, wire.UpdateHung, 1},
		"gave up": {func(p *place) Verdict { p.settle(); p.up(); p.giveUp(); return p.settle() }, GoBack, wire.UpdateUnreachable, 1},
		"gave up, the gateway is away": {func(p *place) Verdict {
			p.away = true
			p.settle()
			p.up()
			p.giveUp()
			return p.settle()
		}, Extend, "", 1},
		"the gateway is away for longer than the cap": {func(p *place) Verdict {
			p.away = true
			for range 10 {
				p.settle()
				p.up()
				p.at += wire.TrialTime
				p.giveUp()
			}
			return p.settle()
		}, GoBack, wire.UpdateUnreachable, 9},
		"crashes after an extension": {func(p *place) Verdict {
			p.away = true
			p.settle()
			p.up()
			p.giveUp()
			for range 3 {
				p.settle()
				p.at += time.Second
			}
			return p.settle()
		}, GoBack, wire.UpdateNoStart, 1},
		"no call": {func(p *place) Verdict {
			p.settle()
			p.giveUp()
			s := p.settling()
			s.Call = nil
			return Settle(p.t.Context(), s)
		}, GoBack, wire.UpdateUnreachable, 0},
		"a guard looks early": {func(p *place) Verdict {
			p.settle()
			s := p.settling()
			s.Running = true
			for range 5 {
				p.at += 6 * time.Second
				Settle(p.t.Context(), s)
			}
			return Settle(p.t.Context(), s)
		}, GoOn, "", 0},
		"a guard looks late": {func(p *place) Verdict {
			p.settle()
			s := p.settling()
			s.Running = true
			p.at += wire.TrialTime
			return Settle(p.t.Context(), s)
		}, GoBack, wire.UpdateHung, 1},
		"what keeps the agent could not start it": {func(p *place) Verdict {
			s := p.settling()
			s.Broken = "exec format error"
			return Settle(p.t.Context(), s)
		}, GoBack, wire.UpdateNoStart, 0},
		"it is torn": {func(p *place) Verdict {
			os.WriteFile(p.Version(p.new), []byte("n"), 0o755)
			return p.settle()
		}, GoBack, wire.UpdateNoStart, 0},
		"it is not executable": {func(p *place) Verdict { os.Chmod(p.Version(p.new), 0o644); return p.settle() }, GoBack, wire.UpdateNoStart, 0},
		"it is gone": {func(p *place) Verdict {
			os.RemoveAll(filepath.Dir(p.Version(p.new)))
			return p.settle()
		}, GoBack, wire.UpdateNoStart, 0},
		"current is gone": {func(p *place) Verdict { os.Remove(p.Base + "/current"); return p.settle() }, GoBack, wire.UpdateNoStart, 0},
		"the record is damaged, and it never comes up": {func(p *place) Verdict {
			os.WriteFile(p.recordPath(), []byte(`{"last":{"pha`), 0o600)
			for range 3 {
				p.settle()
			}
			return p.settle()
		}, GoBack, wire.UpdateNoStart, 0},
		"the record is of a later version": {func(p *place) Verdict {
			p.amend(func(r *Record) { r.Last.Phase = "probation" })
			for range 3 {
				p.settle()
			}
			return p.settle()
		}, GoBack, wire.UpdateNoStart, 0},
		"the clock of the machine stands still": {func(p *place) Verdict {
			p.boot = ""
			p.at = 0
			for range 3 {
				p.settle()
			}
			return p.settle()
		}, GoBack, wire.UpdateNoStart, 0},
		"the time since the boot goes back": {func(p *place) Verdict {
			p.settle()
			p.at -= 30 * time.Minute
			return p.settle()
		}, GoOn, "", 0},
		"the disk is full": {func(p *place) Verdict {
			p.full = disktest.Named(fullDisk)
			return p.settle()
		}, GoBack, wire.UpdateNoRoom, 0},
		"the way back was interrupted": {func(p *place) Verdict {
			p.amend(func(r *Record) { r.end(wire.UpdateRolledBack, wire.UpdateCrashed, "it crashed") })
			return p.settle()
		}, GoBack, wire.UpdateCrashed, 0},
		"the commit was interrupted": {func(p *place) Verdict {
			if err := p.SetGood(p.new); err != nil {
				p.t.Fatal(err)
			}
			for range 4 {
				p.settle()
			}
			return p.settle()
		}, GoOn, "", 0},
		"good is gone": {func(p *place) Verdict {
			os.Remove(p.Base + "/good")
			os.Chmod(p.Version(p.new), 0)
			return p.settle()
		}, GoBack, wire.UpdateNoStart, 0},
	} {
		p := newPlace(t)
		v := c.play(p)
		if v.Decision != c.want || v.Code != c.code || p.calls != c.calls || (v.Detail == "") != (v.Decision == GoOn) {
			t.Errorf("%s: %+v after %d calls", name, v, p.calls)
		}
		current := p.Current()
		if (v.Decision == GoBack) != (current == p.old) || v.Decision != GoBack && current != p.new {
			t.Errorf("%s: %.8s is current", name, current)
		}
		r, err := p.load()
		if v.Decision == GoBack && p.full == nil {
			l := r.Last
			if err != nil || l.Phase != wire.UpdateRolledBack || l.Code != c.code || l.Told || l.Trial != nil {
				t.Errorf("%s: the record says %+v, %v", name, l, err)
			}
			failed := r.failedAt("stable", releaseDigest) == 7
			if known := !strings.HasPrefix(name, "the record is damaged") && !strings.HasPrefix(name, "the way back"); failed != known {
				t.Errorf("%s: %+v", name, r.Failed)
			}
			if v := p.settle(); v.Decision != GoOn || p.Current() != p.old {
				t.Errorf("%s: then %+v", name, v)
			}
		}
	}
}

// fullDisk refuses every step that needs room.
func fullDisk(step string) error {
	for _, verb := range []string{"open ", "write ", "make ", "sync "} {
		if strings.HasPrefix(step, verb) {
			return syscall.ENOSPC
		}
	}
	return nil
}

// TestSettleWithoutTrial: where no update is under way, only a current version that cannot be started is changed.
func TestSettleWithoutTrial(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *place)
		back   bool
	}{
		"all is well":                       {func(p *place) { p.SetCurrent(p.old) }, false},
		"another version is being joined":   {func(p *place) {}, false},
		"current is gone":                   {func(p *place) { os.Remove(p.Base + "/current") }, true},
		"current is not executable":         {func(p *place) { os.Chmod(p.Version(p.new), 0o644) }, true},
		"current leads out":                 {func(p *place) { os.Remove(p.Base + "/current"); os.Symlink("/bin", p.Base+"/current") }, true},
		"nothing is good":                   {func(p *place) { os.Remove(p.Base + "/good"); os.Remove(p.Base + "/current") }, false},
		"a pipe in the place of the record": {func(p *place) { syscall.Mkfifo(p.recordPath(), 0o600) }, false},
	} {
		p := newPlace(t)
		os.Remove(p.recordPath())
		c.change(p)
		before := p.Current()
		v := p.settle()
		if (v.Decision == GoBack) != c.back || c.back && p.Current() != p.old || !c.back && p.Current() != before || p.calls != 0 {
			t.Errorf("%s: %+v, %.8s is current", name, v, p.Current())
		}
	}
}

// TestFailedLog: what the failed version has said goes along, and nothing of before, nor a secret.
func TestFailedLog(t *testing.T) {
	p := newPlace(t)
	before := `{"time":"2026-11-01T12:00:00.000Z","level":"info","msg":"the old one"}` + "\n"
	os.WriteFile(p.Log(), []byte(before+`{"time":"2026-11-01T12:00:00.000Z","level":"error","msg":"new one","token":"mse_0123456789`+
		"abcdefghij0123456789abcdefghij01234\"}\n"), 0o600)
	os.WriteFile(p.LastWords(), []byte("panic: no\n"), 0o600)
	p.amend(func(r *Record) { r.Last.Trial.LogSize = int64(len(before)); r.Last.Trial.GaveUp = "x" })
	p.settle()
	r, _ := p.load()
	if l := r.Last.Log; !strings.Contains(l, `level=ERROR msg="new one"`) || !strings.Contains(l, "panic: no") ||
		strings.Contains(l, "old one") ||
		strings.Contains(l, "mse_0123") {
		t.Errorf("%q", l)
	}
	long := strings.Repeat("x", wire.MaxUpdateLog) + "\n" + strings.Repeat("line\n", 100)
	os.WriteFile(p.Log(), []byte(long), 0o600)
	if got := p.failedLog(&Trial{LogSize: 1 << 40}); !strings.HasPrefix(got, "line\n") || len(got) > wire.MaxUpdateLog {
		t.Errorf("%.80q", got)
	}
	os.WriteFile(filepath.Join(p.Base, "identity.json"), []byte("{"), 0o600)
	if got := p.failedLog(nil); got != "" {
		t.Errorf("a log without a masker: %.80q", got)
	}
}

// TestWords: the journal is asked once, when the node goes back, and before its last lines are kept. A guard that looks every few seconds
// asks nothing.
func TestWords(t *testing.T) {
	p := newPlace(t)
	asked := 0
	settle := func(running bool) Verdict {
		s := p.settling()
		s.Running = running
		s.Words = func() {
			asked++
			if err := os.WriteFile(p.LastWords(), []byte("panic: now\n"), 0o600); err != nil {
				t.Error(err)
			}
		}
		return Settle(t.Context(), s)
	}
	settle(false)
	p.up()
	p.away = true
	for range 20 {
		p.at += 5 * time.Second
		if v := settle(true); v.Decision == GoBack {
			t.Fatalf("%+v", v)
		}
	}
	if asked != 0 {
		t.Errorf("asked %d times while the trial goes on", asked)
	}
	p.away = false
	p.at += wire.TrialTime
	if v := settle(true); v.Decision != GoBack || asked != 1 {
		t.Errorf("%+v, asked %d times", v, asked)
	}
	settle(false)
	if r, err := p.load(); err != nil || asked != 1 || !strings.Contains(r.Last.Log, "panic: now") {
		t.Errorf("asked %d times, kept %q, %v", asked, r.Last.Log, err)
	}
}
