package task

import (
	"testing"

	"muster/gateway/internal/kit"
)

// TestEarlierCount: a count that ends after one which began later changes nothing: the later one has seen more.
func TestEarlierCount(t *testing.T) {
	s := kit.Store(t, nil)
	for stands, want := range map[uint64]int{1: 0, 3: 3} {
		d := &Service{Config: Config{Store: s}, counts: 1, waiting: map[string]hint{"n": {3, stands}}}
		if _, err := d.count(t.Context(), "n"); err != nil || d.Waiting("n") != want {
			t.Errorf("after count %d this is the second: %d wait, want %d, %v", stands, d.Waiting("n"), want, err)
		}
	}
}
