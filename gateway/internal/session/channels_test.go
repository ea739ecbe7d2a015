package session_test

import (
	"bytes"
	"testing"

	"muster/agent/pipe"
	"muster/agent/wire"
)

// TestChannels: a number is good for one connection, so many at once, and the main channel of other types is the only one.
func TestChannels(t *testing.T) {
	h := newHall(t, "box")
	id := h.ask("box", wire.SessionForward, `{"port":22}`)
	for n := 1; n <= wire.MaxChannels; n++ {
		if _, err := h.Fetch(t.Context(), alice(), id, n, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.Fetch(t.Context(), alice(), id, wire.MaxChannels+1, 0, 0); code(err) != wire.CodeTooManyRequests {
		t.Errorf("one too many: %v", err)
	}
	h.connection(id, 7)
	if _, err := h.Fetch(t.Context(), alice(), id, 7, 0, 0); code(err) != wire.CodeSessionBroken {
		t.Errorf("a number that was used: %v", err)
	}
	if _, err := h.Send(t.Context(), alice(), id, 7, 0, pipe.Piece{Data: []byte("x")}); code(err) != wire.CodeSessionBroken {
		t.Errorf("a number that was used: %v", err)
	}
	if p, err := h.Fetch(t.Context(), alice(), id, 7, 4, 0); err != nil || !p.End {
		t.Errorf("the end again: %+v, %v", p, err)
	}
	if _, err := h.Fetch(t.Context(), alice(), id, wire.MaxChannels+1, 0, 0); err != nil {
		t.Errorf("there is room again: %v", err)
	}
	h.connection(id, 8)
	if _, err := h.Fetch(t.Context(), alice(), id, wire.MaxChannels+3, 0, 0); err != nil {
		t.Errorf("a number that came before the one below it: %v", err)
	}
	h.connection(id, 9)
	if _, err := h.Fetch(t.Context(), alice(), id, wire.MaxChannels+2, 0, 0); err != nil {
		t.Errorf("the one below: %v", err)
	}
	for _, n := range []int{-1, 1 << 20} {
		if _, err := h.Fetch(t.Context(), alice(), id, n, 0, 0); code(err) != wire.CodeBadRequest {
			t.Errorf("channel %d: %v", n, err)
		}
	}
	exec := h.ask("box", wire.SessionExec, `{"command":["ls"]}`)
	if _, err := h.Fetch(t.Context(), alice(), exec, 1, 0, 0); code(err) != wire.CodeBadRequest {
		t.Errorf("a second channel of a program: %v", err)
	}
}

// TestChannelLives: a connection that lasts does not use up the numbers of those that come and go beside it.
func TestChannelLives(t *testing.T) {
	h := newHall(t, "box")
	id := h.ask("box", wire.SessionForward, `{"port":22}`)
	for n := 1; n <= 5000; n++ {
		if n%1000 != 1 {
			h.connection(id, n)
		} else if _, err := h.Fetch(t.Context(), alice(), id, n, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSessionKeeps: many channels of one session keep no more than a few of another one do, and each goes on.
func TestSessionKeeps(t *testing.T) {
	h := newHall(t, "box")
	id := h.ask("box", wire.SessionForward, `{"port":22}`)
	most := bytes.Repeat([]byte("x"), wire.MaxPiece)
	taken := int64(0)
	for n := 1; n <= wire.MaxConnections; n++ {
		for at := int64(0); at < wire.PipeRoom; {
			next, err := h.Send(t.Context(), alice(), id, n, at, pipe.Piece{Data: most})
			must(t, err)
			taken += next - at
			if at = next; at < wire.MaxPiece {
				break
			}
		}
	}
	if taken < 64<<20 || taken > 64<<20+wire.MaxConnections*16<<10 {
		t.Errorf("%d bytes are kept", taken)
	}
	p, err := h.NodeFetch(t.Context(), claimer("box"), id, 1, 0, 0)
	if must(t, err); len(p.Data) > pipe.Share(wire.MaxConnections) || len(p.Data) == 0 {
		t.Errorf("a piece of %d bytes", len(p.Data))
	}
	other := h.ask("box", wire.SessionForward, `{"port":23}`)
	if next, err := h.Send(t.Context(), alice(), other, 1, 0, pipe.Piece{Data: most}); next != wire.MaxPiece || err != nil {
		t.Errorf("another session keeps %d bytes, %v", next, err)
	}
}

// connection moves some bytes over a channel in both directions, and ends both.
func (h *hall) connection(id string, n int) {
	h.t.Helper()
	ctx := h.t.Context()
	_, err := h.Send(ctx, alice(), id, n, 0, pipe.Piece{Data: []byte("ping"), End: true})
	must(h.t, err)
	_, err = h.NodeSend(ctx, claimer("box"), id, n, 0, pipe.Piece{Data: []byte("pong"), End: true})
	must(h.t, err)
	for _, at := range []int64{0, 4} {
		p, err := h.NodeFetch(ctx, claimer("box"), id, n, at, 0)
		if err != nil || !p.End || string(p.Data) != "ping"[at:] {
			h.t.Errorf("the node got %q, %v", p.Data, err)
		}
		p, err = h.Fetch(ctx, alice(), id, n, at, 0)
		if err != nil || !p.End || string(p.Data) != "pong"[at:] {
			h.t.Errorf("the operator got %q, %v", p.Data, err)
		}
	}
}
