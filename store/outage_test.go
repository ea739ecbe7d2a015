package store_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/store"
)

// TestOutages: a full disk is told of once, however many writes it fails and however often one of them fits, and so is its end.
func TestOutages(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	s, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "muster.db"), MasterKey: make([]byte, 32), Now: func() time.Time { return now }})
	must(t, err)
	defer s.Close()
	var told []error
	s.Outages(func(err error) { told = append(told, err) })
	big := strings.Repeat("k", 1<<20)
	fail := func() {
		t.Helper()
		must(t, store.FillDisk(s))
		var outage *store.Outage
		if err := s.SetMeta(t.Context(), big, "v"); !errors.As(err, &outage) {
			t.Fatalf("a write to a full disk got %v", err)
		}
	}
	for range 3 {
		fail()
		now = now.Add(50 * time.Second)
		must(t, s.SetMeta(t.Context(), "small", "v"))
	}
	if len(told) != 1 || told[0] == nil || !strings.Contains(told[0].Error(), "full") {
		t.Fatalf("told is %v, want the full disk once", told)
	}
	now = now.Add(10 * time.Second)
	must(t, s.SetMeta(t.Context(), "small", "v"))
	must(t, s.SetMeta(t.Context(), "small", "v"))
	if len(told) != 2 || told[1] != nil {
		t.Fatalf("told is %v, want the end of it once", told)
	}
	fail()
	if len(told) != 3 || told[2] == nil {
		t.Fatalf("told is %v, want the next outage", told)
	}
	now = now.Add(-time.Hour) // a clock that was set back does not make an outage endless
	must(t, s.SetMeta(t.Context(), "small", "v"))
	if len(told) != 4 || told[3] != nil {
		t.Fatalf("told is %v, want its end", told)
	}
}
