package join

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestProgramThatCannotRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "muster-agent")
	for mode, want := range map[fs.FileMode]string{0o644: "mounted noexec: give --state", 0o755: "use the agent for this machine's platform"} {
		os.Remove(path)
		if err := os.WriteFile(path, []byte{0x7f, 'E', 'L', 'F', 0, 0}, mode); err != nil {
			t.Fatal(err)
		}
		if err := tryProgram(t.Context(), path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", mode, err)
		}
	}
}

// TestProgramThatIsBusy: a program that a child still holds open for writing is tried again, until the child has let it go.
func TestProgramThatIsBusy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "muster-agent")
	held, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := held.WriteString("#!/bin/sh\n"); err != nil {
		t.Fatal(err)
	}
	if err := exec.Command(path).Run(); !errors.Is(err, syscall.ETXTBSY) {
		t.Skipf("this system runs a program that is written: %v", err)
	}
	time.AfterFunc(5*busyPause, func() { held.Close() })
	if err := tryProgram(t.Context(), path); err != nil {
		t.Error(err)
	}
}
