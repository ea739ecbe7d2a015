package update

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestRefreshedBeforeATrial: the version that runs has what starts it brought up to date before it puts another one on trial. The one on
// trial leaves that alone until it has proven itself. Where it fails, a person hears of it, and the trial begins all the same.
func TestRefreshedBeforeATrial(t *testing.T) {
	for _, failing := range []error{nil, errors.New("the unit is read-only")} {
		synctest.Test(t, func(t *testing.T) {
			n := newNode(t)
			var calls []string // what was current, and what was good
			name := map[string]string{n.old: "old", hexOf(n.layer): "new"}
			n.refresh = func() error {
				calls = append(calls, name[n.Current()]+" "+name[n.Good()])
				return failing
			}
			n.offer = ""
			n.run(time.Minute)
			if said := slices.Equal(n.notices.get(), []string{"the unit is read-only"}); said != (failing != nil) {
				t.Errorf("the notices are %q", n.notices.get())
			}
			n.offer = n.release.Digest
			n.run(time.Hour)
			if !n.restarted || !slices.Equal(calls, []string{"old old", "old old", "old old"}) {
				t.Errorf("restarted %t, refreshed %q", n.restarted, calls)
			}
			n.settle()
			calls = nil
			n.run(10 * time.Second)
			if len(calls) > 0 {
				t.Errorf("on trial: refreshed %q", calls)
			}
			n.settle()
			n.offer = ""
			n.run(time.Minute)
			if !slices.Equal(calls, []string{"new new"}) {
				t.Errorf("afterwards: refreshed %q", calls)
			}
		})
	}
}
