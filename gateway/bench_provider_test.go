package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"time"

	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/kit/cloudsim"
	vastsim "muster/gateway/internal/kit/cloudsim/vast"
	"muster/gateway/internal/provider"
	"muster/gateway/internal/provider/cloud"
	"muster/gateway/internal/provider/cloud/call"
	"muster/gateway/internal/provider/cloud/vast"
	"muster/gateway/internal/provider/market"
	"muster/gateway/internal/view"
	"muster/store"
	rentals "muster/store/provider"
)

const (
	rentedMany = 5000
	syncMost   = 2.0 // seconds beside the company's own
)

// providers measures a whole view of an account with many machines: to read it, to keep it, and to hold the fleet against it.
func (m *bench) providers(t *table) {
	sim := vastsim.New(cloudsim.Config{Keys: map[string][]string{"bench-key-bench-key": nil}}, vastsim.Host{ID: 1, GPU: "H100 SXM", GPUs: 8,
		MiB: 81559, Price: 16_000_000})
	for range rentedMany {
		_, err := sim.Rent(1, "theirs")
		m.must(err)
	}
	var own atomic.Int64 // nanoseconds that the company takes
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := time.Now()
		sim.ServeHTTP(w, r)
		own.Add(int64(time.Since(begun)))
	}))
	defer server.Close()
	dir := filepath.Join(m.dir, "providers")
	m.seed(dir, rentedMany)
	g := m.openRead(dir)
	defer g.stop()
	s, err := provider.Open(m.Context(), provider.Config{
		Config: market.Config{Store: g.store, Records: rentals.New(g.store.Records()), Dial: func(_ string, d market.Dial) (market.Cloud, error) {
			return vast.New(call.Account{URL: d.URL, Key: d.Key, Sleep: func(context.Context, time.Duration) error { return nil }})
		}},
		Ready: g.overview.Ready, NodeCosts: g.costs.Sums,
		Nodes: func() []*api.NodeRow {
			rows, _ := g.overview.Rows(view.Query{All: true})
			return rows
		},
	})
	m.must(err)
	_, err = s.AddProvider(m.Context(), providers.Request{Kind: cloud.Vast, Name: "bench", Key: "bench-key-bench-key", URL: server.URL},
		store.Actor{Name: "bench"})
	m.must(err)
	var took, theirs, held []float64
	for range benchRounds {
		own.Store(0)
		begun := time.Now()
		_, err := s.SyncProvider(m.Context(), "bench")
		m.must(err)
		theirs = append(theirs, time.Duration(own.Load()).Seconds())
		took = append(took, time.Since(begun).Seconds()-theirs[len(theirs)-1])
		begun = time.Now()
		s.Round(m.Context())
		held = append(held, time.Since(begun).Seconds())
	}
	t.bound(fmt.Sprintf("a view of %d rented machines, with HTTP and the database", rentedMany), "s", median(took), syncMost,
		fmt.Sprintf("%.2f s of the company's own", median(theirs)), "the pace that companies ask for, and the network")
	t.note(fmt.Sprintf("%d rented machines held against %d nodes", rentedMany, rentedMany), fmt.Sprintf("%.0f ms", median(held)*1000), "", "")
}
