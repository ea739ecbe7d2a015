package store_test

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muster/store"
)

func TestEnrolNewNode(t *testing.T) {
	s := open(t)
	ctx := t.Context()
	must(t, s.CreateToken(ctx, token("mse_a", 1)))
	e := enrolment("mse_a", "n")
	e.Provider = "vast_ai"
	e.InstanceID = "39467543"
	e.Hardware = `{"gpus":[]}`
	e.Node.GPUsExpected = 8
	e.CredentialLabels = map[string]string{"tier": "sovereign", "odd key 'x'": "x'48'"}
	e.AgentLabels = map[string]string{"tier": "mine", "rack": "7"}
	must(t, s.Enrol(ctx, e))
	want := store.Node{ID: "id-n", Name: "n", Tenant: "default", Provider: "vast_ai", InstanceID: "39467543", State: "enrolled",
		StateSince: e.At,
		Reasons:    []store.Reason{}, Labels: map[string]string{"tier": "sovereign", "odd key 'x'": "x'48'", "rack": "7"}, CreatedAt: e.At,
		EnrolledAt:  &e.At,
		EnrolmentID: "enrolment-n", GPUsExpected: 8, Address: "192.0.2.1", Agent: `{"version":"1.0"}`, Notices: []string{},
		Hardware: `{"gpus":[]}`,
		Certificate: store.Certificate{Fingerprint: "print-n", NotAfter: after(24 * time.Hour), Generation: 1,
			Status: store.CertificateCurrent}}
	if got := node(t, s, "n"); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	recorded, err := s.Recorded(ctx, "mse_a", "key-n")
	must(t, err)
	certificate := e.Certificate
	certificate.NodeID = "id-n"
	certificate.EnrolmentID = "enrolment-n"
	certificate.Generation = 1
	certificate.Status = "current"
	certificate.KeyHash = "key-n"
	if want := (store.Recorded{ID: "enrolment-n", Certificate: certificate, Node: want}); !reflect.DeepEqual(recorded, want) {
		t.Errorf("got  %+v\nwant %+v", recorded, want)
	}
	for _, c := range []struct{ credential, key string }{{"mse_b", "key-n"}, {"mse_a", "key-m"}} {
		_, err := s.Recorded(ctx, c.credential, c.key)
		wantError(t, err, store.ErrNotFound)
	}
	if got := countEvents(t, s, store.EventQuery{Node: "n"}); got != 1 {
		t.Errorf("got %d events, want 1", got)
	}
}

// TestEnrolRefused starts each case with node "taken", enrolled by mse_many.
func TestEnrolRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		token  func(*store.Token)
		change func(*store.Enrolment)
		want   error
	}{
		{"as it should be", nil, nil, nil},
		{"unknown token", nil, func(e *store.Enrolment) { e.Credential = "mse_none" }, store.ErrConflict},
		{"revoked", func(k *store.Token) { k.RevokedAt = pointer(day()) }, nil, store.ErrConflict},
		{"expired", func(k *store.Token) { k.ExpiresAt = after(time.Minute) }, nil, store.ErrConflict},
		{"a moment before it expires", func(k *store.Token) { k.ExpiresAt = after(time.Minute + time.Millisecond) }, nil, nil},
		{"no uses", func(k *store.Token) { k.Uses = 0 }, nil, store.ErrConflict},
		{"another tenant's token", func(k *store.Token) { k.Tenant = "other" }, nil, store.ErrConflict},
		{"another node's token", func(k *store.Token) { k.NodeID = "id-other" }, nil, store.ErrConflict},
		{"this node's token", func(k *store.Token) { k.NodeID = "id-n" }, nil, nil},
		{"name taken", nil, func(e *store.Enrolment) { e.Node.Name = "taken" }, store.ErrConflict},
		{"name of a banned node", nil, func(e *store.Enrolment) { e.Node.Name = "banned" }, store.ErrConflict},
		{"name of a retired node", nil, func(e *store.Enrolment) { e.Node.Name = "retired" }, nil},
		{"node id taken", nil, func(e *store.Enrolment) { e.Node.ID = "id-taken" }, store.ErrConflict},
		{"key used before", nil, func(e *store.Enrolment) { e.KeyHash = "key-taken" }, store.ErrConflict},
		{"fingerprint taken", nil, func(e *store.Enrolment) { e.Certificate.Fingerprint = "print-taken" }, store.ErrConflict},
		{"psk that is not live", nil, func(e *store.Enrolment) {
			e.ConsumeToken = false
			e.Credential = "psk-none"
		}, store.ErrConflict},
		{"psk", nil, func(e *store.Enrolment) {
			e.ConsumeToken = false
			e.Credential = "psk-live"
		}, nil},
		{"a token is no psk", nil, func(e *store.Enrolment) { e.ConsumeToken = false }, store.ErrConflict},
		{"a psk is no token", nil, func(e *store.Enrolment) { e.Credential = "psk-live" }, store.ErrConflict},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := enrolled(t, "taken", "retired", "banned")
			ctx := t.Context()
			must(t, s.SetPSK(ctx, store.PSK{ID: "psk-live", Key: []byte("k"), CreatedAt: day()}))
			must(t, s.MoveNode(ctx, store.Move{NodeID: "id-retired", From: "enrolled", To: "retired", At: after(time.Minute)}))
			must(t, s.MoveNode(ctx, store.Move{NodeID: "id-banned", From: "enrolled", To: "retired", At: after(time.Minute), Ban: true}))
			k := token("mse_one", 1)
			e := enrolment("mse_one", "n")
			if c.token != nil {
				c.token(&k)
			}
			if c.change != nil {
				c.change(&e)
			}
			must(t, s.CreateToken(ctx, k))
			wantError(t, s.Enrol(ctx, e), c.want)
			checkNothingHalf(t, s, e, c.want == nil)
		})
	}
}

// checkNothingHalf finds all of an enrolment or none of it.
func checkNothingHalf(t *testing.T, s *store.Store, e store.Enrolment, stored bool) {
	t.Helper()
	_, err := s.Recorded(t.Context(), e.Credential, e.KeyHash)
	if got := err == nil; got != stored {
		t.Errorf("recorded is %v, want %v", got, stored)
	}
	k, err := s.Token(t.Context(), "mse_one")
	must(t, err)
	if want := stored && e.ConsumeToken; (k.Used == 1) != want {
		t.Errorf("got %d uses taken, want %v", k.Used, want)
	}
	if got := countEvents(t, s, store.EventQuery{Node: "id-n"}) == 1; got != stored {
		t.Errorf("event is there %v, want %v", got, stored)
	}
	_, total := list(t, s, store.NodeQuery{Retired: true})
	if want := map[bool]int{true: 4, false: 3}[stored]; total != want {
		t.Errorf("got %d nodes, want %d", total, want)
	}
}

func TestEnrolNeitherNewNorTakenOver(t *testing.T) {
	s := open(t)
	e := enrolment("mse_a", "n")
	e.NewNode = false
	if err := s.Enrol(t.Context(), e); err == nil || errors.Is(err, store.ErrConflict) {
		t.Errorf("neither: got %v, want an error that is no conflict", err)
	}
	e.NewNode = true
	e.TakeOver = &store.TakeOver{}
	if err := s.Enrol(t.Context(), e); err == nil || errors.Is(err, store.ErrConflict) {
		t.Errorf("both: got %v, want an error that is no conflict", err)
	}
}

func TestEnrolRace(t *testing.T) {
	for _, uses := range []int{1, 7} {
		s := open(t)
		must(t, s.CreateToken(t.Context(), token("mse_race", uses)))
		var won, lost atomic.Int64
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				switch err := s.Enrol(t.Context(), enrolment("mse_race", fmt.Sprint("n", i))); {
				case err == nil:
					won.Add(1)
				case errors.Is(err, store.ErrConflict):
					lost.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
		if won.Load() != int64(uses) || lost.Load() != int64(100-uses) {
			t.Errorf("%d uses: %d won and %d lost", uses, won.Load(), lost.Load())
		}
		if _, total := list(t, s, store.NodeQuery{}); total != uses {
			t.Errorf("%d uses: got %d nodes", uses, total)
		}
		if got := countEvents(t, s, store.EventQuery{Limit: 1000}); got != uses {
			t.Errorf("%d uses: got %d events", uses, got)
		}
	}
}

// TestEnrolSameKeyRace is one agent that asks again while its first request is under way.
func TestEnrolSameKeyRace(t *testing.T) {
	s := open(t)
	must(t, s.CreateToken(t.Context(), token("mse_race", 50)))
	var won atomic.Int64
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			e := enrolment("mse_race", fmt.Sprint("n", i))
			e.KeyHash = "one key"
			if s.Enrol(t.Context(), e) == nil {
				won.Add(1)
			}
		})
	}
	all.Wait()
	k, err := s.Token(t.Context(), "mse_race")
	must(t, err)
	if won.Load() != 1 || k.Used != 1 {
		t.Errorf("%d enrolments and %d uses for one key, want one of each", won.Load(), k.Used)
	}
}

func TestBindInstance(t *testing.T) {
	s := open(t)
	ctx := t.Context()
	bound := token("mse_bound", 2)
	loose := token("mse_loose", 2)
	bound.BindInstance = true
	must(t, s.CreateToken(ctx, bound))
	must(t, s.CreateToken(ctx, loose))
	for i, c := range []struct {
		credential, provider, instance string
		bind                           bool
		want                           error
		used                           int
	}{
		{"mse_bound", "vast_ai", "1", true, nil, 1},
		{"mse_bound", "vast_ai", "1", true, nil, 1}, // takes its own use over
		{"mse_bound", "vast_ai", "2", true, nil, 2},
		{"mse_bound", "vast_ai", "3", true, store.ErrConflict, 2},
		{"mse_bound", "vast_ai", "", true, store.ErrConflict, 2},
		{"mse_bound", "runpod", "1", true, store.ErrConflict, 2},
		{"mse_bound", "vast_ai", "1", true, nil, 2},
		{"mse_bound", "vast_ai", "2", true, nil, 2},
		{"mse_bound", "vast_ai", "2", false, store.ErrConflict, 2}, // not asked for
		{"mse_loose", "vast_ai", "1", true, nil, 1},
		{"mse_loose", "vast_ai", "1", true, nil, 2}, // the token does not bind
		{"mse_loose", "vast_ai", "1", true, store.ErrConflict, 2},
	} {
		e := enrolment(c.credential, fmt.Sprint("n", i))
		e.Provider = c.provider
		e.InstanceID = c.instance
		e.BindInstance = c.bind
		e.At = after(time.Duration(i) * time.Second)
		if err := s.Enrol(ctx, e); !errors.Is(err, c.want) {
			t.Errorf("step %d: got %v, want %v", i, err, c.want)
		}
		k, err := s.Token(ctx, c.credential)
		must(t, err)
		if k.Used != c.used {
			t.Errorf("step %d: got %d uses taken, want %d", i, k.Used, c.used)
		}
	}
	newest, err := s.InstanceUse(ctx, "mse_bound", "vast_ai", "1")
	must(t, err)
	if newest.ID != "enrolment-n6" || newest.Node.Name != "n6" || newest.Certificate.Fingerprint != "print-n6" {
		t.Errorf("got %+v, want the enrolment of n6", newest)
	}
	for _, c := range []struct{ credential, provider, instance string }{{"mse_bound", "vast_ai", "3"}, {"mse_bound", "vast_ai", ""},
		{"mse_none", "vast_ai", "1"}} {
		_, err := s.InstanceUse(ctx, c.credential, c.provider, c.instance)
		wantError(t, err, store.ErrNotFound)
	}
}
