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
	r, err := Open(t.Context(), Config{Store: s, Now: func() time.Time { return begin.Add(off + passed) }, Elapsed: func() time.Duration { return passed }})
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
	got := r.clock.take()
	if len(got) != 2 || got[0].by != -time.Hour || got[1].by != 2*time.Hour || !got[0].log || !got[1].log {
		t.Errorf("got %+v", got)
	}
}

// TestTimelineOfARealClock: with the machine's own clock, which nobody sets here, nothing is noticed, by however many at once.
func TestTimelineOfARealClock(t *testing.T) {
	var c timeline
	c.begin(time.Time{}, nil)
	done := make(chan struct{})
	for range 4 {
		go func() {
			defer func() { done <- struct{}{} }()
			var last time.Duration
			for range 10_000 {
				_, up := c.read()
				if up < last {
					t.Errorf("the time that has passed went back from %s to %s", last, up)
				}
				last = up
			}
		}()
	}
	for range 4 {
		<-done
	}
	if !c.settled() {
		t.Errorf("got steps %+v", c.take())
	}
}
