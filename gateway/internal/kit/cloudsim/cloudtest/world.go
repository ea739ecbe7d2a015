package cloudtest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"muster/gateway/internal/kit/cloudsim"
)

// Key is the API key of the account in a World.
const Key = "secret_of_the_simulator"

// World is the surroundings of a simulated company. Its clock moves only when somebody waits.
type World struct {
	mu  sync.Mutex
	now time.Time
}

// Config completes the Config of a simulator: it keeps the company's limits, by this clock.
func (w *World) Config(c cloudsim.Config) cloudsim.Config {
	w.now = time.Date(2026, 11, 29, 4, 0, 0, 0, time.UTC)
	c.Now, c.Limits = w.Time, true
	if c.Keys == nil {
		c.Keys = map[string][]string{Key: nil}
	}
	return c
}

// Serve has the simulator answer until the end of the test, and gives its URL.
func Serve(t testing.TB, sim http.Handler) string {
	server := httptest.NewServer(sim)
	t.Cleanup(server.Close)
	return server.URL
}

// Wait lets time pass.
func (w *World) Wait(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// Sleep does what Wait does, and ends early when ctx does.
func (w *World) Sleep(ctx context.Context, d time.Duration) error {
	w.Wait(d)
	return ctx.Err()
}

// Time returns the time of the clock.
func (w *World) Time() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// Orders is a company with nothing in it, from which a test rents.
type Orders struct {
	Sim       *cloudsim.Sim
	Rent      func() error
	List      func() (int, error)
	IsUnclear func(error) bool // whether something was made nobody knows
}

// CheckOrders rents under the faults of an endpoint: what is made though it seems not, and what is not though it seems so.
func CheckOrders(t testing.TB, endpoint string, open func() Orders) {
	t.Helper()
	for name, test := range map[string]struct {
		fault   string
		unclear bool
		made    int
	}{
		"well": {"", false, 1}, "lost": {cloudsim.Lost, true, 1}, "cut": {cloudsim.Truncated, true, 1},
		"failed, and made": {cloudsim.Half, true, 1}, "not made": {cloudsim.Nothing, false, 0}, "page": {cloudsim.HTML, true, 0},
	} {
		o := open()
		o.Sim.Add(cloudsim.Fault{On: endpoint, Kind: test.fault})
		err := o.Rent()
		if n, bad := o.List(); (err != nil) != test.unclear || err != nil && !o.IsUnclear(err) || n != test.made || bad != nil {
			t.Errorf("%s: %v, and there are %d, %v", name, err, n, bad)
		}
	}
}
