package logs

import (
	"slices"
	"testing"

	"muster/agent/spool"
)

// TestWantedAgain: what the gateway wants again comes again before all that is behind it, also if a gap was next.
func TestWantedAgain(t *testing.T) {
	box := spool.Open(spool.Config{Dir: t.TempDir(), Bound: 1 << 20})
	defer box.Close()
	s := &sender{Shipper: NewShipper(Shipping{}), box: box, reader: box.Untaken()}
	defer func() { s.reader.Close() }()
	line := []byte(`{"message":"x"}`)
	if _, err := box.Append(line, line); err != nil {
		t.Fatal(err)
	}
	box.Lose(3, spool.ReasonFull)
	if _, err := box.Append(line); err != nil {
		t.Fatal(err)
	}
	var firsts []int64
	for range 3 {
		batch, _, err := s.next()
		if err != nil {
			t.Fatal(err)
		}
		firsts = append(firsts, batch.First)
		next := batch.First + int64(len(batch.Lines))
		if len(firsts) == 1 {
			next-- // the last line is wanted again
		}
		s.taken(batch, next)
	}
	if !slices.Equal(firsts, []int64{1, 2, 5}) { // a gap has its last number
		t.Errorf("batches begin with %v", firsts)
	}
}
