package fleet

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"muster/store"
)

// TestMendWaitsForTheDatabase: steps that could not be mended are kept, in their order.
func TestMendWaitsForTheDatabase(t *testing.T) {
	s, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "muster.db"), MasterKey: bytes.Repeat([]byte{7}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	var off, passed time.Duration
	begin := time.Now()
	r, err := Open(t.Context(), Config{Store: s, Now: func() time.Time { return begin.Add(off + passed) },
		Elapsed: func() time.Duration { return passed }})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	off = -time.Hour
	r.watch(t.Context())
	off = time.Hour
	r.watch(t.Context())
	got := r.clock.Take()
	if len(got) != 2 || got[0].By != -time.Hour || got[1].By != 2*time.Hour || !got[0].Logged || !got[1].Logged {
		t.Errorf("got %+v", got)
	}
}
