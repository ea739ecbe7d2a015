package disk_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"muster/agent/disk"
)

// TestSteps: each step of a replacement can fail. Up to the rename the old content stays, and nothing lies beside it.
func TestSteps(t *testing.T) {
	all := []string{"open f", "write f", "sync f", "rename f", "sync the folder of f"}
	for n := range all {
		path := filepath.Join(t.TempDir(), "f")
		if err := disk.Replace(path, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		var told []string
		steps := disk.Steps(func(step disk.Step) error {
			told = append(told, step.Name)
			if len(told) == n+1 {
				return syscall.ENOSPC
			}
			return nil
		})
		err := steps.Replace(path, []byte("new"), 0o600)
		got, _ := os.ReadFile(path)
		want := "old"
		if n > 3 {
			want = "new"
		}
		entries, _ := os.ReadDir(filepath.Dir(path))
		if !errors.Is(err, syscall.ENOSPC) || !slices.Equal(told, all[:n+1]) || string(got) != want || len(entries) != 1 {
			t.Errorf("%s: %v, %q, %d files, told %q", all[n], err, got, len(entries), told)
		}
	}
}
