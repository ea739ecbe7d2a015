package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/store"
	"muster/store/rqlite"
	"muster/store/rqlite/rqlitetest"
)

// said is an answer of a gateway.
type said struct {
	status int
	code   string // of a refusal
}

// says sends a gateway a report, once. status 0: it gave no answer.
func says(client *http.Client, url string, header http.Header, body []byte) said {
	r, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return said{}
	}
	r.Header = header.Clone()
	answer, err := client.Do(r)
	if err != nil {
		return said{}
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	var refused wire.Error
	if err != nil || answer.StatusCode != http.StatusOK && json.Unmarshal(text, &refused) != nil {
		return said{}
	}
	return said{answer.StatusCode, refused.Error.Code}
}

// TestTakeoverRefuses: what the gateway before has taken once is not taken by the one that takes over, and whom it has banned stays out,
// from the first answer on. The one that stands by is asked all the time, so that no answer is missed.
func TestTakeoverRefuses(t *testing.T) {
	t.Parallel()
	s := newSeveral(t, rqlitetest.Serve(t, rqlitetest.New(t)))
	a := s.begin("gw1")
	a.active("gw1")
	b := s.begin("gw2")
	b.active("gw1")
	client := visitor()
	client.Timeout = 5 * time.Second
	token := a.token("--uses", "2")
	good := newApplicant(t, client, a.url, token, "good")
	bad := newApplicant(t, client, a.url, token, "bad")
	for _, one := range []*applicant{good, bad} {
		if err := one.register(); err != nil {
			t.Fatal(err)
		}
	}
	if err := bad.beat(1); err != nil {
		t.Fatal(err)
	}
	a.muster("node", "ban", "bad", "--yes")

	path, epoch := wire.HeartbeatPath(good.nodeID), good.epoch
	body, err := json.Marshal(wire.HeartbeatRequest{RunID: "run-" + good.nodeID, Counter: 1, IntervalSeconds: 1})
	if err != nil {
		t.Fatal(err)
	}
	signed := func() http.Header {
		r, err := http.NewRequest(http.MethodPost, a.url+path, nil)
		if err == nil {
			_, err = good.signer.Sign(r, body, epoch, time.Now())
		}
		if err != nil {
			t.Fatal(err)
		}
		return r.Header
	}
	once := signed()
	if first := says(client, a.url+path, once, body); first.status != http.StatusOK {
		t.Fatalf("a signed request: %+v", first)
	}
	shown := visitor()
	shown.Timeout = client.Timeout
	shown.Transport.(*http.Transport).TLSClientConfig.Certificates = []tls.Certificate{bad.certificate}
	replayed := func() said { return says(client, b.url+path, once, body) }
	old := func() said { return says(client, b.url+path, signed(), body) }
	banned := func() said { return says(shown, b.url+wire.HeartbeatPath(bad.nodeID), http.Header{}, body) }

	refused := func(what, code string, ask func() said) {
		t.Helper()
		for end := time.Now().Add(patience); ; {
			got := ask()
			if got.status == http.StatusOK {
				t.Errorf("%s is taken", what)
			}
			if got.code == code {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s: %+v", what, got)
			}
		}
	}
	refused("the same request", wire.CodeReplayed, replayed)
	refused("a banned node", wire.CodeBanned, banned)
	a.now().kill()
	refused("the same request, after the takeover", wire.CodeStaleNonce, replayed)
	refused("a banned node, after the takeover", wire.CodeBanned, banned)
	refused("a nonce of the epoch before", wire.CodeStaleNonce, old)
	b.active("gw2")
	if err := good.beat(1); err == nil {
		t.Error("a gateway that is dead has answered")
	}
	good.url = b.url
	for end := time.Now().Add(patience); good.beat(1) != nil; <-time.After(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a good node is not answered by the gateway that has taken over")
		}
	}
}

// holder holds the lease in the place of a gateway. Its clock is ahead by so much.
type holder struct {
	*rqlite.DB
	end func() // as if it died
}

func holds(t *testing.T, node *rqlitetest.Node, schema int, ahead time.Duration) *holder {
	t.Helper()
	db, err := rqlite.Open(t.Context(), rqlite.Options{Endpoints: []string{"127.0.0.1:4001"}, Transport: node,
		Now: func() time.Time { return time.Now().Add(ahead) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	seen, err := db.Lease(t.Context())
	if err == nil || seen.Fence == 0 {
		err = db.Take(t.Context(), seen, rqlite.Claim{Gateway: "gw9", URL: "https://127.0.0.1:9", Schema: schema})
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var holding sync.WaitGroup
	holding.Go(func() { _ = db.Hold(ctx) })
	h := &holder{db, func() {
		cancel()
		holding.Wait()
	}}
	t.Cleanup(h.end)
	return h
}

// beats waits until the lease was renewed so often.
func (h *holder) beats(t *testing.T, more int64) {
	t.Helper()
	first, err := h.Lease(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; <-time.After(100 * time.Millisecond) {
		var now rqlite.Lease
		if now, err = h.Lease(t.Context()); err == nil && now.Beat >= first.Beat+more {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the lease is not renewed: %v", err)
		}
	}
}

// TestStandbyClock: a gateway whose clock is five seconds from that of the one that died does not take over, and says why. After one whose
// clock is right it does.
func TestStandbyClock(t *testing.T) {
	t.Parallel()
	node := rqlitetest.New(t)
	s := newSeveral(t, rqlitetest.Serve(t, node))
	far := holds(t, node, 0, 5*time.Second)
	m := s.begin("gw1")
	m.now().await("gw9 is the active gateway")
	far.beats(t, 3)
	far.end()
	m.now().await("clock is too far")
	if now, err := far.Lease(t.Context()); err != nil || now.Fence != 1 {
		t.Errorf("it has taken over all the same: %+v, %v", now, err)
	}
	near := holds(t, node, 0, 0)
	near.beats(t, 3)
	near.end()
	m.now().await("this gateway is the active one")
}

// TestStandbyOlder: a gateway of an older schema stands by for as long as the newer one is active. It does not take over, but ends, and has
// written nothing.
func TestStandbyOlder(t *testing.T) {
	t.Parallel()
	node := rqlitetest.New(t)
	s := newSeveral(t, rqlitetest.Serve(t, node))
	_, known, err := store.Schema(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	newer := holds(t, node, known+1, 0)
	m := s.begin("gw1")
	m.now().await("gw9 is the active gateway")
	newer.end()
	if err := newer.Release(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	p := m.now()
	<-p.done
	if code := p.cmd.ProcessState.ExitCode(); code != exitFailed || !strings.Contains(p.text(), store.ErrNewerDatabase.Error()) {
		t.Errorf("it ends with %d:\n%s", code, p.text())
	}
	var tables int
	if err := node.DB.QueryRow("SELECT count(*) FROM sqlite_master WHERE type = 'table'").Scan(&tables); err != nil || tables != 2 {
		t.Errorf("it has made %d tables, %v", tables-2, err)
	}
	if now, err := newer.Lease(t.Context()); err != nil || now.Fence != 2 || now.Holder != "" {
		t.Errorf("the lease is %+v, %v", now, err)
	}
}
