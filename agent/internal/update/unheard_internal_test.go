package update

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestTrialUnheard: a trial begins also if the gateway does not hear of it any more.
func TestTrialUnheard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.deaf = n.fetched
		began := time.Now()
		n.run(time.Minute)
		if waited := time.Since(began); !n.restarted || n.Current() != hexOf(n.layer) || waited < lastWord || waited > 2*lastWord {
			t.Errorf("restarted %t after %v, said %q", n.restarted, waited, n.said)
		}
	})
}
