package logs

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"

	"muster/agent/wire"
)

// TestLeavingTogether: readers that come and go at the same moments are counted right. The race detector sees a lock that is forgotten, and
// so does the runtime, which ends a program that writes to a map from two sides.
func TestLeavingTogether(t *testing.T) {
	broken := errors.New("the node is away")
	h := New(Config{Open: func(context.Context, string, wire.LogsParams) (io.ReadCloser, error) { return nil, broken }})
	var readers sync.WaitGroup
	for _, who := range []string{"a", "b", "c", "d"} {
		readers.Go(func() {
			for range 2000 {
				err := h.Read(t.Context(), who, "n", Query{Sources: []string{wire.LogAgent}}, func([]wire.LogLine) error { return nil })
				if !errors.Is(err, broken) {
					t.Error(err)
					return
				}
			}
		})
	}
	readers.Wait()
	if h.sessions != 0 || len(h.on) != 0 || len(h.by) != 0 {
		t.Errorf("%d sessions are left, %v, %v", h.sessions, h.on, h.by)
	}
}
