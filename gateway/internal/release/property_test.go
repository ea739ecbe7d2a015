package release_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/release"
	"muster/gateway/internal/release/rollout"
	"muster/store/releases"
)

// fate is what becomes of a node that gets a release.
type fate int

const (
	commits fate = iota
	goesBack
	cannot
	fallsSilent
	isSlow
)

// TestRolloutsAtRandom: whatever nodes and operators do, numbers rise, a node is offered one release at a time and never an older number,
// no wave has more failed nodes at its halt than the plan admits and one, and nobody begins after a halt.
func TestRolloutsAtRandom(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { atRandom(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

// world is the state of a random run.
type world struct {
	*hall
	random  *rand.Rand
	offered map[string]int64 // the highest number that each node was offered
	begun   map[string]string
	last    int64
}

func atRandom(t *testing.T, random *rand.Rand) {
	w := &world{hall: newHall(t, names(5+random.IntN(40))...), random: random, offered: map[string]int64{}, begun: map[string]string{}}
	digests := []string{w.release("v1"), w.release("v2"), w.release("v3")}
	w.point(digests[0], nil)
	for range 60 {
		w.operate(digests)
		for range 4 {
			w.beats(time.Duration(10+random.IntN(50)) * time.Second)
			must(t, w.Look(t.Context()))
			w.nodesAct()
			w.check()
		}
		if random.IntN(10) == 0 {
			w.seen()
			w.open()
		}
	}
}

// operate does what an operator may do; what is not allowed now is refused, and changes nothing.
func (w *world) operate(digests []string) {
	ctx := context.Background()
	name := names(5)[w.random.IntN(5)]
	node := []release.Ref{{ID: "id-" + name, Name: name}}
	digest := digests[w.random.IntN(len(digests))]
	switch w.random.IntN(14) {
	case 0:
		w.point(digest, waves())
	case 1:
		w.point(digest, &release.Plan{Canary: "10%", SoakSeconds: 30, MaxFailed: "1"})
	case 2:
		_, _ = w.Pause(ctx, wire.DefaultChannel, operator)
	case 3, 4:
		_, _ = w.Resume(ctx, wire.DefaultChannel, operator)
	case 5:
		_, _ = w.Abort(ctx, wire.DefaultChannel, release.Promotion{}, operator)
	case 6:
		_, _ = w.Rollback(ctx, wire.DefaultChannel, release.Promotion{}, operator)
	case 7:
		must(w.t, w.Pin(ctx, node, digest, nil, operator))
	case 8:
		must(w.t, w.Unpin(ctx, node, nil, operator))
	case 9:
		n := w.nodes[name]
		n.silent = !n.silent
	}
}

// nodesAct lets each node do something with what it is offered.
func (w *world) nodesAct() {
	for name, n := range w.nodes {
		if n.silent {
			continue
		}
		r, err := w.Wanted(context.Background(), "id-"+name)
		must(w.t, err)
		if r == nil {
			continue
		}
		if r.Sequence < w.offered[name] {
			w.t.Errorf("%s is offered the number %d after %d", name, r.Sequence, w.offered[name])
		}
		w.offered[name] = r.Sequence
		if w.raise(n, r.Digest) {
			continue
		}
		if wanted := w.beat(name); wanted != r.Digest {
			w.t.Errorf("%s is offered %s and %s", name, wanted, r.Digest)
		}
		switch fate(w.random.IntN(8)) {
		case commits:
			for _, v := range []string{"v1", "v2", "v3"} {
				if sum(v) == r.Digest {
					n.program = program(v)
				}
			}
			w.sayOf(n, r, wire.UpdateCommitted, "")
		case goesBack:
			w.sayOf(n, r, wire.UpdateRolledBack, wire.UpdateCrashed)
		case cannot:
			w.sayOf(n, r, wire.UpdateFailed, wire.UpdateNoRoom)
		case fallsSilent:
			n.silent = true
		case isSlow:
			w.sayOf(n, r, wire.UpdateFetching, "")
		}
	}
}

// check looks at the channel: what must always be true.
func (w *world) check() {
	c, err := w.Channel(context.Background(), wire.DefaultChannel)
	must(w.t, err)
	if c.Sequence < w.last || w.row().Last < c.Sequence {
		w.t.Errorf("the number fell from %d to %d (%d)", w.last, c.Sequence, w.row().Last)
	}
	w.last = c.Sequence
	if c.State != releases.Halted && c.State != releases.Running {
		return
	}
	s, err := w.Status(context.Background(), wire.DefaultChannel)
	must(w.t, err)
	size, failed, silent := 0, 0, 0
	for _, n := range s.Nodes {
		if n.Wave != c.Wave {
			continue
		}
		size++
		switch n.State {
		case wire.UpdateRolledBack, wire.UpdateFailed:
			failed++
		case "silent":
			silent++
		}
	}
	rollouts, err := w.records.Rollouts(context.Background())
	must(w.t, err)
	o := rollouts[0]
	plan, _, err := rollout.ReadPlan(o.Plan)
	must(w.t, err)
	limit := 1
	if plan.MaxFailed == "10%" {
		limit = size / 10
	}
	if plan.MaxFailed == "100%" {
		limit = size
	}
	if c.Wave == 1 && plan.Canary != "" {
		limit = 0
	}
	if c.State == releases.Running && failed > limit+o.Forgiven {
		w.t.Errorf("wave %d of %d nodes goes on with %d failed, %d may, %d are accepted", c.Wave, size, failed, limit, o.Forgiven)
	}
	if c.State == releases.Halted {
		for name, n := range w.nodes {
			pinned := false
			for _, one := range s.Nodes {
				pinned = pinned || one.Name == name && one.State == "pinned"
			}
			if !n.silent && !pinned && w.beat(name) != "" {
				w.t.Errorf("%s is offered something after the halt", name)
			}
		}
	}
}
