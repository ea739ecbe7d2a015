package releases

import (
	"context"

	"muster/store"
	"muster/store/engine"
)

// inPieces stores what concerns many nodes in pieces of engine.Piece, each an atomic batch with the events of its nodes. The last one has
// all other events. It writes at least once. An error leaves the pieces before it stored, so write must be good to repeat.
func inPieces[T any](ctx context.Context, db store.Records, of []T, node func(T) string,
	write func(piece []T, first, last bool) []engine.Statement, events []store.Event) error {
	for first := true; first || len(of) > 0; first = false {
		n := min(len(of), engine.Piece)
		piece := of[:n]
		of = of[n:]
		last := len(of) == 0
		now := events
		if !last {
			now, events = part(events, piece, node)
		}
		if err := db.Change(ctx, write(piece, first, last), now...); err != nil {
			return err
		}
	}
	return nil
}

// part parts the events of some nodes from the others.
func part[T any](events []store.Event, of []T, node func(T) string) (theirs, others []store.Event) {
	in := map[string]bool{}
	for _, one := range of {
		in[node(one)] = true
	}
	for _, e := range events {
		if in[e.NodeID] {
			theirs = append(theirs, e)
		} else {
			others = append(others, e)
		}
	}
	return theirs, others
}
