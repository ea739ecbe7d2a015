package logfile

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestLogFileIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.log")
	now := time.Now()
	file := &File{path: path, now: func() time.Time { return now }}
	log := NewLogger(slog.LevelInfo, io.Discard, file)
	for range 5 {
		for range 40 {
			log.Info(strings.Repeat("x", 32<<10))
		}
	}
	log.Debug("too fine")
	entries, _ := os.ReadDir(filepath.Dir(path))
	for _, entry := range entries {
		if info, err := entry.Info(); err != nil || info.Size() > maxLog || info.Size() == 0 || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v", entry.Name(), info)
		}
	}
	if len(entries) != 2 || file.Trouble() != nil {
		t.Errorf("%d files, %v", len(entries), file.Trouble())
	}
	broken := &File{path: filepath.Join(path, "below-a-file"), now: file.now}
	if n, err := broken.Write([]byte("line")); n != 4 || err != nil || broken.Trouble() == nil {
		t.Errorf("%d, %v, %v", n, err, broken.Trouble())
	}
	broken.path = path
	if broken.Write([]byte("line")); broken.Trouble() == nil {
		t.Error("tried again at once")
	}
	now = now.Add(reopenPause)
	if broken.Write([]byte("line")); broken.Trouble() != nil {
		t.Error(broken.Trouble())
	}
}
