package session_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"muster/agent/pipe"
	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/kit"
	"muster/gateway/internal/session"
	"muster/store"
)

var start = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// hall is a Service on a real store, with nodes that are online.
type hall struct {
	*session.Service
	t        testing.TB
	clock    *kit.Clock
	store    *store.Store
	key      ed25519.PrivateKey
	operator ed25519.PrivateKey

	mu    sync.Mutex
	rings map[string]int
	still error // what the Service hears of every account
}

func newHall(t testing.TB, nodes ...string) *hall {
	t.Helper()
	h := &hall{t: t, clock: kit.NewClock(start), rings: map[string]int{}}
	h.store = kit.Store(t, h.clock.Now)
	_, h.key, _ = ed25519.GenerateKey(rand.Reader)
	_, h.operator, _ = ed25519.GenerateKey(rand.Reader)
	must(t, h.store.CreateToken(context.Background(), store.Token{ID: "mse_many", Tenant: "default", Uses: 1000, Key: []byte("k"),
		CreatedAt: start, ExpiresAt: start.Add(100 * time.Hour)}))
	for _, name := range nodes {
		h.enrol(name)
	}
	h.open(session.Config{})
	return h
}

// open makes the Service, as a start of the gateway does.
func (h *hall) open(c session.Config) {
	h.t.Helper()
	c.Store = h.store
	c.Now = h.clock.Now
	c.Sign = func(payload []byte) (wire.SignedTask, error) { return sign.SealTask(h.key, payload), nil }
	c.Keys = func() []ed25519.PublicKey {
		return []ed25519.PublicKey{h.key.Public().(ed25519.PublicKey), h.operator.Public().(ed25519.PublicKey)}
	}
	c.Ref = func() store.StatusRef { return store.StatusRef{Now: h.clock.Now()} }
	c.Still = func(context.Context, string, string, string) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.still
	}
	c.Ring = func(node string) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.rings[node]++
	}
	var err error
	h.Service, err = session.New(context.Background(), c)
	must(h.t, err)
}

func (h *hall) certificate(print string) store.Certificate {
	return store.Certificate{Fingerprint: print, KeyHash: "key of " + print, PublicKey: []byte(print), Chain: "chain", NotBefore: start,
		NotAfter: start.Add(1000 * time.Hour), IssuedAt: h.clock.Now()}
}

// enrol makes an active node. Its id is id-NAME, its enrolment e-NAME, its fingerprint print-NAME.
func (h *hall) enrol(name string) {
	h.t.Helper()
	ctx := context.Background()
	must(h.t, h.store.Enrol(ctx, store.Enrolment{ID: "e-" + name, Credential: "mse_many", ConsumeToken: true, KeyHash: "key-" + name,
		At: h.clock.Now(), Node: store.Node{ID: "id-" + name, Name: name, Tenant: "default", State: "enrolled"}, NewNode: true,
		Certificate: h.certificate("print-" + name)}))
	h.move(name, "enrolled", "active")
	must(h.t, h.store.SaveBeats(ctx, []store.Beat{{NodeID: "id-" + name, At: h.clock.Now(), RunID: "r", Interval: time.Hour}}, h.clock.Now()))
}

// again enrols a node anew, on another machine.
func (h *hall) again(name string) {
	h.t.Helper()
	must(h.t, h.store.Enrol(context.Background(), store.Enrolment{ID: "e2-" + name, Credential: "mse_many", ConsumeToken: true,
		KeyHash: "key2-" + name, At: h.clock.Now(), Node: store.Node{ID: "id-" + name, Name: name, Tenant: "default", State: "active"},
		TakeOver: &store.TakeOver{EnrolmentID: "e-" + name, State: "active"}, Certificate: h.certificate("print2-" + name)}))
}

func (h *hall) move(name, from, to string) {
	h.t.Helper()
	must(h.t, h.store.MoveNode(context.Background(), store.Move{NodeID: "id-" + name, From: from, To: to, At: h.clock.Now(),
		RevokeCertificates: to == "retired"}))
}

func claimer(name string) session.Claimer {
	return session.Claimer{NodeID: "id-" + name, Enrolment: "e-" + name, Fingerprint: "print-" + name, Generation: 1, Address: "192.0.2.7"}
}

func alice() session.Caller {
	return session.Caller{Actor: store.Actor{Name: "account:alice", Address: "192.0.2.1"}, Account: "msa_alice"}
}

func mallory() session.Caller {
	return session.Caller{Actor: store.Actor{Name: "account:mallory", Address: "192.0.2.66"}, Account: "msa_mallory"}
}

// ask opens a session and has the node take it.
func (h *hall) ask(node, kind, params string) string {
	h.t.Helper()
	v, err := h.Open(h.t.Context(), alice(), session.Ask{Node: node, Type: kind, Params: json.RawMessage(params)})
	must(h.t, err)
	if got := h.Aside(claimer(node)); got == nil {
		h.t.Fatal("the node was given nothing")
	}
	return v.ID
}

// shell is a session that the node has begun, with what it has sent until then.
func (h *hall) shell(node string) (id string, sent *[]byte) {
	h.t.Helper()
	id = h.ask(node, wire.SessionShell, `{"user":"me"}`)
	sent = new([]byte)
	h.says(node, id, sent, frame(pipe.FrameReady, `{"user":"me"}`))
	return id, sent
}

// says has the node send bytes on the channel pipe.Main, until all of them are taken.
func (h *hall) says(node, id string, sent *[]byte, data []byte) {
	h.t.Helper()
	at := int64(len(*sent))
	*sent = append(*sent, data...)
	for at < int64(len(*sent)) {
		next, err := h.NodeSend(h.t.Context(), claimer(node), id, pipe.Main, at, pipe.Piece{Data: (*sent)[at:]})
		must(h.t, err)
		if next <= at {
			h.t.Fatalf("nothing was taken at %d", at)
		}
		at = next
	}
}

// hears reads all that is there for the operator on the channel pipe.Main.
func (h *hall) hears(id string, from int64) (text string, err error) {
	for {
		p, err := h.Fetch(h.t.Context(), alice(), id, pipe.Main, from, 0)
		if len(p.Data) == 0 {
			return text, err
		}
		text += string(p.Data)
		from += int64(len(p.Data))
	}
}

func frame(kind pipe.FrameKind, text string) []byte {
	var out bytes.Buffer
	if err := pipe.WriteFrame(&out, kind, []byte(text)); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// events are the kinds of events about sessions with their outcomes, the oldest first.
func (h *hall) events() []string {
	h.t.Helper()
	all, err := h.store.Events(context.Background(), store.EventQuery{Ascending: true, Limit: 1000})
	must(h.t, err)
	var kinds []string
	for _, e := range all {
		if e.Detail["session"] != "" {
			kinds = append(kinds, e.Kind+" "+e.Outcome)
		}
	}
	return kinds
}

// why is how a session ended, as it is on record; "": it has not.
func (h *hall) why(id string) string {
	h.t.Helper()
	v, err := h.Get(h.t.Context(), alice(), id)
	must(h.t, err)
	return v.End
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// code is that of a refusal.
func code(err error) string {
	var said *wire.ErrorDetail
	if errors.As(err, &said) {
		return said.Code
	}
	return fmt.Sprint(err)
}
