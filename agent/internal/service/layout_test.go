package service_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"muster/agent/disk/disktest"
	"muster/agent/internal/service"
)

// program writes a file that stands for a build.
func program(t *testing.T, content string) (path, digest string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "muster-agent")
	if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
		t.Fatal(err)
	}
	digest, err := service.Digest(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, digest
}

// deploy does what join does with a build.
func deploy(l service.Layout, path string) error {
	digest, err := l.Install(path)
	if err != nil {
		return err
	}
	if err := l.SetCurrent(digest); err != nil {
		return err
	}
	if err := l.SetGood(digest); err != nil {
		return err
	}
	return l.Prune()
}

// TestPruneLeavesWork: a build that another process has copied, and that no link points at yet, stays. What cannot be locked is no reason
// to keep anything.
func TestPruneLeavesWork(t *testing.T) {
	l := service.Layout{Base: t.TempDir()}
	path, _ := program(t, "one")
	if err := deploy(l, path); err != nil {
		t.Fatal(err)
	}
	free, err := service.SettleLock(t.Context(), l.Base)
	if err != nil {
		t.Fatal(err)
	}
	path, next := program(t, "two")
	if _, err := l.Install(path); err != nil {
		t.Fatal(err)
	}
	if err := l.Prune(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(l.Version(next)); err != nil {
		t.Errorf("it was removed while another process was at work: %v", err)
	}
	free()
	lock := filepath.Join(l.Base, "settle.lock")
	if err := errors.Join(os.Remove(lock), os.Mkdir(lock, 0o755), l.Prune()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(l.Version(next)); err == nil {
		t.Error("a build that nobody needs stays")
	}
}

func TestLayout(t *testing.T) {
	l := service.Layout{Base: t.TempDir()}
	if l.Current() != "" || l.Good() != "" {
		t.Error("an empty directory has a build")
	}
	for _, content := range []string{"one", "two", "two"} {
		path, digest := program(t, content)
		if err := deploy(l, path); err != nil {
			t.Fatal(err)
		}
		if l.Current() != digest || l.Good() != digest {
			t.Errorf("current %s, good %s, want %s", l.Current(), l.Good(), digest)
		}
		if got, err := os.ReadFile(l.Program()); err != nil || string(got) != content {
			t.Errorf("%q, %v", got, err)
		}
		if info, _ := os.Stat(l.Program()); info.Mode().Perm() != 0o755 {
			t.Errorf("mode %v", info.Mode())
		}
		if to, _ := os.Readlink(filepath.Join(l.Base, "current")); to != "versions/"+digest {
			t.Errorf("current -> %s", to)
		}
		if entries, _ := os.ReadDir(filepath.Join(l.Base, "versions")); len(entries) != 1 {
			t.Errorf("builds left: %v", entries)
		}
	}
}

// TestLayoutCrash interrupts an update before each of its changes, as a power cut does, and then repeats it.
func TestLayoutCrash(t *testing.T) {
	old, oldDigest := program(t, "old")
	next, nextDigest := program(t, strings.Repeat("next", 10000))
	for n := 0; ; n++ {
		l := service.Layout{Base: t.TempDir()}
		if err := deploy(l, old); err != nil {
			t.Fatal(err)
		}
		at, crashed := crash(l, next, n)
		if !crashed {
			if n < 10 {
				t.Errorf("only %d places to crash at", n)
			}
			return
		}
		if current := l.Current(); current != oldDigest && current != nextDigest {
			t.Errorf("crash at %q: current is %q", at, current)
		}
		if sum, err := service.Digest(l.Program()); err != nil || sum != l.Current() {
			t.Errorf("crash at %q: what would run is torn: %v", at, err)
		}
		if l.Good() == "" {
			t.Errorf("crash at %q: nothing good is left", at)
		}
		if err := deploy(l, next); err != nil {
			t.Errorf("crash at %q: again: %v", at, err)
		}
		if l.Current() != nextDigest || l.Good() != nextDigest {
			t.Errorf("crash at %q: again: current %s, good %s", at, l.Current(), l.Good())
		}
	}
}

// crash deploys and ends before change n.
func crash(l service.Layout, path string, n int) (at string, crashed bool) {
	defer func() {
		if recover() != nil {
			crashed = true
		}
	}()
	l = l.WithStep(func(step string) {
		if at = step; n == 0 {
			panic(step)
		}
		n--
	})
	if err := deploy(l, path); err != nil {
		return err.Error(), true
	}
	return "", false
}

func TestLayoutRepairs(t *testing.T) {
	path, digest := program(t, "whole")
	for name, damage := range map[string]func(l service.Layout){
		"torn build":         func(l service.Layout) { os.WriteFile(l.Version(digest), []byte("wh"), 0o755) },
		"build is gone":      func(l service.Layout) { os.Remove(l.Version(digest)) },
		"dangling link":      func(l service.Layout) { os.RemoveAll(filepath.Join(l.Base, "versions")) },
		"foreign link":       func(l service.Layout) { relink(l, "/etc") },
		"link out of it":     func(l service.Layout) { relink(l, "versions/../..") },
		"not executable":     func(l service.Layout) { os.Chmod(l.Version(digest), 0o600) },
		"interrupted before": func(l service.Layout) { os.Symlink("x", filepath.Join(l.Base, "current.new")) },
	} {
		l := service.Layout{Base: t.TempDir()}
		if err := deploy(l, path); err != nil {
			t.Fatal(err)
		}
		damage(l)
		if err := deploy(l, path); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		info, err := os.Stat(l.Program())
		if got, _ := service.Digest(l.Program()); err != nil || got != digest || l.Current() != digest || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: not repaired: %v", name, err)
		}
	}
}

func relink(l service.Layout, to string) {
	os.Remove(filepath.Join(l.Base, "current"))
	os.Symlink(to, filepath.Join(l.Base, "current"))
}

func TestLayoutErrors(t *testing.T) {
	path, digest := program(t, "x")
	l := service.Layout{Base: t.TempDir()}
	if err := l.SetCurrent(digest); err == nil || !strings.Contains(err.Error(), "join again") {
		t.Errorf("a link to nothing: %v", err)
	}
	if _, err := l.Install(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a program that is not there was installed")
	}
	os.WriteFile(filepath.Join(l.Base, "versions"), nil, 0o600)
	if _, err := l.Install(path); err == nil || !strings.Contains(err.Error(), "--state another directory") {
		t.Errorf("a file in the way: %v", err)
	}
	l = service.Layout{Base: t.TempDir()}
	os.MkdirAll(filepath.Join(l.Base, "current", "x"), 0o700)
	if err := deploy(l, path); err == nil {
		t.Error("a folder was replaced by a link")
	}
	if _, err := os.Stat(filepath.Join(l.Base, "current.new")); err == nil {
		t.Error("a link is left over")
	}
}

// TestGoBack: the way back is there before current changes, and takes no room. If it is not there, it is made.
func TestGoBack(t *testing.T) {
	for name, c := range map[string]struct {
		prepare bool
		full    bool
		works   bool
	}{"prepared": {true, false, true}, "prepared, full": {true, true, true}, "not prepared": {false, false, true},
		"not prepared, full": {false, true, false}} {
		l := service.Layout{Base: t.TempDir()}
		old, oldDigest := program(t, "old")
		next, nextDigest := program(t, "next")
		if err := deploy(l, old); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Install(next); err != nil {
			t.Fatal(err)
		}
		if c.prepare {
			if err := l.PrepareBack(oldDigest); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.SetCurrent(nextDigest); err != nil {
			t.Fatal(err)
		}
		if c.full {
			l.Steps = disktest.Named(func(step string) error {
				if strings.HasPrefix(step, "make ") {
					return syscall.ENOSPC
				}
				return nil
			})
		}
		err := l.GoBack(oldDigest)
		if (err == nil) != c.works || (l.Current() == oldDigest) != c.works || l.Good() != oldDigest {
			t.Errorf("%s: %v, current %.8s", name, err, l.Current())
		}
	}
}

// TestPruneSpares: neither the program of this process is removed nor, of what arrives, the file that is wanted.
func TestPruneSpares(t *testing.T) {
	l := service.Layout{Base: t.TempDir()}
	one, _ := program(t, "one")
	if err := deploy(l, one); err != nil {
		t.Fatal(err)
	}
	own, err := l.Install(service.OwnProgram)
	if err != nil {
		t.Fatal(err)
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(l.Version(own))
	if err := os.Link(executable, l.Version(own)); err != nil {
		t.Skip(err) // the temporary folder is on another file system
	}
	if err := l.Prune(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(l.Version(own)); err != nil {
		t.Error("the program that runs was removed")
	}
	for _, digest := range []string{own, l.Good()} {
		os.WriteFile(l.Arrival(digest), nil, 0o600)
	}
	if err := l.PruneArrivals(own); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(l.Arrival(own)); err != nil {
		t.Error("what arrives was removed")
	}
	if _, err := os.Stat(l.Arrival(l.Good())); err == nil || l.Good() == "" {
		t.Error("what nobody wants was left")
	}
	if err := (service.Layout{Base: t.TempDir()}).PruneArrivals(""); err != nil {
		t.Errorf("without a build: %v", err)
	}
}
