package cluster

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"muster/store/engine"
	"muster/store/rqlite"
	"muster/store/rqlite/rqlitetest"
)

// member is a gateway of a test, with what it logs.
type member struct {
	*Member
	t    testing.TB
	log  *text
	took chan error

	mu   sync.Mutex
	seen []string // the active gateways, beat by beat; guarded by mu
}

// text is a log that several goroutines write.
type text struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (b *text) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(p)
}

func (b *text) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.String()
}

// join makes a gateway on a node, whose clock is ahead by so much.
func join(t testing.TB, n http.RoundTripper, id string, ahead time.Duration) *member {
	t.Helper()
	db, err := rqlite.Open(t.Context(), rqlite.Options{Endpoints: []string{"127.0.0.1:4001"}, Transport: n,
		Now: func() time.Time { return time.Now().Add(ahead) }})
	must(t, err)
	log := &text{}
	return &member{Member: newMember(db, rqlite.Claim{Gateway: id, URL: "https://" + id + ":7444", Schema: 1},
		slog.New(slog.NewTextHandler(log, nil))), t: t, log: log, took: make(chan error, 1)}
}

// stand has it stand by.
func (m *member) stand(ctx context.Context) {
	go func() {
		m.took <- m.StandBy(ctx, func(id, url string) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.seen = append(m.seen, id+" at "+url)
		})
	}()
}

// takes waits until it is the active one, and gives how long that took.
func (m *member) takes() time.Duration {
	m.t.Helper()
	began := time.Now()
	must(m.t, <-m.took)
	return time.Since(began)
}

func (m *member) waits() {
	m.t.Helper()
	select {
	case err := <-m.took:
		m.t.Errorf("%s does not stand by: %v", m.ID, err)
	default:
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestTakeover: the first gateway is active at once. When it goes silent, another one is active six seconds later, and the first one has
// stopped answering well before that.
func TestTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rqlitetest.New(t)
		first := join(t, n, "gw1", 0)
		first.stand(t.Context())
		if took := first.takes(); took > time.Second {
			t.Errorf("nobody was active, and it took %s", took)
		}
		second := join(t, n, "gw2", 0)
		second.stand(t.Context())
		time.Sleep(time.Hour)
		second.waits()
		second.mu.Lock()
		if l := second.seen[len(second.seen)-1]; l != "gw1 at https://gw1:7444" || len(second.seen) < 3600 {
			t.Errorf("it has seen %d beats, the last %s", len(second.seen), l)
		}
		second.mu.Unlock()
		first.stop() // as if its process hung
		silent := time.Now()
		for first.DB.Holds() {
			time.Sleep(100 * time.Millisecond)
		}
		if after := time.Since(silent); after > 4100*time.Millisecond {
			t.Errorf("the first one answers for %s", after)
		}
		second.waits()
		second.takes()
		if after := time.Since(silent); after < 5*time.Second || after > 7*time.Second {
			t.Errorf("the second one is active after %s", after)
		}
		must(t, second.Close())
		must(t, first.Close())
	})
}

// TestHandedOver: a gateway that ends gives the lease back, and the next one has it at once.
func TestHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rqlitetest.New(t)
		first := join(t, n, "gw1", 0)
		first.stand(t.Context())
		first.takes()
		second := join(t, n, "gw2", 0)
		second.stand(t.Context())
		time.Sleep(10 * time.Second)
		must(t, first.Close())
		if took := second.takes(); took > time.Second {
			t.Errorf("it took %s", took)
		}
		must(t, second.Close())
	})
}

// TestOne: of many gateways that wait for the lease one gets it each time, and whoever loses it hears so.
func TestOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rqlitetest.New(t)
		var all []*member
		for _, id := range []string{"gw1", "gw2", "gw3", "gw4"} {
			m := join(t, n, id, 0)
			m.stand(t.Context())
			all = append(all, m)
		}
		for len(all) > 1 {
			time.Sleep(10 * time.Second)
			var active *member
			for i, m := range all {
				if len(m.took) == 0 {
					continue
				}
				if active != nil {
					t.Fatalf("%s and %s are active", active.ID, m.ID)
				}
				active = m
				all = append(all[:i:i], all[i+1:]...)
			}
			if active == nil {
				t.Fatal("none is active")
			}
			active.stop()
			time.Sleep(10 * time.Second)
			active.hold() // it goes on, and does not know that it was away
			if err := <-active.Lost(); !errors.Is(err, ErrLost) || !errors.Is(err, rqlite.ErrDeposed) && !errors.Is(err, rqlite.ErrSilent) {
				t.Errorf("it hears %v", err)
			}
			if _, err := active.DB.Batch(t.Context(), []engine.Statement{engine.Do("CREATE TABLE late (k TEXT)")}); !errors.Is(err,
				rqlite.ErrDeposed) {
				t.Errorf("its late write: %v", err)
			}
			must(t, active.Close())
		}
		must(t, all[0].Close())
	})
}

// TestClocks: a gateway whose clock is far from that of the active one does not take over, in either direction; one whose clock is nearly
// right does.
func TestClocks(t *testing.T) {
	for _, c := range []struct {
		ahead time.Duration
		any   bool // it is told that clocks do not matter
		takes bool
	}{{5 * time.Second, false, false}, {-5 * time.Second, false, false}, {1500 * time.Millisecond, false, false},
		{-1500 * time.Millisecond, false, false}, {400 * time.Millisecond, false, true}, {-400 * time.Millisecond, false, true},
		{5 * time.Second, true, true}} {
		synctest.Test(t, func(t *testing.T) {
			n := rqlitetest.New(t)
			first := join(t, n, "gw1", c.ahead)
			first.stand(t.Context())
			first.takes()
			ctx, cancel := context.WithCancel(t.Context())
			second := join(t, n, "gw2", 0)
			second.clock = c.any
			second.stand(ctx)
			time.Sleep(time.Minute)
			if why := second.Refuses(); (why == "") != c.takes || why != "" && !strings.Contains(why, "its clock is") {
				t.Errorf("%s: it says that %q speaks against it", c.ahead, why)
			}
			first.stop()
			time.Sleep(time.Minute)
			if took := len(second.took) > 0; took != c.takes {
				t.Errorf("%s: took over: %v", c.ahead, took)
			}
			if said := strings.Contains(second.log.String(), "clock"); said == c.takes {
				t.Errorf("%s: its log: %s", c.ahead, second.log.String())
			}
			cancel()
			must(t, first.Close())
			must(t, second.Close())
			synctest.Wait()
		})
	}
}

// TestStoreAway: while the store does not answer, nobody takes over; the active one hears that its time is over, and somebody takes over
// when the store is back.
func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rqlitetest.New(t)
		first := join(t, n, "gw1", 0)
		first.stand(t.Context())
		first.takes()
		second := join(t, n, "gw2", 0)
		second.stand(t.Context())
		time.Sleep(10 * time.Second)
		n.Set(rqlitetest.Refused)
		if err := <-first.Lost(); !errors.Is(err, rqlite.ErrSilent) {
			t.Errorf("got %v", err)
		}
		time.Sleep(time.Hour)
		second.waits()
		if !strings.Contains(second.log.String(), "the store does not answer") {
			t.Errorf("its log: %s", second.log.String())
		}
		n.Set(rqlitetest.None)
		second.takes()
		must(t, first.Close())
		must(t, second.Close())
	})
}

// TestBackFromCrash: a gateway that is back after a crash does not follow itself.
func TestBackFromCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rqlitetest.New(t)
		first := join(t, n, "gw1", 0)
		first.stand(t.Context())
		first.takes()
		first.stop()
		again := join(t, n, "gw1", 0)
		again.stand(t.Context())
		if took := again.takes(); len(again.seen) > 0 || took > 8*time.Second {
			t.Errorf("it takes the lease after %s, and has followed %q", took, again.seen)
		}
		must(t, again.Close())
		must(t, first.Close())
	})
}

// TestTwin: a gateway whose id the active one has too says so.
func TestTwin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rqlitetest.New(t)
		first := join(t, n, "gw1", 0)
		first.stand(t.Context())
		first.takes()
		ctx, cancel := context.WithCancel(t.Context())
		second := join(t, n, "gw1", 0)
		second.stand(ctx)
		time.Sleep(150 * time.Second)
		if got := strings.Count(second.log.String(), "another gateway with this one's id is active"); got != 3 {
			t.Errorf("it is said %d times: %s", got, second.log.String())
		}
		cancel()
		must(t, first.Close())
		must(t, second.Close())
		synctest.Wait()
	})
}

// TestOlderEnds: a gateway of an older schema says so, and ends.
func TestOlderEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rqlitetest.New(t)
		first := join(t, n, "gw1", 0)
		first.claim.Schema = 2
		first.stand(t.Context())
		first.takes()
		must(t, first.Close())
		second := join(t, n, "gw2", 0)
		second.stand(t.Context())
		if err := <-second.took; !errors.Is(err, engine.ErrNewerDatabase) || second.Refuses() != "its program is older than the database" {
			t.Errorf("got %v", err)
		}
		must(t, second.Close())
	})
}

// TestGuard: requests are answered while the lease is held, and cut off afterwards.
func TestGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := join(t, rqlitetest.New(t), "gw1", 0)
		m.stand(t.Context())
		m.takes()
		answer := func() (cut bool) {
			defer func() { cut = recover() == http.ErrAbortHandler }()
			m.Guard(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
			return false
		}
		if answer() {
			t.Error("the active one does not answer")
		}
		late := httptest.NewRecorder()
		began := make(chan bool)
		cut := make(chan bool)
		go func() {
			defer func() { cut <- recover() == http.ErrAbortHandler }()
			m.Guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				<-began
				_, _ = w.Write([]byte("of before"))
			})).ServeHTTP(late, httptest.NewRequest(http.MethodGet, "/", nil))
		}()
		m.stop()
		time.Sleep(5 * time.Second)
		if !answer() {
			t.Error("it answers without the lease")
		}
		began <- true
		if !<-cut || late.Body.Len() > 0 {
			t.Errorf("an answer that began before goes out afterwards: %s", late.Body)
		}
		must(t, m.Close())
		var none *Member
		if none.Lost() != nil || none.Guard(http.NotFoundHandler()) == nil {
			t.Error("a gateway by itself")
		}
	})
}

// TestMovedOut: nobody takes a store over whose database works in a directory now, until a command has brought a database into it.
func TestMovedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rqlitetest.New(t)
		seized := func() *Seized {
			return &Seized{DB: join(t, n, "command", 0).DB, claim: rqlite.Claim{Gateway: seizedBy, Schema: 1}, say: io.Discard,
				over: make(chan error, 1)}
		}
		s := seized()
		must(t, s.Take(t.Context(), false))
		s.MoveOut()
		must(t, s.Close())
		ctx, cancel := context.WithCancel(t.Context())
		m := join(t, n, "gw1", 0)
		m.stand(ctx)
		time.Sleep(time.Minute)
		select {
		case err := <-m.took:
			t.Fatalf("it took the store: %v", err)
		default:
		}
		if !strings.Contains(m.log.String(), "muster store copy DIRECTORY") || !strings.Contains(m.Refuses(), "copied into a directory") {
			t.Errorf("it says %q, and logs %s", m.Refuses(), m.log)
		}
		s = seized()
		must(t, s.Take(t.Context(), false))
		must(t, s.Close())
		must(t, <-m.took)
		cancel()
		must(t, m.Close())
	})
}

// TestSilentNodes: a node of the store counts as silent since the first look that it did not answer.
func TestSilentNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rqlitetest.New(t)
		m := join(t, n, "gw1", 0)
		defer m.DB.Close()
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() { over <- m.WatchNodes(ctx) }()
		time.Sleep(time.Minute + time.Millisecond) // between two looks
		if all := m.SilentNodes(); len(all) > 0 {
			t.Errorf("got %+v", all)
		}
		n.Set(rqlitetest.Refused)
		time.Sleep(askEvery)
		since := time.Now()
		time.Sleep(10 * askEvery)
		all := m.SilentNodes()
		if len(all) != 1 || all[0].At != "127.0.0.1:4001" || since.Sub(all[0].Since) > askEvery || all[0].Why == "" {
			t.Errorf("got %+v", all)
		}
		n.Set(rqlitetest.None)
		time.Sleep(askEvery)
		if all := m.SilentNodes(); len(all) > 0 {
			t.Errorf("got %+v", all)
		}
		cancel()
		must(t, <-over)
	})
}

// TestHandedTo: a lease that was given back for one gateway is taken by that one. If that one does not come, another one takes it after
// the usual time.
func TestHandedTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := rqlitetest.New(t)
		first := join(t, n, "gw1", 0)
		first.stand(t.Context())
		first.takes()
		second := join(t, n, "gw2", 0)
		second.stand(t.Context())
		third := join(t, n, "gw3", 0)
		third.stand(t.Context())
		time.Sleep(10 * time.Second)
		first.HandTo("gw3")
		must(t, first.Close())
		if took := third.takes(); took > time.Second {
			t.Errorf("it took %s", took)
		}
		second.waits()
		third.HandTo("gw9")
		must(t, third.Close())
		if took := second.takes(); took < 5*time.Second || took > 7*time.Second {
			t.Errorf("another one than was wanted took it after %s", took)
		}
		must(t, second.Close())
	})
}
