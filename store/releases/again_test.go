package releases_test

import (
	"reflect"
	"testing"
	"time"

	"muster/store/releases"
)

// TestNodeGoesOn: what is stored of a node in a rollout takes the place of all that was.
func TestNodeGoesOn(t *testing.T) {
	r, _ := open(t)
	ctx := t.Context()
	must(t, r.AddRelease(ctx, release("a")))
	must(t, r.Point(ctx, releases.Step{Pointer: pointer("stable", "a", 1), Rollout: rollout("stable", "a", 1)}))
	all, err := r.Rollouts(ctx)
	must(t, err)
	o := all[0]
	at := start.Add(time.Minute)
	for _, n := range []releases.Node{
		{Rollout: o.Number, NodeID: "n", State: "begun", AdmittedAt: start, ChangedAt: start},
		{Rollout: o.Number, NodeID: "n", Wave: 1, State: "failed", AdmittedAt: at, ChangedAt: at, TriedAt: &at, Crashes: 3, MemoryKiB: 4, Why: "w"},
	} {
		must(t, r.ChangeRollout(ctx, o, o, []releases.Node{n}))
		if got, err := r.RolloutNodes(ctx, o.Number); err != nil || !reflect.DeepEqual(got, []releases.Node{n}) {
			t.Errorf("got %+v, %v, want %+v", got, err, n)
		}
	}
}
