package sqlite_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/store/engine"
	"muster/store/sqlite"
)

// TestOutages: a full disk is told once, however many writes fail, and although a small one succeeds now and then. Its end is told once.
func TestOutages(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	db := openAt(t, filepath.Join(t.TempDir(), "test.db"), func() time.Time { return now })
	var told []error
	db.Outages(func(err error) { told = append(told, err) })
	big := strings.Repeat("k", 1<<20)
	fail := func() {
		t.Helper()
		must(t, sqlite.FillDisk(db))
		var outage *engine.Outage
		if err := write(t.Context(), db, big); !errors.As(err, &outage) {
			t.Fatalf("a write to a full disk got %v", err)
		}
	}
	for range 3 {
		fail()
		now = now.Add(50 * time.Second)
		must(t, write(t.Context(), db, "small"))
	}
	if len(told) != 1 || told[0] == nil || !strings.Contains(told[0].Error(), "full") {
		t.Fatalf("told is %v, want the full disk once", told)
	}
	now = now.Add(10 * time.Second)
	must(t, write(t.Context(), db, "small"))
	must(t, write(t.Context(), db, "small"))
	if len(told) != 2 || told[1] != nil {
		t.Fatalf("told is %v, want the end of it once", told)
	}
	fail()
	if len(told) != 3 || told[2] == nil {
		t.Fatalf("told is %v, want the next outage", told)
	}
	now = now.Add(-time.Hour) // a clock that was set back does not make an outage endless
	must(t, write(t.Context(), db, "small"))
	if len(told) != 4 || told[3] != nil {
		t.Fatalf("told is %v, want its end", told)
	}
}
