package limit

import (
	"errors"
	"sync"
	"testing"
)

// TestPlaces: a holder has so many places, all together have so many, and who leaves makes room. The race detector sees a lock that is
// forgotten, and so does the runtime, which ends a program that writes to a map from two sides.
func TestPlaces(t *testing.T) {
	var p Places
	var leaves []func()
	for _, c := range []struct {
		holder string
		some   int
		want   error
	}{{"a", 2, nil}, {"a", 1, nil}, {"a", 1, ErrOwn}, {"b", 2, nil}, {"c", 1, ErrAll}, {"b", 2, ErrOwn}} {
		leave, err := p.Enter(c.holder, c.some, 3, 5)
		if !errors.Is(err, c.want) {
			t.Fatalf("%s takes %d: got %v, want %v", c.holder, c.some, err, c.want)
		}
		if err == nil {
			leaves = append(leaves, leave)
		}
	}
	leaves[0]()
	if _, err := p.Enter("c", 2, 3, 5); err != nil {
		t.Errorf("there is room again: %v", err)
	}
	if p.all != 5 || len(p.by) != 3 {
		t.Errorf("%d places of %v", p.all, p.by)
	}
	var many sync.WaitGroup
	var q Places
	for _, holder := range []string{"a", "b", "c", "d"} {
		many.Go(func() {
			for range 2000 {
				leave, err := q.Enter(holder, 1, 1, 4)
				if err != nil {
					t.Error(err)
					return
				}
				leave()
			}
		})
	}
	many.Wait()
	if q.all != 0 || len(q.by) != 0 {
		t.Errorf("%d places of %v are left", q.all, q.by)
	}
}
