package rqlite_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"muster/store/engine"
	"muster/store/rqlite/rqlitetest"
	"muster/store/sqlite"
)

// TestBackup: a copy is a file of SQLite with all that was written.
func TestBackup(t *testing.T) {
	db, _ := active(t)
	_, err := db.Batch(t.Context(), []engine.Statement{put("a", "1")})
	must(t, err)
	path := filepath.Join(t.TempDir(), "copy.db")
	must(t, db.Backup(t.Context(), path))
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Error(info.Mode(), err)
	}
	copied, err := sqlite.OpenToRead(path)
	must(t, err)
	defer copied.Close()
	if rows, err := copied.Query(t.Context(), engine.Do("SELECT v FROM t")); err != nil || len(rows) != 1 || rows[0][0] != "1" {
		t.Errorf("the copy has %v, %v", rows, err)
	}
	if err := db.Backup(t.Context(), path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a file: %v", err)
	}
}

// TestBackupCut: what is no database, or a part of one, is an error and leaves no file.
func TestBackupCut(t *testing.T) {
	for _, fault := range []rqlitetest.Fault{rqlitetest.Refused, rqlitetest.Leaderless, rqlitetest.Page, rqlitetest.Elsewhere,
		rqlitetest.Short, rqlitetest.BackupText} {
		db, n := active(t)
		n.Set(fault)
		path := filepath.Join(t.TempDir(), "copy.db")
		if err := db.Backup(t.Context(), path); err == nil {
			t.Errorf("fault %d: no error", fault)
		}
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("fault %d leaves a file", fault)
		}
	}
}
