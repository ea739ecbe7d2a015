// Package lab gives tests real machines to work on: root file systems made from Debian's packages, booted with systemd or
// with a bare shell as their first process, beside a real gateway. Their network is loopback alone.
//
// The machines are in this package's own test files (kit_*_test.go), whose tests have the build tag "real" (make test-real). They need
// root, mmdebstrap and systemd-nspawn. Nothing stays after a test: when the test's process ends, every process of its lab ends too, and
// then the kernel removes the lab's mounts and network. Here is what the tests of other packages use as well.
package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"syscall"
	"testing"
)

// The step-ca that tests and measurements run beside the gateway.
const (
	StepCA        = "github.com/smallstep/certificates/cmd/step-ca"
	StepCAVersion = "v0.30.2"
)

// Program returns the path of a Go program of others at a fixed version. It is built from the Go module proxy on first use, without
// cgo, and kept in the user's cache for the next run.
func Program(program, version string) (file string, err error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, path.Base(program)+"-"+version)
	unlock, err := locked(dir)
	if err != nil {
		return "", err
	}
	defer unlock()
	file = filepath.Join(dir, path.Base(program))
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	c := exec.Command("go", "install", program+"@"+version) // go puts the program in place when it is whole
	c.Dir = cache
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOBIN="+dir)
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, tail(string(out)))
	}
	return file, nil
}

// locked keeps two processes from making the same thing in the cache at once.
func locked(path string) (unlock func(), err error) {
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		lock.Close()
		return nil, err
	}
	return func() { lock.Close() }, nil
}

// cacheDir is where roots, archives and programs of others are kept for the next run.
func cacheDir() (string, error) {
	cache := os.Getenv("MUSTER_LAB_CACHE")
	if cache == "" {
		home, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("%w; set MUSTER_LAB_CACHE to a directory", err)
		}
		cache = filepath.Join(home, "muster-lab")
	}
	return cache, os.MkdirAll(cache, 0o755)
}

// Lacking skips a test that this machine cannot run, with the reason, or fails it when CI is set: there nothing may be missing.
func Lacking(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// tail is the end of a text, long enough to see what went wrong.
func tail(text string) string {
	const most = 16 << 10
	if len(text) > most {
		return "...\n" + text[len(text)-most:]
	}
	return text
}
