package disktest

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// Folder returns a folder for a test that writes or syncs thousands of times: in memory, if programs can be started there.
func Folder(t testing.TB) string {
	t.Helper()
	if !startsPrograms() {
		return t.TempDir()
	}
	folder, err := os.MkdirTemp(memory, "muster-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	return folder
}

const memory = "/dev/shm"

var startsPrograms = sync.OnceValue(func() bool {
	folder, err := os.MkdirTemp(memory, "muster-test-")
	if err != nil {
		return false
	}
	defer os.RemoveAll(folder)
	script := filepath.Join(folder, "script")
	return os.WriteFile(script, []byte("#!/bin/sh\n"), 0o700) == nil && exec.Command(script).Run() == nil
})
