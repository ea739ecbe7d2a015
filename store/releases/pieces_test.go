package releases_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"muster/store"
	"muster/store/engine"
	"muster/store/releases"
)

var errStop = errors.New("stop")

// stopping is an engine that does so many batches and no more.
type stopping struct {
	store.Engine
	left int
}

func (s *stopping) Batch(ctx context.Context, statements []engine.Statement) ([]engine.Result, error) {
	if s.left--; s.left < 0 {
		return nil, errStop
	}
	return s.Engine.Batch(ctx, statements)
}

// TestManyPins: pins come in pieces, and the number is taken with the first.
func TestManyPins(t *testing.T) {
	r, s := open(t)
	ctx := t.Context()
	must(t, r.AddRelease(ctx, release("a")))
	must(t, r.Point(ctx, releases.Step{Pointer: pointer("stable", "a", 1)}))
	var pins []releases.Pin
	var ids []string
	for i := range engine.Piece + 1 {
		ids = append(ids, fmt.Sprint("n", i))
		pins = append(pins, releases.Pin{NodeID: ids[i], Digest: "a", Channel: "stable", Sequence: 2, At: start, By: "me"})
	}
	pinned := func(want int, last int64) {
		t.Helper()
		if all, err := r.Pins(ctx); err != nil || len(all) != want || channelOf(t, r).Last != last {
			t.Errorf("%d pins, %v, the last number %d; want %d, %d", len(all), err, channelOf(t, r).Last, want, last)
		}
	}
	p := pointer("stable", "a", 2)
	stopped := releases.New(store.Records{Engine: &stopping{s.Records().Engine, 1}})
	wantError(t, stopped.Pin(ctx, pins, &p, 1), errStop)
	pinned(engine.Piece, 2)
	p.Sequence = 3
	must(t, r.Pin(ctx, pins, &p, 2))
	pinned(engine.Piece+1, 3)
	stopped = releases.New(store.Records{Engine: &stopping{s.Records().Engine, 1}})
	wantError(t, stopped.Unpin(ctx, ids), errStop)
	pinned(1, 3)
	must(t, r.Unpin(ctx, ids))
	pinned(0, 3)
}

// TestManyNodes: what concerns many nodes is stored in pieces. A stop between two of them leaves the rollout where it stood, and the same
// again comes to its end: each node has its row and its event once.
func TestManyNodes(t *testing.T) {
	r, s := open(t)
	ctx := t.Context()
	must(t, r.AddRelease(ctx, release("a")))
	must(t, r.Point(ctx, releases.Step{Pointer: pointer("stable", "a", 1), Rollout: rollout("stable", "a", 1)}))
	all, err := r.Rollouts(ctx)
	must(t, err)
	was := all[0]
	next := was
	next.Wave = 1
	const many = 2*engine.Piece + 1
	var nodes []releases.Node
	events := []store.Event{{At: start, Kind: "rollout.wave"}}
	for i := range many {
		nodes = append(nodes, releases.Node{Rollout: was.Number, NodeID: fmt.Sprint("n", i), Wave: 1, State: "admitted", AdmittedAt: start,
			ChangedAt: start})
		events = append(events, store.Event{At: start, Kind: "one", NodeID: fmt.Sprint("n", i)})
	}
	stand := func(nodes, ones, waves, wave int) {
		t.Helper()
		all, err := r.Rollouts(ctx)
		must(t, err)
		rows, err := r.RolloutNodes(ctx, was.Number)
		must(t, err)
		told := func(kind string) int {
			rows, err := s.Records().Query(ctx, engine.Do("SELECT 1 FROM events WHERE kind = ?", kind))
			must(t, err)
			return len(rows)
		}
		counts := fmt.Sprint(len(rows), told("one"), told("rollout.wave"), all[0].Wave)
		if want := fmt.Sprint(nodes, ones, waves, wave); counts != want {
			t.Errorf("rows of nodes, events of nodes, of the rollout, and its wave: %s, want %s", counts, want)
		}
	}
	stopped := releases.New(store.Records{Engine: &stopping{s.Records().Engine, 2}})
	wantError(t, stopped.ChangeRollout(ctx, next, was, nodes, events...), errStop)
	stand(2*engine.Piece, 2*engine.Piece, 0, 0)
	must(t, r.ChangeRollout(ctx, next, was, nodes[2*engine.Piece:], events[0], events[many])) // what still differs
	stand(many, many, 1, 1)
	wantError(t, r.ChangeRollout(ctx, next, was, nodes, events...), store.ErrConflict)
}
