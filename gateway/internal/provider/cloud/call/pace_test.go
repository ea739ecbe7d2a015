package call

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestPace: calls of one class keep their distance, however many want at once, and classes do not wait for one another.
func TestPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &pace{every: map[string]time.Duration{"list": time.Second, "create": 4 * time.Second}, now: time.Now, sleep: sleep}
		start := time.Now()
		var mu sync.Mutex
		at := map[string]map[time.Duration]int{"list": {}, "create": {}, "other": {}}
		var all sync.WaitGroup
		for class := range at {
			for range 3 {
				all.Go(func() {
					if err := p.wait(t.Context(), class); err != nil {
						t.Error(err)
					}
					mu.Lock()
					defer mu.Unlock()
					at[class][time.Since(start)]++
				})
			}
		}
		all.Wait()
		for class, want := range map[string][]time.Duration{"list": {0, 1, 2}, "create": {0, 4, 8}} {
			for _, second := range want {
				if at[class][second*time.Second] != 1 {
					t.Errorf("%s went at %v", class, at[class])
				}
			}
		}
		if at["other"][0] != 3 {
			t.Errorf("what has no pace went at %v", at["other"])
		}
	})
}

// TestPaceEnds: who waits stops waiting when the caller ends.
func TestPaceEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &pace{every: map[string]time.Duration{}, now: time.Now, sleep: sleep}
		p.hold("list", time.Hour)
		p.hold("list", time.Minute) // which shortens nothing
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		start := time.Now()
		if err := p.wait(ctx, "list"); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 2*time.Minute {
			t.Errorf("it waited %v and ended with %v", time.Since(start), err)
		}
		if err := p.wait(ctx, "other"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a call whose time is over went: %v", err)
		}
	})
}
