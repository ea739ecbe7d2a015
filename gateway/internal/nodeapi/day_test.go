package nodeapi_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"muster/gateway/internal/authority"
	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/nodeapi"
	"muster/gateway/internal/reply"
	"muster/store"
)

const (
	dayLength = 26 * time.Hour
	dayTTL    = 2 * time.Hour // so that a day holds many renewals
	dayPace   = 2 * time.Minute
)

// world is a gateway in synthetic time, and the network to it.
type world struct {
	t     *testing.T
	store *store.Store
	ca    *authority.Authority

	mu      sync.Mutex
	fleet   *fleet.Fleet
	handler http.Handler // nil: the gateway is down
	epoch   string
	stop    func()
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t}
	var err error
	w.store, err = store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "muster.db"),
		MasterKey: bytes.Repeat([]byte{7}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	if w.ca, err = authority.Open(t.Context(), authority.Config{Store: w.store, TrustDomain: "test", CertTTL: dayTTL}); err != nil {
		t.Fatal(err)
	}
	w.open()
	return w
}

// open starts a gateway on the database.
func (w *world) open() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	var err error
	w.fleet, err = fleet.Open(w.t.Context(), fleet.Config{Store: w.store, RenewGrace: grace, FlushEvery: time.Minute})
	if err != nil {
		w.t.Fatal(err)
	}
	w.epoch = fmt.Sprint("epoch", time.Now().Unix())
	mux := http.NewServeMux()
	nodeapi.New(nodeapi.Config{
		Fleet: w.fleet, Bootstrap: bootstrap.New(bootstrap.Config{Store: w.store}), Authority: w.ca, Issuer: w.ca, Store: w.store,
		Info: &reply.Info{Epoch: w.epoch, Logger: slog.New(slog.DiscardHandler)}, Interval: dayPace, Version: "v1",
		Address: func(r *http.Request) string { return r.RemoteAddr },
	}).Routes(mux)
	w.handler = mux
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func(r *fleet.Fleet) { done <- r.Run(ctx) }(w.fleet)
	w.stop = func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	}
}

// shut stops the gateway, as an update does.
func (w *world) shut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handler = nil
	w.stop()
}

func (w *world) now() (http.Handler, string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.handler, w.epoch
}

// TestDay is a day of a small swarm in seconds. In the end every node is there, and none was taken for a copy of itself. Then one is
// copied, and that is noticed.
func TestDay(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds of a processor")
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		machines := make([]*machine, 16)
		for i := range machines {
			machines[i] = w.machine(i)
		}
		ctx, end := context.WithCancel(context.Background())
		var lives sync.WaitGroup
		for _, m := range machines {
			lives.Go(func() { m.live(ctx) })
		}
		for began := time.Now(); time.Since(began) < dayLength; {
			time.Sleep(3 * time.Hour)
			w.shut()
			time.Sleep(7 * time.Minute)
			w.open()
		}
		end()
		lives.Wait()
		w.afternoon(machines)
		w.shut()
		if err := w.store.Close(); err != nil {
			t.Error(err)
		}
	})
}

// afternoon is quiet: everything comes back, and then a copy of one machine is switched on.
func (w *world) afternoon(machines []*machine) {
	ctx, end := context.WithCancel(context.Background())
	var lives sync.WaitGroup
	work := func(m *machine) {
		m.set(false, 0)
		lives.Go(func() { m.work(ctx, func() bool { return false }) })
	}
	for _, m := range machines {
		work(m)
	}
	time.Sleep(15 * time.Minute)
	lost := 0
	strays := 0
	renewals := 0
	for _, m := range machines {
		n, err := w.fleet.Node(ctx, "", m.name)
		if err != nil || n.State != "active" || n.Status != "online" || len(n.Reasons) != 0 {
			w.t.Errorf("%s: %s %s %v, %v", m.name, n.State, n.Status, n.Reasons, err)
		}
		lost = lost + m.lost
		strays = strays + m.stray
		renewals = renewals + m.renewed
	}
	if got := len(w.events("identity.conflict")); got != 0 {
		w.t.Errorf("%d conflicts where nothing was copied", got)
	}
	w.t.Logf("%d machines, %d renewals, %d after expiry, %d requests lost, %d that arrived after their sender's death", len(machines),
		renewals,
		len(w.events("certificate.recovered")), lost, strays)
	if renewals < 10*len(machines) || lost == 0 || strays == 0 || len(w.events("certificate.recovered")) == 0 {
		w.t.Error("the day was too quiet to show anything")
	}
	original := machines[3]
	clone := &machine{world: w, name: original.name, random: rand.New(rand.NewPCG(99, 9)), disk: original.disk, mutual: original.mutual}
	began := time.Now()
	work(clone)
	for len(w.events("identity.conflict")) == 0 && time.Since(began) < time.Hour {
		time.Sleep(10 * time.Second)
	}
	if took := time.Since(began); took > 4*dayPace {
		w.t.Errorf("a copy was seen after %s, want a few heartbeats of %s", took, dayPace)
	}
	for i, m := range machines {
		if n, err := w.fleet.Node(ctx, "", m.name); err != nil || (n.State == "active") != (i != 3) {
			w.t.Errorf("%s: %s %v, %v", m.name, n.State, n.Reasons, err)
		}
	}
	end()
	lives.Wait()
}

func (w *world) events(kind string) []store.Event {
	w.t.Helper()
	events, err := w.store.Events(context.Background(), store.EventQuery{Kind: kind, Limit: 1000})
	if err != nil {
		w.t.Fatal(err)
	}
	return events
}
