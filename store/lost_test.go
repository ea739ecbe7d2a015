package store_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"muster/store"
	"muster/store/storetest"
)

// lost gives a store with these nodes whose writes are done, and whose answers to them are lost.
func lost(t *testing.T, nodes ...string) *store.Store {
	t.Helper()
	s := storetest.OpenLost(t, day)
	must(t, s.CreateToken(t.Context(), token("mse_many", 1000)))
	for _, name := range nodes {
		must(t, s.Enrol(t.Context(), enrolment("mse_many", name)))
	}
	return s
}

// TestClaimLost: a node gets the task that it has claimed, once.
func TestClaimLost(t *testing.T) {
	s := lost(t, "n", "m")
	for _, name := range []string{"n", "m"} {
		must(t, s.CreateTask(t.Context(), queued("of-"+name, name)))
	}
	at := after(2 * time.Minute)
	for _, name := range []string{"n", "m"} {
		got, err := s.ClaimTask(t.Context(), claim(name, at))
		if err != nil || got.ID != "of-"+name || got.Deliveries != 1 || string(got.Payload) != string(queued("of-"+name, name).Payload) {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
	_, err := s.ClaimTask(t.Context(), claim("n", at.Add(time.Second)))
	wantError(t, err, store.ErrNotFound)
}

// TestSweepLost: what was ended is told, with its event, once.
func TestSweepLost(t *testing.T) {
	s := lost(t, "n", "m")
	for _, name := range []string{"n", "m"} {
		must(t, s.CreateTask(t.Context(), queued("of-"+name, name)))
	}
	q := store.TaskSweep{At: after(time.Hour), Begun: day(), Delivered: day(), Deliveries: 10}
	ended, err := s.SweepTasks(t.Context(), q)
	told := countEvents(t, s, store.EventQuery{Kind: "task.expired"})
	if got := fmt.Sprint(ended); err != nil || got != "[{of-n id-n} {of-m id-m}]" || told != 2 {
		t.Errorf("got %s, %v, with %d events", got, err, told)
	}
	if ended, err := s.SweepTasks(t.Context(), q); err != nil || len(ended) != 0 {
		t.Errorf("again: got %v, %v", ended, err)
	}
}

// TestMostLost: what is repeated until there is nothing left goes on.
func TestMostLost(t *testing.T) {
	s := lost(t, "n")
	n, err := s.MarkOverdue(t.Context(), after(20*time.Hour), "renewal.overdue", "gateway")
	if err != nil || n == 0 || countEvents(t, s, store.EventQuery{Kind: "renewal.overdue"}) != 1 {
		t.Errorf("got %d, %v", n, err)
	}
	if due, err := s.HasOverdue(t.Context(), after(20*time.Hour)); err != nil || due {
		t.Errorf("it is due still: %v, %v", due, err)
	}
}

// TestOnceLost: the first value stays, and whoever stores one hears it.
func TestOnceLost(t *testing.T) {
	s := lost(t)
	for range 2 {
		if got, err := s.MetaOnce(t.Context(), "k", "first"); err != nil || got != "first" {
			t.Errorf("got %q, %v", got, err)
		}
		if got, err := s.SecretOnce(t.Context(), "k", []byte("first")); err != nil || string(got) != "first" {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if got, err := s.MetaOnce(t.Context(), "k", "second"); err != nil || got != "first" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestClaimsRaceLost: of two claims at once only one gets the task, though neither hears what its write did.
func TestClaimsRaceLost(t *testing.T) {
	s := lost(t, "n")
	must(t, s.CreateTask(t.Context(), queued("a", "n")))
	claims := make(chan error, 20)
	for range cap(claims) {
		go func() {
			_, err := s.ClaimTask(t.Context(), claim("n", after(2*time.Minute)))
			claims <- err
		}()
	}
	won := 0
	for range cap(claims) {
		switch err := <-claims; {
		case err == nil:
			won++
		case !errors.Is(err, store.ErrNotFound):
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d got it", won)
	}
}
