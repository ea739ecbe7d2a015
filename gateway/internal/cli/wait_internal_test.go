package cli

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestAfter: after stop, what was to be done later is either done or never done, so the two never write at once.
func TestAfter(t *testing.T) {
	for _, c := range []struct {
		stopped  time.Duration // since the beginning
		returned time.Duration
		said     string
	}{
		{time.Second, time.Second, ""},
		{3 * time.Second, 5 * time.Second, "begun, ended"},
		{6 * time.Second, 6 * time.Second, "begun, ended"},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun, said := time.Now(), ""
			stop := after(2*time.Second, func() {
				said = "begun"
				time.Sleep(3 * time.Second)
				said += ", ended"
			})
			time.Sleep(c.stopped)
			stop()
			stop()
			if took := time.Since(begun); took != c.returned || said != c.said {
				t.Errorf("stopped after %s: returned after %s, %q", c.stopped, took, said)
			}
		})
	}
}
