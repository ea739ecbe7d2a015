package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestPushTimeoutEarly: the box makes its folder after nobody waits for the name any more.
func TestPushTimeoutEarly(t *testing.T) {
	b := newBoxes(t)
	home := b.box("gpu-1")
	wait := filepath.Join(home, "wait")
	if err := syscall.Mkfifo(wait, 0o600); err != nil {
		t.Fatal(err)
	}
	mktemp := filepath.Join(filepath.Dir(home), "bin", "mktemp")
	b.write(mktemp, strings.Replace(b.read(mktemp), "exec ", "cat \"$HOME/wait\" >/dev/null; ", 1)+"echo made >\"$HOME/made\"\n")
	if code, _, errs := b.push("gpu-1", "--timeout", "500ms"); code != 1 || !strings.Contains(errs, "it did not end within the time") {
		t.Errorf("code %d, %s", code, errs)
	}
	f, err := os.OpenFile(wait, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	for deadline := time.Now().Add(20 * time.Second); !exists(filepath.Join(home, "made")); {
		if <-time.After(10 * time.Millisecond); time.Now().After(deadline) {
			t.Fatal("the box made no folder")
		}
	}
	b.left(home)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestPushTimeout(t *testing.T) {
	b := newBoxes(t)
	home := b.box("gpu-1")
	wait := filepath.Join(home, "wait")
	if err := syscall.Mkfifo(wait, 0o600); err != nil {
		t.Fatal(err)
	}
	defer func() { // the agent that nobody waits for any more
		if f, err := os.OpenFile(wait, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
			f.Close()
		}
	}()
	code, _, errs := b.push("gpu-1", "--timeout", "500ms")
	if code != 1 || !strings.Contains(errs, "it did not end within the time") ||
		!strings.Contains(errs, "muster --data "+b.dir+" node ls tells whether") {
		t.Errorf("code %d, %s", code, errs)
	}
	if n := b.liveTokens(); n != 0 {
		t.Errorf("%d tokens are still good", n)
	}
	b.left(home)
}
