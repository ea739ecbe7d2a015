package cluster

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/store/rqlite"
	"muster/store/rqlite/rqlitetest"
)

// TestStoreTrouble: whatever is wrong with the store, the active gateway ends, nobody takes over, and somebody does when it is well again.
func TestStoreTrouble(t *testing.T) {
	for name, fault := range map[string]rqlitetest.Fault{"a page of a proxy": rqlitetest.Page, "no leader": rqlitetest.Leaderless,
		"a full disk": rqlitetest.Full, "an error in its answers": rqlitetest.InBody, "half answers": rqlitetest.Short,
		"a redirect": rqlitetest.Elsewhere} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := rqlitetest.New(t)
				first := join(t, n, "gw1", 0)
				first.stand(t.Context())
				first.takes()
				second := join(t, n, "gw2", 0)
				second.stand(t.Context())
				time.Sleep(10 * time.Second)
				n.Set(fault)
				if err := <-first.Lost(); !errors.Is(err, rqlite.ErrSilent) || first.DB.Holds() {
					t.Errorf("got %v", err)
				}
				time.Sleep(time.Minute)
				second.waits()
				n.Set(rqlitetest.None)
				if took := second.takes(); took > 20*time.Second {
					t.Errorf("it took %s", took)
				}
				must(t, first.Close())
				must(t, second.Close())
			})
		})
	}
}

// slow is a node that needs seconds for all, and does it also for who waits no longer.
type slow struct {
	*rqlitetest.Node
	on atomic.Bool
}

func (s *slow) RoundTrip(r *http.Request) (*http.Response, error) {
	if !s.on.Load() {
		return s.Node.RoundTrip(r)
	}
	type answer struct {
		response *http.Response
		err      error
	}
	done := make(chan answer, 1)
	go func() {
		time.Sleep(3 * time.Second)
		response, err := s.Node.RoundTrip(r.WithContext(context.WithoutCancel(r.Context())))
		done <- answer{response, err}
	}()
	select {
	case a := <-done:
		return a.response, a.err
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// TestStoreSlow: a store that needs seconds has renewals arrive late. The active gateway ends in time all the same, two never hold the
// lease, and when the store is fast again one takes over.
func TestStoreSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		way := &slow{Node: rqlitetest.New(t)}
		first := join(t, way, "gw1", 0)
		first.stand(t.Context())
		first.takes()
		ctx, cancel := context.WithCancel(t.Context())
		second := join(t, way, "gw2", 0)
		second.stand(ctx)
		time.Sleep(10 * time.Second)
		way.on.Store(true)
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			if first.DB.Holds() && second.DB.Holds() {
				t.Fatal("two gateways hold the lease")
			}
		}
		if len(first.Lost()) == 0 || first.DB.Holds() {
			t.Error("the first one has not ended")
		}
		way.on.Store(false)
		third := join(t, way, "gw3", 0)
		third.stand(ctx)
		for end := time.Now().Add(20 * time.Second); !second.DB.Holds() && !third.DB.Holds(); time.Sleep(100 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("nobody takes over")
			}
		}
		cancel()
		for _, m := range []*member{second, third} {
			<-m.took // one of them took over, and the other one was told to end
		}
		for _, m := range []*member{first, second, third} {
			must(t, m.Close())
		}
		synctest.Wait()
	})
}
