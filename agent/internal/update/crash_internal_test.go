package update

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/agent/disk"
	"muster/agent/disk/disktest"
	"muster/agent/internal/service"
	"muster/agent/internal/transport"
	"muster/agent/wire"
)

// life is a node through an update, start by start. Its programs are scripts.
type life struct {
	files
	t        *testing.T
	f        *fleet
	old, new string
	release  wire.Release
	layer    []byte
	crashes  bool // the new version ends as soon as it is started
	later    bool // it does so once it was committed and heard
	heard    bool // it was
	fetched  int
	at       time.Duration
	starts   []string // what was started
	said     []string // to the gateway
}

const oldScript = "#!/bin/sh\necho muster-agent 1 old\n"

func newScript(say string) []byte {
	return []byte("#!/bin/sh\necho " + say + "\n# " + strings.Repeat("x", 100<<10) + "\n")
}

func newLife(t *testing.T, f *fleet, crashes bool) *life {
	return newLifeIn(t, disktest.Folder(t), f, crashes)
}

func newLifeIn(t *testing.T, base string, f *fleet, crashes bool) *life {
	n := &life{files: newFiles(base), t: t, f: f, crashes: crashes, layer: newScript("muster-agent 2 new")}
	n.old = build(t, n.files, oldScript)
	for _, err := range []error{n.SetCurrent(n.old), n.SetGood(n.old)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	n.release = f.release(n.layer, nil)
	n.new = hexOf(n.layer)
	return n
}

func (n *life) clock() (string, int64) { return "one", n.at.Milliseconds() }

// process is what runs a build.
func (n *life) process(build string, steps disk.Steps) *Updater {
	client, err := transport.New(transport.Config{Gateway: "http://gateway.example"})
	if err != nil {
		n.t.Fatal(err)
	}
	u := New(Config{
		Client: client, State: n.f.state(), Folder: n.Base, Digest: digestPrefix + build,
		Hold:     func(context.Context) (func(), bool) { return func() {}, true },
		Answered: func() bool { return true }, Restart: func() {},
		Elsewhere: func(_ context.Context, _, _ string, from int64, to io.Writer) error {
			n.fetched++
			for rest := n.layer[from:]; len(rest) > 0; {
				piece := rest[:min(len(rest), 60<<10)]
				if _, err := to.Write(piece); err != nil {
					return err
				}
				rest = rest[len(piece):]
			}
			return nil
		},
	})
	u.clock = n.clock
	u.program = n.Version(build)
	u.Steps = steps
	return u
}

// turn is one start of the agent, and what its process does. It ends early where a step kills it.
func (n *life) turn(steps disk.Steps) {
	defer func() {
		if failed := recover(); failed != nil && failed != errKilled {
			panic(failed)
		}
	}()
	n.at += time.Second
	Settle(n.t.Context(), Settling{Base: n.Base, clock: n.clock, steps: steps, Call: func(context.Context) error { return nil }})
	build := n.Current()
	if build == "" {
		return
	}
	if _, err := os.Stat(n.Version(build)); err != nil {
		return
	}
	n.starts = append(n.starts, build)
	if build == n.new && (n.crashes || n.heard && n.later) {
		return
	}
	u := n.process(build, steps)
	ctx, cancel := context.WithTimeout(n.t.Context(), 20*time.Second)
	defer cancel()
	if u.onTrial() {
		u.proof = &proof{beats: wire.TrialBeats, answered: true}
		u.started = time.Now().Add(-time.Hour)
		u.poke()
		short, cut := context.WithCancel(ctx)
		u.Logger = slog.New(slog.NewTextHandler(sees(func(line string) { // a commit that fails is tried again later
			if strings.Contains(line, "tried again") {
				cut()
			}
		}), nil))
		_ = u.prove(short)
		cut()
		if u.onTrial() {
			return
		}
	}
	u.flush()
	u.clean()
	said := u.Report()
	if text := strings.TrimSpace(said.Phase + " " + said.Code); text != "" {
		n.said = append(n.said, text)
	}
	u.Heard(n.f.state(), said, wire.HeartbeatAnswer{Release: n.release.Digest})
	n.heard = n.heard || build == n.new
	_ = u.take(ctx, n.release)
	u.flush()
}

// sees is told each line of a log.
type sees func(line string)

func (s sees) Write(line []byte) (int, error) {
	s(string(line))
	return len(line), nil
}

var errKilled = errors.New("killed")

// settled reports whether the update has come to its end. If the way back itself could not be written, nobody knows why it was taken,
// and the version counts as failed.
func (n *life) settled(full bool) bool {
	r, err := n.load()
	if l := r.Last; full && l.Phase == wire.UpdateRolledBack && l.Code == wire.UpdateNoRoom && l.Trial == nil {
		return n.Current() == n.old && n.Good() == n.old
	}
	want := n.new
	phase := wire.UpdateCommitted
	bad := n.crashes || n.later
	if bad {
		want = n.old
		phase = wire.UpdateRolledBack
	}
	failed := r.failedAt("stable", n.release.Digest) == n.release.Sequence
	ended := r.Last.Phase == phase || bad && failed // the refusal to do it again comes after it
	return err == nil && n.Current() == want && n.Good() == want && ended && failed == bad
}

// runnable asserts what must be so at every moment.
func (n *life) runnable(when string) {
	n.t.Helper()
	for _, build := range []string{n.Current(), n.Good()} {
		if build == "" {
			continue
		}
		if there, err := service.Digest(n.Version(build)); err == nil && there == build {
			return
		}
	}
	n.t.Errorf("%s: no version can be started: current %.8s, good %.8s", when, n.Current(), n.Good())
}

// keeps reports whether the builds on the disk are those that are needed: what is current, and the version before a good one.
func (n *life) keeps() bool {
	entries, _ := os.ReadDir(n.Base + "/versions")
	if n.Current() == n.old {
		return len(entries) == 1
	}
	return len(entries) == 2 && n.unfit(n.old) == nil
}

// unfit is that of a settle.
func (n *life) unfit(build string) error { return (&settling{files: n.files}).unfit(build) }

// TestEveryStep ends the process after each change on the disk, and fills the disk there, in an update to a good version, in one to a
// version that crashes, and in one to a version that crashes once it was committed. At each moment there is a version to be started. What
// follows brings the update to its end.
func TestEveryStep(t *testing.T) {
	f := newFleet(t)
	allocates := func(step string) bool { return fullDisk(step) != nil }
	for _, how := range []string{"good", "crashes", "crashes later"} {
		for mode, fault := range map[string]func(step string, since int) error{
			"killed":      func(_ string, since int) error { return killedAt(since) },
			"no room":     func(step string, since int) error { return noRoom(since == 0) },
			"no room yet": func(step string, since int) error { return noRoom(since < 30 && allocates(step)) },
			"read-only":   func(string, int) error { return syscall.EROFS },
		} {
			total := 0
			for n := 0; ; n++ {
				life := newLife(t, f, how == "crashes")
				life.later = how == "crashes later"
				count := 0
				at := ""
				steps := disktest.Named(func(step string) error {
					count++
					if count <= n {
						return nil
					}
					if count == n+1 {
						at = step
					}
					return fault(step, count-n-1)
				})
				if mode == "read-only" { // it can be written again some time later
					for range 4 {
						life.turn(steps)
						life.runnable(fmt.Sprintf("%s at %d, %q", mode, n, at))
					}
					steps = nil
				}
				for turns, after := 0, 0; turns < 40 && after < 2; turns++ { // one more for the next clean-up
					life.turn(steps)
					life.runnable(fmt.Sprintf("%s at %d, %q", mode, n, at))
					if life.settled(mode != "killed") {
						after++
					}
				}
				if !life.settled(mode != "killed") {
					r, err := life.load()
					t.Errorf("%s, %s at %d, %q: current %.8s, good %.8s, %+v, %v", how, mode, n, at, life.Current(), life.Good(), r, err)
				}
				if !life.keeps() {
					entries, _ := os.ReadDir(life.Base + "/versions")
					t.Errorf("%s, %s at %d, %q: %d builds are left", how, mode, n, at, len(entries))
				}
				if at == "" {
					break
				}
				total++
				if t.Failed() {
					return
				}
			}
			if total < 30 {
				t.Errorf("%s: only %d steps", mode, total)
			}
			t.Logf("%s, %s: %d steps", how, mode, total)
		}
	}
}

func killedAt(since int) error {
	if since == 0 {
		panic(errKilled)
	}
	return nil
}

func noRoom(now bool) error {
	if now {
		return syscall.ENOSPC
	}
	return nil
}

// TestFailsOnce: a release that failed is not fetched again, until a higher number orders it.
func TestFailsOnce(t *testing.T) {
	f := newFleet(t)
	n := newLife(t, f, true)
	for range 12 {
		n.turn(nil)
	}
	if n.fetched != 1 || !n.settled(false) {
		t.Errorf("fetched %d times, started %d times", n.fetched, len(n.starts))
	}
	tried := 0
	for _, build := range n.starts {
		if build == n.new {
			tried++
		}
	}
	if tried != mostStarts {
		t.Errorf("the failed version was started %d times", tried)
	}
	n.crashes = false
	n.release = f.release(n.layer, func(p *wire.ReleasePointer) { p.Sequence++ })
	for range 4 {
		n.turn(nil)
	}
	if n.fetched != 2 || n.Good() != n.new {
		t.Errorf("under a higher number: fetched %d times, good %.8s", n.fetched, n.Good())
	}
}

// TestOrder: what a step relies on was put on the disk before it. A loss of power keeps only what was synced.
func TestOrder(t *testing.T) {
	n := newLife(t, newFleet(t), false)
	var told []string
	for range 3 {
		n.turn(disktest.Named(func(step string) error { told = append(told, step); return nil }))
	}
	text := strings.Join(told, "\n")
	for _, order := range []string{
		"write the layer|sync the layer|open muster-agent|write muster-agent|sync muster-agent|rename muster-agent|sync the folder of muster-agent|" +
			"make back|rename back|sync back|open update.json|sync update.json|rename update.json|sync the folder of update.json|" +
			"make current|rename current|sync current",
		"rename current|sync current|make good|rename good|sync good|rename back|sync back|open update.json|rename update.json",
	} {
		rest := text
		for _, step := range strings.Split(order, "|") {
			_, after, found := strings.Cut(rest, step)
			if !found {
				t.Fatalf("no %q in its order:\n%s", step, text)
			}
			rest = after
		}
	}
}
