package session_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/internal/session"
	"muster/store"
)

// nodeEnd and operatorEnd are the two ends as package pipe uses them.
type nodeEnd struct {
	h    *hall
	node string
	id   string
}

func (n nodeEnd) Send(ctx context.Context, channel int, at int64, p pipe.Piece) (int64, error) {
	return n.h.NodeSend(ctx, claimer(n.node), n.id, channel, at, p)
}

func (n nodeEnd) Fetch(ctx context.Context, channel int, at int64, _ []byte) (pipe.Piece, error) {
	return n.h.NodeFetch(ctx, claimer(n.node), n.id, channel, at, wire.PieceWait)
}

type operatorEnd struct {
	h  *hall
	id string
}

func (o operatorEnd) Send(ctx context.Context, channel int, at int64, p pipe.Piece) (int64, error) {
	return o.h.Send(ctx, alice(), o.id, channel, at, p)
}

func (o operatorEnd) Fetch(ctx context.Context, channel int, at int64, _ []byte) (pipe.Piece, error) {
	return o.h.Fetch(ctx, alice(), o.id, channel, at, wire.PieceWait)
}

// TestExec is a whole session with both ends: what goes in comes out, more than any room holds, and the exit status with it.
func TestExec(t *testing.T) {
	h := newHall(t, "box")
	id := h.ask("box", wire.SessionExec, `{"command":["cat"]}`)
	text := bytes.Repeat([]byte("0123456789abcdef"), 3*wire.PipeRoom/16)
	var both sync.WaitGroup
	both.Go(func() { echo(t, pipe.Open(t.Context(), nodeEnd{h, "box", id}, pipe.Main)) })
	end := pipe.Open(t.Context(), operatorEnd{h, id}, pipe.Main)
	both.Go(func() {
		for from := 0; from < len(text); from += pipe.MaxFrame {
			if err := pipe.WriteFrame(end, pipe.FrameInput, text[from:min(from+pipe.MaxFrame, len(text))]); err != nil {
				t.Error(err)
			}
		}
		if err := pipe.WriteFrame(end, pipe.FrameInputEnd, nil); err != nil {
			t.Error(err)
		}
	})
	var got []byte
	var exit pipe.Exit
	frames := pipe.NewFrames(end)
	for {
		kind, data, err := frames.Next()
		if err != nil {
			t.Fatalf("after %d bytes: %v", len(got), err)
		}
		if kind == pipe.FrameOutput {
			got = append(got, data...)
		}
		if kind == pipe.FrameExit {
			must(t, json.Unmarshal(data, &exit))
			break
		}
	}
	both.Wait()
	if !bytes.Equal(got, text) || exit.Code != 3 {
		t.Errorf("%d bytes came back, %d went; exit %d", len(got), len(text), exit.Code)
	}
	v, err := h.Get(t.Context(), alice(), id)
	must(t, err)
	if v.EndedAt == nil || v.ExitCode == nil || *v.ExitCode != 3 || *v.BytesIn < int64(len(text)) || *v.BytesOut < int64(len(text)) || v.OpenedAt == nil {
		t.Errorf("on record: %+v", v)
	}
	if got := strings.Join(h.events(), ","); got != "session.opened ok,session.ended ok" {
		t.Errorf("events: %s", got)
	}
}

// echo is a node that writes back what it reads, and then ends with 3.
func echo(t *testing.T, end *pipe.End) {
	if err := pipe.WriteJSON(end, pipe.FrameReady, pipe.Ready{User: "me"}); err != nil {
		t.Error(err)
	}
	frames := pipe.NewFrames(end)
	for {
		kind, data, err := frames.Next()
		if err != nil {
			t.Errorf("the node: %v", err)
			return
		}
		if kind == pipe.FrameInputEnd {
			break
		}
		if err := pipe.WriteFrame(end, pipe.FrameOutput, data); err != nil {
			t.Error(err)
		}
	}
	if err := pipe.WriteJSON(end, pipe.FrameExit, pipe.Exit{Code: 3}); err != nil {
		t.Error(err)
	}
	if err := end.CloseWrite(); err != nil && code(err) != wire.CodeSessionOver {
		t.Error(err)
	}
}

// TestHijack: another account does not find a session, and another node cannot speak for it.
func TestHijack(t *testing.T) {
	h := newHall(t, "box", "other")
	id := h.ask("box", wire.SessionExec, `{"command":["ls"]}`)
	ctx := t.Context()
	for what, who := range map[string]session.Caller{"another account": mallory(),
		"the socket": {Actor: store.Actor{Name: "operator:socket"}}} {
		if _, err := h.Fetch(ctx, who, id, pipe.Main, 0, 0); code(err) != wire.CodeNotFound {
			t.Errorf("%s fetches: %v", what, err)
		}
		if _, err := h.Send(ctx, who, id, pipe.Main, 0, pipe.Piece{Data: []byte("x")}); code(err) != wire.CodeNotFound {
			t.Errorf("%s sends: %v", what, err)
		}
	}
	late := alice()
	late.May = func(string) error { return wire.Refuse(wire.CodeForbidden, "no more", "") }
	if _, err := h.Fetch(ctx, late, id, pipe.Main, 0, 0); code(err) != wire.CodeForbidden {
		t.Errorf("without the scope: %v", err)
	}
	old := claimer("box")
	old.Fingerprint = "print-older"
	old.Generation = 0
	again := claimer("box")
	again.Enrolment = "e2-box"
	again.Generation = 9
	for what, c := range map[string]session.Claimer{"another node": claimer("other"), "an older certificate": old,
		"another enrolment": again} {
		if _, err := h.NodeFetch(ctx, c, id, pipe.Main, 0, 0); code(err) != wire.CodeClaimMismatch {
			t.Errorf("%s fetches: %v", what, err)
		}
		if _, err := h.NodeSend(ctx, c, id, pipe.Main, 0, pipe.Piece{Data: []byte("x")}); code(err) != wire.CodeClaimMismatch {
			t.Errorf("%s sends: %v", what, err)
		}
	}
	if got := strings.Count(strings.Join(h.events(), ","), "session.refused claim_mismatch"); got != 6 {
		t.Errorf("%d events of 6 wrong claims: %v", got, h.events())
	}
	if _, err := h.NodeFetch(ctx, claimer("box"), "s-aaaaaaaaaaaaaaaa", pipe.Main, 0, 0); code(err) != wire.CodeSessionOver {
		t.Errorf("no such session: %v", err)
	}
	waits, err := h.Open(ctx, alice(), session.Ask{Node: "box", Type: wire.SessionExec, Params: params(`{"command":["ls"]}`)})
	must(t, err)
	if _, err := h.NodeFetch(ctx, claimer("box"), waits.ID, pipe.Main, 0, 0); code(err) != wire.CodeClaimMismatch {
		t.Errorf("before it was taken: %v", err)
	}
	if h.Aside(claimer("other")) != nil || h.Aside(again) != nil {
		t.Error("the document went to somebody else")
	}
}

// TestGivenAgain: a document whose answer was lost is given again, to whoever took it alone, until that one speaks.
func TestGivenAgain(t *testing.T) {
	h := newHall(t, "box")
	id := h.ask("box", wire.SessionExec, `{"command":["ls"]}`)
	h.Sweep(t.Context())
	if h.Aside(claimer("box")) != nil {
		t.Error("given again at once")
	}
	stranger := claimer("box")
	stranger.Fingerprint = "print-older"
	stranger.Generation = 0
	for _, c := range []struct {
		who  session.Claimer
		want bool
	}{{claimer("box"), true}, {stranger, false}, {claimer("box"), true}} {
		rings := h.rings["id-box"]
		h.clock.Forward(5 * time.Second)
		h.Sweep(t.Context())
		h.Sweep(t.Context())
		if got := h.Aside(c.who); (got != nil) != c.want || h.rings["id-box"] == rings {
			t.Errorf("%s got %v, after %d rings", c.who.Fingerprint, got, h.rings["id-box"]-rings)
		}
	}
	if _, err := h.NodeSend(t.Context(), claimer("box"), id, pipe.Main, 0, pipe.Piece{Data: frame(pipe.FrameReady, `{}`)}); err != nil {
		t.Fatal(err)
	}
	h.clock.Forward(5 * time.Second)
	h.Sweep(t.Context())
	if h.Aside(claimer("box")) != nil {
		t.Error("given again to a node that has spoken")
	}
}

// TestIdleNodesCostNothing: a node that waits for work and has no session copies nothing of those of other nodes.
func TestIdleNodesCostNothing(t *testing.T) {
	h := newHall(t, "box")
	for range 5 {
		h.ask("box", wire.SessionExec, `{"command":["ls"]}`)
	}
	idle := claimer("idle")
	if n := testing.AllocsPerRun(1000, func() { h.Aside(idle) }); n > 0 {
		t.Errorf("%.0f allocations", n)
	}
}

// TestRenewal: the first request with the renewed certificate moves the claim, and the earlier one is good no more.
func TestRenewal(t *testing.T) {
	h := newHall(t, "box")
	id := h.ask("box", wire.SessionExec, `{"command":["ls"]}`)
	renewed := claimer("box")
	renewed.Fingerprint = "print-next"
	renewed.Generation = 2
	if _, err := h.NodeSend(t.Context(), renewed, id, pipe.Main, 0, pipe.Piece{Data: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.NodeFetch(t.Context(), claimer("box"), id, pipe.Main, 0, 0); code(err) != wire.CodeClaimMismatch {
		t.Errorf("with the earlier certificate: %v", err)
	}
	if _, err := h.NodeFetch(t.Context(), renewed, id, pipe.Main, 0, 0); err != nil {
		t.Errorf("with the later one: %v", err)
	}
}

// TestGapAndEnd: bytes that leave a gap, that come after the end, and an end that comes twice.
func TestGapAndEnd(t *testing.T) {
	h := newHall(t, "box")
	id := h.ask("box", wire.SessionForward, `{"port":22}`)
	send := func(at int64, text string, end bool) (int64, error) {
		return h.Send(t.Context(), alice(), id, 1, at, pipe.Piece{Data: []byte(text), End: end})
	}
	if _, err := send(5, "x", false); code(err) != wire.CodeSessionBroken {
		t.Errorf("a gap: %v", err)
	}
	if next, err := send(0, "hello", false); next != 5 || err != nil {
		t.Errorf("got %d, %v", next, err)
	}
	if next, err := send(0, "hello", false); next != 5 || err != nil {
		t.Errorf("again: %d, %v", next, err)
	}
	for range 2 {
		if next, err := send(5, "!", true); next != 6 || err != nil {
			t.Errorf("an end: %d, %v", next, err)
		}
	}
	if _, err := send(6, "more", false); code(err) != wire.CodeSessionBroken {
		t.Errorf("after the end: %v", err)
	}
	v, err := h.Get(t.Context(), alice(), id)
	must(t, err)
	if *v.BytesIn != 6 {
		t.Errorf("%d bytes were counted, want 6", *v.BytesIn)
	}
}

// TestManyConnections: thousands, one after the other, leave nothing behind.
func TestManyConnections(t *testing.T) {
	h := newHall(t, "box")
	id := h.ask("box", wire.SessionForward, `{"port":22}`)
	for n := 1; n <= 3000; n++ {
		h.connection(id, n)
	}
	if kept := h.Kept(); kept != 0 {
		t.Errorf("%d bytes are kept", kept)
	}
}

// TestFiveHundred: so many sessions at once, each with both ends waiting, all move their bytes.
func TestFiveHundred(t *testing.T) {
	h := newHall(t, "box")
	const all = 500
	ids := make([]string, all)
	for i := range ids {
		ids[i] = h.ask("box", wire.SessionExec, `{"command":["cat"]}`)
	}
	var wait sync.WaitGroup
	for i, id := range ids {
		wait.Go(func() { echo(t, pipe.Open(t.Context(), nodeEnd{h, "box", id}, pipe.Main)) })
		wait.Go(func() {
			end := pipe.Open(t.Context(), operatorEnd{h, id}, pipe.Main)
			text := fmt.Sprint("session ", i)
			if err := errors.Join(pipe.WriteFrame(end, pipe.FrameInput, []byte(text)), pipe.WriteFrame(end, pipe.FrameInputEnd, nil)); err != nil {
				t.Error(err)
			}
			frames := pipe.NewFrames(end)
			for {
				kind, data, err := frames.Next()
				if kind == pipe.FrameOutput && string(data) != text {
					t.Errorf("session %d got %q", i, data)
				}
				if kind == pipe.FrameExit {
					return
				}
				if err != nil {
					t.Errorf("session %d: %v", i, err)
					return
				}
			}
		})
	}
	wait.Wait()
	h.clock.Forward(3 * time.Minute)
	h.Sweep(t.Context())
	if n := h.Live(); n != 0 {
		t.Errorf("%d sessions are in memory", n)
	}
}

// TestInternal: the gateway reads logs of a node through a session of its own, which nobody else finds and which is on no record.
func TestInternal(t *testing.T) {
	h := newHall(t, "box")
	i, err := h.Internal(t.Context(), "box", wire.SessionLogs, wire.LogsParams{Source: wire.LogAgent, Since: start, Follow: true})
	must(t, err)
	if h.Aside(claimer("box")) == nil {
		t.Fatal("the node was given nothing")
	}
	node := pipe.Open(t.Context(), nodeEnd{h, "box", i.ID()}, pipe.Main)
	must(t, pipe.WriteJSON(node, pipe.FrameReady, pipe.Ready{}))
	must(t, pipe.WriteFrame(node, pipe.FrameOutput, []byte("a line\n")))
	frames := pipe.NewFrames(pipe.Open(t.Context(), i, pipe.Main))
	for _, want := range []string{"{}", "a line\n"} {
		if _, data, err := frames.Next(); err != nil || string(data) != want {
			t.Fatalf("got %q, %v", data, err)
		}
	}
	socket := session.Caller{Actor: store.Actor{Name: "operator:socket"}}
	if _, err := h.Fetch(t.Context(), socket, i.ID(), pipe.Main, 0, 0); code(err) != wire.CodeNotFound {
		t.Errorf("an operator reads along: %v", err)
	}
	if _, err := h.Kill(t.Context(), socket, i.ID(), ""); code(err) != wire.CodeNotFound {
		t.Errorf("an operator ends it: %v", err)
	}
	h.clock.Forward(wire.SessionBridge - time.Second)
	if _, err := h.NodeFetch(t.Context(), claimer("box"), i.ID(), pipe.Main, 0, 0); err != nil {
		t.Error(err)
	}
	h.clock.Forward(wire.SessionBridge - time.Second)
	h.Sweep(t.Context())
	if _, err := h.NodeFetch(t.Context(), claimer("box"), i.ID(), pipe.Main, 0, 0); err != nil {
		t.Errorf("the gateway's own end need not be heard: %v", err)
	}
	must(t, i.Close())
	if _, _, err := frames.Next(); code(err) != wire.CodeSessionOver {
		t.Errorf("after the end: %v", err)
	}
	if got := h.events(); len(got) > 0 {
		t.Errorf("events: %v", got)
	}
	if _, err := h.Internal(t.Context(), "nope", wire.SessionLogs, wire.LogsParams{Source: wire.LogAgent}); code(err) != wire.CodeNotFound {
		t.Errorf("no such node: %v", err)
	}
}
