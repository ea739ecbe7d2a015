package task

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"muster/agent/internal/transport"
)

// TestAnsweredOnAFullDisk: where the disk takes no journal, the worker asks for nothing, and that speaks against no version. It counts for
// as long as it lasts, and no other trouble counts.
func TestAnsweredOnAFullDisk(t *testing.T) {
	client, err := transport.New(transport.Config{Gateway: "https://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	w := New(Config{Folder: t.TempDir(), Client: client})
	if err := os.Symlink("/dev/full", filepath.Join(w.Folder, JournalFile+".new")); err != nil {
		t.Fatal(err)
	}
	if w.resume() || !w.Answered() {
		t.Errorf("on a full disk: %v, %q", w.Answered(), w.Notices())
	}
	if !w.resume() || w.Answered() { // the link is gone by now
		t.Errorf("with room: %v, %q", w.Answered(), w.Notices())
	}
	for fault, counts := range map[error]bool{syscall.EROFS: true, syscall.EDQUOT: true, syscall.EACCES: false, errors.New("odd"): false} {
		w.noteJournal(fault)
		if w.Answered() != counts {
			t.Errorf("%v: %v", fault, w.Answered())
		}
	}
}
