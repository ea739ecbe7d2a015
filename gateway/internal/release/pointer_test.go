package release_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/release"
)

// opened is the pointer that a node is given, by the keys that it believes.
func (h *hall) opened(name string) wire.ReleasePointer {
	h.t.Helper()
	r, err := h.Wanted(context.Background(), "id-"+name)
	must(h.t, err)
	if r == nil {
		h.t.Fatalf("%s is offered nothing", name)
	}
	p, _, err := sign.OpenRelease(r.Pointer, h.keys())
	must(h.t, err)
	if p.Sequence != r.Sequence || p.Digest != r.Digest || p.Channel != r.Channel || p.Size != r.Size {
		h.t.Errorf("the pointer %+v is not the answer's %+v", p, r)
	}
	return p
}

// TestPointer: what a node gets is signed, begins a little before now, and names what it fetches.
func TestPointer(t *testing.T) {
	h := newHall(t, "n")
	v1 := h.release("v1")
	h.point(v1, nil)
	h.look()
	p := h.opened("n")
	want := wire.ReleasePointer{Channel: "stable", Sequence: 1, Digest: v1, Size: 100, Version: "v1",
		Platforms: []wire.ReleasePlatform{{OS: "linux", Arch: "amd64", MediaType: wire.MediaProgram, Digest: program("v1"), Size: 10,
			Program: program("v1"), ProgramSize: 10}},
		NotBefore: start.Add(-wire.Backdate), Expires: start.Add(90 * 24 * time.Hour)}
	if a, b := asJSON(p), asJSON(want); a != b {
		t.Errorf("got  %s\nwant %s", a, b)
	}
	r, err := h.Wanted(t.Context(), "id-n")
	if err != nil || r.URL != wire.ReleaseBlobPath(program("v1")) || r.Authorization != "" {
		t.Errorf("got %+v, %v", r, err)
	}
	if r, err := h.Wanted(t.Context(), "id-nobody"); r != nil || err != nil {
		t.Errorf("got %+v, %v", r, err)
	}
}

func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// seal signs a payload with an operator's key, after a change.
func (h *hall) seal(key ed25519.PrivateKey, payload []byte, change func(*wire.ReleasePointer)) []byte {
	h.t.Helper()
	var p wire.ReleasePointer
	must(h.t, json.Unmarshal(payload, &p))
	if change != nil {
		change(&p)
		payload = []byte(asJSON(p))
	}
	return []byte(asJSON(sign.Seal(key, sign.RoleRelease, payload)))
}

// TestSignedOffline: without a key of its own the gateway says what to sign, and takes that alone.
func TestSignedOffline(t *testing.T) {
	h := newHall(t, "n")
	v1 := h.release("v1")
	h.release("v2")
	h.key = nil
	_, err := h.Point(t.Context(), "stable", release.Promotion{Digest: v1}, operator)
	wantCode(t, err, wire.CodeSignatureWanted)
	payload, err := h.Unsigned(t.Context(), "stable", v1)
	must(t, err)
	_, stranger, _ := ed25519.GenerateKey(rand.Reader)
	good := h.seal(h.operator, payload, nil)
	for name, envelope := range map[string][]byte{
		"an unknown key": h.seal(stranger, payload, nil),
		"no envelope":    []byte("{}"),
		"a task":         []byte(asJSON(sign.Seal(h.operator, sign.RoleTask, payload))),
		"a number":       h.seal(h.operator, payload, func(p *wire.ReleasePointer) { p.Sequence++ }),
		"a channel":      h.seal(h.operator, payload, func(p *wire.ReleasePointer) { p.Channel = "beta" }),
		"a digest":       h.seal(h.operator, payload, func(p *wire.ReleasePointer) { p.Digest = sum("v2") }),
		"a version":      h.seal(h.operator, payload, func(p *wire.ReleasePointer) { p.Version = "v9" }),
		"a program":      h.seal(h.operator, payload, func(p *wire.ReleasePointer) { p.Platforms[0].Program = sum("evil") }),
		"no platforms":   h.seal(h.operator, payload, func(p *wire.ReleasePointer) { p.Platforms = nil }),
		"later":          h.seal(h.operator, payload, func(p *wire.ReleasePointer) { p.NotBefore = start.Add(time.Hour) }),
		"over":           h.seal(h.operator, payload, func(p *wire.ReleasePointer) { p.Expires = start.Add(time.Minute) }),
		"for ever":       h.seal(h.operator, payload, func(p *wire.ReleasePointer) { p.Expires = start.AddDate(9, 0, 0) }),
		"an unknown key in the payload": []byte(asJSON(sign.Seal(h.operator, sign.RoleRelease,
			[]byte(strings.Replace(string(payload), "{", `{"also":1,`, 1))))),
		"a broken signature": []byte(strings.Replace(string(good), `"signature":"`, `"signature":"AAAA`, 1)),
	} {
		_, err := h.Point(t.Context(), "stable", release.Promotion{Digest: v1, Pointer: envelope}, operator)
		if err == nil {
			t.Errorf("%s is taken", name)
			continue
		}
		wantCode(t, err, wire.CodeSignatureWanted)
	}
	longer := h.seal(h.operator, payload, func(p *wire.ReleasePointer) { p.Expires = start.AddDate(1, 0, 0) })
	c, err := h.Point(t.Context(), "stable", release.Promotion{Digest: v1, Pointer: longer}, operator)
	must(t, err)
	if c.SignedBy != sign.KeyID(h.operator.Public().(ed25519.PublicKey)) || !c.Expires.Equal(start.AddDate(1, 0, 0)) || c.ToSign != "" {
		t.Errorf("got %+v", c)
	}
	_, err = h.Point(t.Context(), "stable", release.Promotion{Digest: v1, Pointer: longer}, operator)
	wantCode(t, err, wire.CodeSignatureWanted) // the number is taken
	h.look()
	if p := h.opened("n"); !p.Expires.Equal(start.AddDate(1, 0, 0)) {
		t.Errorf("the node gets %+v", p)
	}
	h.clock.Set(start.AddDate(0, 11, 15))
	must(t, h.Look(t.Context()))
	if c, err = h.Channel(t.Context(), "stable"); err != nil || !strings.Contains(c.ToSign, "its pointer ends") {
		t.Errorf("got %+v, %v", c, err)
	}
}

// TestUnsigned refuses what no pointer can be made of.
func TestUnsigned(t *testing.T) {
	h := newHall(t)
	v1 := h.release("v1")
	_, err := h.Unsigned(t.Context(), "stable", sum("none"))
	wantCode(t, err, wire.CodeReleaseUnknown)
	_, err = h.Unsigned(t.Context(), "stable", "")
	wantCode(t, err, wire.CodeChannelUnknown)
	for _, name := range []string{"", "a b", strings.Repeat("a", 64), "a/b", "\n"} {
		_, err = h.Unsigned(t.Context(), name, v1)
		wantCode(t, err, wire.CodeBadRequest)
		_, err = h.Point(t.Context(), name, release.Promotion{Digest: v1}, operator)
		wantCode(t, err, wire.CodeBadRequest)
	}
	_, err = h.Point(t.Context(), "stable", release.Promotion{}, operator)
	wantCode(t, err, wire.CodeReleaseUnknown)
}

// TestNumbersRace: many operators at once, on two gateways even, and no number is taken twice.
func TestNumbersRace(t *testing.T) {
	h := newHall(t)
	v1 := h.release("v1")
	v2 := h.release("v2")
	other, err := release.Open(t.Context(), h.config)
	must(t, err)
	must(t, other.Load(t.Context()))
	desks := []*release.Service{h.Service, other}
	var all sync.WaitGroup
	taken := make(chan int64, 40)
	for i := range 20 {
		all.Go(func() {
			digest := []string{v1, v2}[i%2]
			c, err := desks[i%2].Point(t.Context(), "stable", release.Promotion{Digest: digest}, operator)
			if err != nil {
				return // the other gateway was faster too often
			}
			taken <- c.Sequence
		})
	}
	all.Wait()
	close(taken)
	h.open()
	c, err := h.Channel(t.Context(), "stable")
	must(t, err)
	n := int64(len(h.events("channel.pointed")))
	if n == 0 || c.Sequence != n || h.row().Last != n {
		t.Errorf("%d changes, and the channel is at %+v", n, c)
	}
}

// TestRefresh: the gateway signs its pointers anew before they end, under the same number, and those whose key was struck.
func TestRefresh(t *testing.T) {
	h := newHall(t, "n")
	v1 := h.release("v1")
	h.point(v1, nil)
	h.clock.Forward(29 * 24 * time.Hour)
	must(t, h.Look(t.Context()))
	if c := h.shown(); !c.Expires.Equal(start.Add(90 * 24 * time.Hour)) {
		t.Errorf("it ends %s", c.Expires)
	}
	h.clock.Forward(24 * time.Hour)
	must(t, h.Look(t.Context()))
	c := h.shown()
	if !c.Expires.Equal(start.Add(120*24*time.Hour)) || c.Sequence != 1 {
		t.Errorf("got %+v", c)
	}
	_, h.key, _ = ed25519.GenerateKey(rand.Reader)
	must(t, h.Look(t.Context()))
	h.look()
	if p := h.opened("n"); p.Sequence != 1 {
		t.Errorf("got %+v", p)
	}
	if len(h.events("channel.refreshed")) != 2 {
		t.Error("events are missing")
	}
	h.key = nil
	must(t, h.Look(t.Context()))
	if c := h.shown(); !strings.Contains(c.ToSign, "struck") {
		t.Errorf("got %q", c.ToSign)
	}
}

// TestExpired: a pointer that has ended is offered to nobody.
func TestExpired(t *testing.T) {
	h := newHall(t, "n")
	v1 := h.release("v1")
	h.point(v1, nil)
	h.look()
	h.key = nil
	h.pass(time.Minute)
	h.clock.Forward(91 * 24 * time.Hour)
	h.beats(0)
	if wanted := h.beat("n"); wanted != "" {
		t.Errorf("offered %s", wanted)
	}
}

// TestPins: a pinned node stays, or gets its own release under a number that no other node is offered; afterwards it follows its channel.
func TestPins(t *testing.T) {
	h := newHall(t, "a", "b", "c")
	v1 := h.release("v1")
	v2 := h.release("v2")
	a := []release.Ref{{ID: "id-a", Name: "a", Tenant: "default"}}
	b := []release.Ref{{ID: "id-b", Name: "b", Tenant: "default"}}
	wantCode(t, h.Pin(t.Context(), a, v2, nil, operator), wire.CodeChannelUnknown)
	wantCode(t, h.Pin(t.Context(), nil, v2, nil, operator), wire.CodeBadRequest)
	h.point(v1, nil)
	wantCode(t, h.Pin(t.Context(), a, sum("none"), nil, operator), wire.CodeReleaseUnknown)
	must(t, h.Pin(t.Context(), a, "", nil, operator))
	must(t, h.Pin(t.Context(), b, v2, nil, operator))
	offered := h.look()
	if len(offered) != 2 || offered["b"] != v2 || offered["c"] != v1 {
		t.Errorf("offered %v", offered)
	}
	if p := h.opened("b"); p.Sequence != 2 {
		t.Errorf("got %+v", p)
	}
	h.install("b", "v2")
	h.install("c", "v1")
	h.open()
	pins, err := h.Pins(t.Context())
	if err != nil || len(pins) != 2 || pins[0].Node != "a" || pins[1].Version != "v2" {
		t.Errorf("got %+v, %v", pins, err)
	}
	wantCode(t, h.Drop(t.Context(), v2, operator), wire.CodeReleaseInUse)
	must(t, h.Unpin(t.Context(), append(a, b...), nil, operator))
	h.look()
	offered = h.look()
	if len(offered) != 2 || offered["a"] != v1 || offered["b"] != v1 {
		t.Errorf("offered %v", offered)
	}
	if p := h.opened("b"); p.Sequence != 3 {
		t.Errorf("got %+v", p)
	}
	must(t, h.Unpin(t.Context(), a, nil, operator)) // again
	if len(h.events("release.pinned")) != 2 || len(h.events("release.unpinned")) != 2 || len(h.events("channel.reissued")) != 1 {
		t.Error("events are missing")
	}
	must(t, h.Drop(t.Context(), v2, operator))
	wantCode(t, h.Drop(t.Context(), v2, operator), wire.CodeReleaseUnknown)
	wantCode(t, h.Drop(t.Context(), v1, operator), wire.CodeReleaseInUse)
}

// TestPinMoves: a pinned node that gets another channel gets its release under a number of that one.
func TestPinMoves(t *testing.T) {
	h := newHall(t, "a")
	v1 := h.release("v1")
	v2 := h.release("v2")
	h.point(v1, nil)
	_, err := h.Point(t.Context(), "beta", release.Promotion{Digest: v1}, operator)
	must(t, err)
	must(t, h.Pin(t.Context(), []release.Ref{{ID: "id-a", Name: "a"}}, v2, nil, operator))
	must(t, h.store.SetLabels(t.Context(), "id-a", map[string]string{wire.LabelChannel: "beta"}, nil))
	h.look()
	if p := h.opened("a"); p.Channel != "beta" || p.Sequence != 2 || p.Digest != v2 {
		t.Errorf("got %+v", p)
	}
	// An operator's key is for one channel.
	h.enrol("b", nil)
	h.beat("b")
	two := []release.Ref{{ID: "id-a", Name: "a"}, {ID: "id-b", Name: "b"}}
	wantCode(t, h.Pin(t.Context(), two, v1, []byte("{}"), operator), wire.CodeBadRequest)
}

// TestNodesLater: who asks about nodes before they are read waits, and what is read by then stays as it was said.
func TestNodesLater(t *testing.T) {
	h := newHall(t)
	v1 := h.release("v1")
	h.enrol("a", nil)
	desk, err := release.Open(t.Context(), h.config)
	must(t, err)
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	promotion := release.Promotion{Digest: v1}
	refs := []release.Ref{{ID: "id-a", Name: "a"}}
	_, _, _, heard := desk.Heard(impatient, release.Node{ID: "id-a"}, nil)
	_, wanted := desk.Wanted(impatient, "id-a")
	_, layer := desk.Layer(impatient, "id-a", v1)
	_, status := desk.Status(impatient, "stable")
	_, channel := desk.Channel(impatient, "stable")
	_, channels := desk.Channels(impatient)
	_, point := desk.Point(impatient, "stable", promotion, operator)
	_, back := desk.Rollback(impatient, "stable", promotion, operator)
	_, pause := desk.Pause(impatient, "stable", operator)
	_, resume := desk.Resume(impatient, "stable", operator)
	_, abort := desk.Abort(impatient, "stable", promotion, operator)
	pin := desk.Pin(impatient, refs, v1, nil, operator)
	unpin := desk.Unpin(impatient, refs, nil, operator)
	for i, err := range []error{heard, wanted, layer, status, channel, channels, point, back, pause, resume, abort, pin, unpin} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("call %d does not wait for the nodes: %v", i, err)
		}
	}
	must(t, desk.Load(t.Context()))
	if _, _, _, err := desk.Heard(t.Context(), release.Node{ID: "id-a"}, nil); err != nil {
		t.Error(err)
	}
	if n := desk.Updating("id-a"); n == nil {
		t.Error("the node is not known after Load")
	}
}

// TestPointerRenewed: a node that runs its release is given the pointer again whose end is later than what it knows, also if it knows
// none. An agent that says nothing of that is given nothing.
func TestPointerRenewed(t *testing.T) {
	h := newHall(t, "n", "older")
	h.point(h.release("v1"), nil)
	h.look()
	h.take("n", "v1")
	h.take("older", "v1")
	h.look() // the rollout is done
	offered := func(when string, want bool) {
		t.Helper()
		wanted, _, _, err := h.Heard(t.Context(), release.Node{ID: "id-n", Name: "n", Tenant: "default", OS: "linux", Arch: "amd64",
			Digest: program("v1"), TellsEnds: h.nodes["n"].tells, Ends: h.nodes["n"].ends}, &wire.Update{Channel: "stable", Sequence: 1})
		must(t, err)
		if (wanted == sum("v1")) != want {
			t.Errorf("%s: it is told of %q", when, wanted)
		}
	}
	n := h.nodes["n"]
	offered("it does not say what it knows", false)
	n.tells = true
	offered("it knows none", true)
	n.ends = h.opened("n").Expires
	offered("it knows the present one", false)
	h.clock.Forward(31 * 24 * time.Hour) // the gateway signs it anew
	h.look()
	offered("it is signed anew", true)
	if ends := h.opened("n").Expires; !ends.After(n.ends) {
		t.Errorf("it is given one that ends at %v, and knows one until %v", ends, n.ends)
	}
	n.ends = h.opened("n").Expires
	offered("it knows that one too", false)
}
