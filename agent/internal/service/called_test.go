package service_test

import (
	"os"
	"path/filepath"
	"testing"

	"muster/agent/internal/service"
)

// TestCalled: a program to which the PATH leads is called by its name, and every other one by its path.
func TestCalled(t *testing.T) {
	mine := t.TempDir()
	theirs := t.TempDir()
	empty := t.TempDir()
	program := filepath.Join(mine, "versions", "muster-agent")
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{program, filepath.Join(theirs, "muster-agent")} {
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(program, filepath.Join(mine, "muster-agent")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		mine: "muster-agent", empty + ":" + mine: "muster-agent", theirs + ":" + mine: program, empty: program, "": program,
	} {
		if got := service.Called(program, path); got != want {
			t.Errorf("PATH %s: %s, want %s", path, got, want)
		}
	}
}
