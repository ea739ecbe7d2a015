package child_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"muster/agent/internal/child"
)

// TestBusyProgram: somebody still has the program's file open for writing when it is started.
func TestBusyProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	writer, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, func() { writer.Close() })
	if err := child.Run(t.Context(), child.Command{Program: path}); err != nil {
		t.Error(err)
	}
}
