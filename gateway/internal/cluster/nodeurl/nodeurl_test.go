package nodeurl_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/cluster/nodeurl"
	"muster/gateway/internal/cluster/peer"
	"muster/gateway/internal/kit"
	"muster/store"
)

const (
	gw1 = "https://gw1:7443"
	gw2 = "https://gw2:7443"
	gw3 = "https://gw3:7443"
)

// house is one active gateway after the other, on one store.
type house struct {
	t     *testing.T
	store *store.Store
	list  *nodeurl.List
	now   atomic.Pointer[time.Time]
	by    atomic.Pointer[[]peer.Standing]
	hosts atomic.Pointer[[]string]
}

func newHouse(t *testing.T) *house {
	h := &house{t: t}
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	h.now.Store(&now)
	h.stands()
	h.store = kit.Store(t, func() time.Time { return *h.now.Load() })
	return h
}

// open is a start of a gateway as the active one.
func (h *house) open(id, url string) {
	h.t.Helper()
	var err error
	h.list, err = nodeurl.Open(h.t.Context(), nodeurl.Config{
		Store: h.store, ID: id, URL: url, Standing: func() []peer.Standing { return *h.by.Load() },
		Changed: func(hosts []string) { h.hosts.Store(&hosts) }, Now: func() time.Time { return *h.now.Load() }, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// stands says which gateways stand by: id and URL by turns.
func (h *house) stands(all ...string) {
	var by []peer.Standing
	for i := 0; i < len(all); i += 2 {
		by = append(by, peer.Standing{ID: all[i], Hello: peer.Hello{Nodes: all[i+1]}})
	}
	h.by.Store(&by)
}

func (h *house) forward(d time.Duration) {
	now := h.now.Load().Add(d)
	h.now.Store(&now)
}

// looks lets the list look at the others.
func (h *house) looks() {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), 6*time.Second)
	defer cancel()
	if err := h.list.Run(ctx); err != nil {
		h.t.Error(err)
	}
}

func (h *house) wants(hosts string, urls ...string) {
	h.t.Helper()
	if got := h.list.URLs(); !slices.Equal(got, urls) {
		h.t.Errorf("nodes are told %q, want %q", got, urls)
	}
	if got := strings.Join(*h.hosts.Load(), " "); got != hosts {
		h.t.Errorf("the certificate is for %q, want %q", got, hosts)
	}
}

// TestURLs: the list has the own URL first, follows the gateways that stand by, and is there at once after a takeover.
func TestURLs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		h.open("gw1", gw1)
		h.wants("gw1")
		h.stands("gw2", gw2, "gw3", "", "gw4", "http://gw4", "gw5", "https://gw5/x")
		h.looks()
		h.wants("gw1 gw2", gw1, gw2)
		h.stands("gw2", gw2, "gw3", gw3)
		h.looks()
		h.stands()
		h.open("gw2", gw2)
		h.wants("gw2 gw1 gw3", gw2, gw1, gw3)
		h.stands("gw1", gw1, "gw3", "")
		h.looks()
		h.wants("gw2 gw1", gw2, gw1)
		h.stands("gw1", "https://other:7443")
		h.looks()
		h.wants("gw2 other", gw2, "https://other:7443")
		h.stands("gw1", gw2)
		h.looks()
		h.wants("gw2")
		h.stands("gw1", gw1)
		h.open("gw2", "")
		h.wants("gw1")
	})
}

// TestForgets: a gateway that is not heard for a week leaves the list. What is heard is stored now and then.
func TestForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		h.stands("gw2", gw2)
		h.open("gw1", gw1)
		for range 10 {
			h.forward(24 * time.Hour)
			h.looks()
		}
		h.wants("gw1 gw2", gw1, gw2)
		h.stands()
		h.forward(6 * 24 * time.Hour)
		h.open("gw1", gw1)
		h.wants("gw1 gw2", gw1, gw2)
		h.forward(2 * 24 * time.Hour)
		h.looks()
		h.wants("gw1")
	})
}

// TestWritesWhatIsNew: nothing is written while nothing changes.
func TestWritesWhatIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		h.stands("gw2", gw2)
		h.open("gw1", gw1)
		if err := h.store.SetMeta(t.Context(), "gateway_urls", "[]"); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			h.forward(time.Minute)
			h.looks()
		}
		if text, err := h.store.Meta(t.Context(), "gateway_urls"); err != nil || text != "[]" {
			t.Errorf("it was written: %s, %v", text, err)
		}
		h.forward(2 * time.Hour)
		h.looks()
		if text, err := h.store.Meta(t.Context(), "gateway_urls"); err != nil || !strings.Contains(text, gw2) {
			t.Errorf("it was not written: %s, %v", text, err)
		}
	})
}

// TestDamage: a list that cannot be read is collected anew, one with many entries is bounded, and a store that cannot be read is an error.
func TestDamage(t *testing.T) {
	h := newHouse(t)
	if err := h.store.SetMeta(t.Context(), "gateway_urls", "{"); err != nil {
		t.Fatal(err)
	}
	var many []string
	for i := range 40 {
		many = append(many, fmt.Sprintf("gw%d", 10+i), fmt.Sprintf("https://gw%d", 10+i))
	}
	h.stands(many...)
	h.open("gw5", gw1)
	if got := h.list.URLs(); len(got) != wire.MaxGateways || got[0] != gw1 || got[1] != "https://gw10" {
		t.Errorf("got %q", got)
	}
	if err := h.store.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := nodeurl.Open(t.Context(), nodeurl.Config{Store: h.store, Logger: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "read the gateways' URLs") {
		t.Errorf("got %v", err)
	}
	var none *nodeurl.List
	if none.URLs() != nil {
		t.Error("one gateway by itself has a list")
	}
}
