package maas

import (
	"errors"
	"testing"
	"time"
)

// TestPatience: a view may take four times as long as the last one, and twice as long as one that failed.
func TestPatience(t *testing.T) {
	t.Parallel()
	failed := errors.New("no answer came")
	for _, c := range []struct {
		limit, took time.Duration
		err         error
		want        time.Duration
	}{
		{longestView, time.Second, nil, time.Minute}, {time.Minute, 40 * time.Second, nil, 160 * time.Second},
		{time.Minute, time.Minute, failed, 2 * time.Minute}, {8 * time.Minute, 8 * time.Minute, failed, longestView},
		{longestView, 9 * time.Minute, nil, longestView},
	} {
		if got := patience(c.limit, c.took, c.err); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
