package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// hang makes a file "wait" in the box's home: who reads it waits until free is called.
func (b *boxes) hang(home string) (free func()) {
	b.t.Helper()
	wait := filepath.Join(home, "wait")
	if err := syscall.Mkfifo(wait, 0o600); err != nil {
		b.t.Fatal(err)
	}
	return func() {
		if f, err := os.OpenFile(wait, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
			f.Close()
		}
	}
}

// TestPushLeftEarly: the box makes its folder after nobody waits for the name any more.
func TestPushLeftEarly(t *testing.T) {
	b := newBoxes(t)
	home := b.box("gpu-1")
	free := b.hang(home)
	mktemp := filepath.Join(filepath.Dir(home), "bin", "mktemp")
	b.write(mktemp, strings.Replace(b.read(mktemp), "exec ", "echo x >\"$HOME/begun\"; cat \"$HOME/wait\" >/dev/null; ", 1)+
		"echo x >\"$HOME/made\"\n")
	ctx, leave := context.WithCancel(t.Context())
	over := make(chan int, 1)
	go func() {
		code, _, _ := b.pushUntil(ctx, "gpu-1")
		over <- code
	}()
	until(t, func() bool { return exists(filepath.Join(home, "begun")) })
	leave()
	if code := <-over; code == 0 {
		t.Errorf("code %d", code)
	}
	until(t, func() bool { free(); return exists(filepath.Join(home, "made")) })
	b.left(home)
}

func until(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); {
		if <-time.After(10 * time.Millisecond); time.Now().After(deadline) {
			t.Fatal("it did not come in 20 seconds")
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestPushTimeout(t *testing.T) {
	b := newBoxes(t)
	home := b.box("gpu-1")
	defer b.hang(home)() // the agent that nobody waits for any more
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
