package store_test

import (
	"errors"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muster/store"
)

func TestMoveNode(t *testing.T) {
	s := enrolled(t, "n")
	ctx := t.Context()
	at := func(minute int) time.Time { return after(time.Duration(minute) * time.Minute) }
	held := store.Reason{Reason: "held", Person: true, Since: at(9)}
	health := store.Reason{Reason: "health", Since: at(2)}
	for _, c := range []struct {
		what    string
		move    store.Move
		want    error
		state   string
		since   time.Time
		reasons []store.Reason
	}{
		{"plain", store.Move{From: "enrolled", To: "active", At: at(2)}, nil, "active", at(2), []store.Reason{}},
		{"not there any more", store.Move{From: "enrolled", To: "drained", At: at(3)}, store.ErrConflict, "active", at(2),
			[]store.Reason{}},
		{"reasons only", store.Move{From: "active", To: "active", At: at(2), AddReasons: []store.Reason{{Reason: "health"}}}, nil,
			"active", at(2), []store.Reason{health}},
		{"a reason that holds keeps its time", store.Move{From: "active", To: "unavailable", At: at(4),
			AddReasons: []store.Reason{{Reason: "health"}, held}}, nil,
			"unavailable", at(4), []store.Reason{health, held}},
		{"a reason goes", store.Move{From: "unavailable", To: "unavailable", At: at(5), RemoveReasons: []string{"health", "none"}}, nil,
			"unavailable", at(4), []store.Reason{held}},
		{"a person's word outlasts the machine's", store.Move{From: "unavailable", To: "unavailable", At: at(6),
			AddReasons: []store.Reason{{Reason: "held"}}}, nil,
			"unavailable", at(4), []store.Reason{held}},
		{"cleared", store.Move{From: "unavailable", To: "active", At: at(7), ClearReasons: true,
			AddReasons: []store.Reason{{Reason: "x", Since: at(1)}}}, nil,
			"active", at(7), []store.Reason{{Reason: "x", Since: at(1)}}},
	} {
		c.move.NodeID = "id-n"
		c.move.Events = []store.Event{{At: c.move.At, Kind: "node.moved"}}
		before := countEvents(t, s, store.EventQuery{Kind: "node.moved"})
		if err := s.MoveNode(ctx, c.move); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.what, err, c.want)
		}
		got := node(t, s, "n")
		if got.State != c.state || !got.StateSince.Equal(c.since) || !reflect.DeepEqual(got.Reasons, c.reasons) || got.RetiredAt != nil {
			t.Errorf("%s: got %s since %v for %v; want %s since %v for %v", c.what, got.State, got.StateSince, got.Reasons, c.state,
				c.since, c.reasons)
		}
		if logged := countEvents(t, s, store.EventQuery{Kind: "node.moved"}) - before; (logged == 1) != (c.want == nil) {
			t.Errorf("%s: %d events", c.what, logged)
		}
	}
	wantError(t, s.MoveNode(ctx, store.Move{NodeID: "id-none", From: "active", To: "drained", At: at(8)}), store.ErrConflict)
}

func TestRetire(t *testing.T) {
	for _, c := range []struct {
		name        string
		move        store.Move
		certificate string
		nameFree    bool
		tokenOpen   bool
	}{
		{"given back", store.Move{RevokeCertificates: true}, "revoked", true, true},
		{"certificates left", store.Move{}, "current", true, true},
		{"banned", store.Move{RevokeCertificates: true, Ban: true}, "revoked", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := enrolled(t, "n")
			ctx := t.Context()
			bound := token("msb_bound", 1)
			free := token("mse_free", 1)
			bound.NodeID = "id-n"
			must(t, s.CreateToken(ctx, bound))
			must(t, s.CreateToken(ctx, free))
			allowRecovery(t, s, "n", after(time.Hour))
			c.move.NodeID = "id-n"
			c.move.From = "enrolled"
			c.move.To = "retired"
			c.move.At = after(10 * time.Minute)
			must(t, s.MoveNode(ctx, c.move))
			got := node(t, s, "id-n")
			if got.RetiredAt == nil || !got.RetiredAt.Equal(c.move.At) || got.Banned != c.move.Ban || got.RecoveryUntil != nil {
				t.Errorf("got %+v", got)
			}
			if got := status(t, s, "print-n"); got != c.certificate {
				t.Errorf("the certificate is %s, want %s", got, c.certificate)
			}
			e := enrolment("mse_many", "next")
			e.Node.Name = "n"
			if err := s.Enrol(ctx, e); (err == nil) != c.nameFree {
				t.Errorf("enrolling the name again: %v, want it free %v", err, c.nameFree)
			}
			for id, open := range map[string]bool{"msb_bound": c.tokenOpen, "mse_free": true, "mse_many": true} {
				k, err := s.Token(ctx, id)
				must(t, err)
				if (k.RevokedAt == nil) != open {
					t.Errorf("%s revoked at %v, want open %v", id, k.RevokedAt, open)
				}
			}
		})
	}
}

// TestBanAfterNameWasTaken bans a node that was retired before: the name belongs to another one now.
func TestBanAfterNameWasTaken(t *testing.T) {
	s := enrolled(t, "n")
	ctx := t.Context()
	must(t, s.MoveNode(ctx, store.Move{NodeID: "id-n", From: "enrolled", To: "retired", At: after(time.Hour)}))
	e := enrolment("mse_many", "next")
	e.Node.Name = "n"
	must(t, s.Enrol(ctx, e))
	wantError(t, s.MoveNode(ctx, store.Move{NodeID: "id-n", From: "retired", To: "retired", At: after(time.Hour), Ban: true}),
		store.ErrConflict)
}

func TestMoveRace(t *testing.T) {
	s := enrolled(t, "n")
	var won atomic.Int64
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			to := []string{"active", "drained"}[i%2]
			if s.MoveNode(t.Context(), store.Move{NodeID: "id-n", From: "enrolled", To: to, At: day()}) == nil {
				won.Add(1)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 {
		t.Errorf("%d moves out of one state, want 1", won.Load())
	}
}
