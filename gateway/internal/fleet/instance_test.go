package fleet_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/fleet"
	"muster/store"
)

// atInstance is an applicant with a token whose uses belong to instances.
func (f *world) atInstance(token store.Token, name, instance string) fleet.Applicant {
	a := f.applicant(token, name, newKey(f.t))
	a.Request.Provider = "vast_ai"
	a.Request.InstanceID = instance
	return a
}

func (f *world) bound() store.Token {
	return f.token("mse_bound", func(s *store.Token) {
		s.BindInstance = true
		s.Uses = 5
	})
}

// retry is after how many seconds a refusal wants to be asked again.
func retry(err error) int {
	var refused *wire.ErrorDetail
	if errors.As(err, &refused) {
		return refused.RetrySeconds
	}
	return 0
}

// TestInstanceComesBack: whoever holds the token can claim its neighbour's instance, so that alone takes nothing from a live node.
func TestInstanceComesBack(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(*world, fleet.Admission, *fleet.Applicant)
		want   string
		wait   int // what the refusal says
		why    string
	}{
		{"while it reports", nil, wire.CodeNameInUse, 91, ""},
		{"after some silence", func(f *world, _ fleet.Admission, _ *fleet.Applicant) { f.clock.Forward(time.Minute) }, wire.CodeNameInUse,
			31, ""},
		{"three intervals of silence are not stale yet",
			func(f *world, _ fleet.Admission, _ *fleet.Applicant) { f.clock.Forward(3 * pace) },
			wire.CodeNameInUse, 1, ""},
		{"once it is stale", func(f *world, _ fleet.Admission, _ *fleet.Applicant) { f.clock.Forward(3*pace + time.Second) },
			"ok", 0, "the same instance with its own token"},
		{"heard last in what waits in memory", func(f *world, ad fleet.Admission, _ *fleet.Applicant) {
			f.clock.Forward(10 * time.Minute)
			f.beat(ad, 2, nil)
		}, wire.CodeNameInUse, 91, ""},
		{"with a slow pace", func(f *world, ad fleet.Admission, _ *fleet.Applicant) {
			f.beat(ad, 2, func(b *wire.HeartbeatRequest) { b.IntervalSeconds = 600 })
			f.clock.Forward(10 * time.Minute)
		}, wire.CodeNameInUse, 1201, ""},
		{"after a restart of the gateway", func(f *world, _ fleet.Admission, _ *fleet.Applicant) {
			f.clock.Forward(10 * time.Second)
			f.flush()
			f.clock.Forward(5 * time.Minute)
			f.restart()
		}, wire.CodeNameInUse, 360, ""},
		{"with the node's own key", func(f *world, ad fleet.Admission, a *fleet.Applicant) {
			a.Identity = f.identity(ad.Certificate.Fingerprint)
		}, "ok", 0, "signed by the node's own key"},
		{"with another node's key", func(f *world, _ fleet.Admission, a *fleet.Applicant) {
			a.Identity = f.identity(f.enrolled("neighbour").Certificate.Fingerprint)
		}, wire.CodeNameInUse, 91, ""},
		{"as an operator allowed", func(f *world, ad fleet.Admission, _ *fleet.Applicant) { f.allow(ad, time.Hour) },
			"ok", 0, "the operator allowed recovery"},
		{"in conflict, and silent", func(f *world, ad fleet.Admission, _ *fleet.Applicant) {
			f.play(ad, "A1 5m A2 30s B1 30s A3 30s A4 10m")
		}, wire.CodeNameInUse, 0, ""},
		{"as another instance", func(_ *world, _ fleet.Admission, a *fleet.Applicant) { a.Request.InstanceID = "8" },
			wire.CodeNameInUse, 0, ""}, // the name's own rules
		{"as another instance, under another name", func(_ *world, _ fleet.Admission, a *fleet.Applicant) {
			a.Request.InstanceID = "8"
			a.Request.Name = "another"
		}, "ok", 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFleet(t)
			f.flush()
			token := f.bound()
			holder, err := f.Enrol(t.Context(), f.atInstance(token, "box", "7"))
			if err != nil {
				t.Fatal(err)
			}
			f.beat(holder, 1, nil)
			a := f.atInstance(token, "box", "7")
			if c.before != nil {
				c.before(f, holder, &a)
			}
			got, err := f.Enrol(t.Context(), a)
			switch {
			case c.want != "ok":
				f.wantRefusal(err, c.want)
				if wait := retry(err); wait != c.wait {
					t.Errorf("got a wait of %d s, want %d: %v", wait, c.wait, err)
				}
				if err := f.may(holder.Certificate.Fingerprint, fleet.ForHeartbeat); err != nil {
					t.Errorf("the holder: got %v, want its identity untouched", err)
				}
			case c.why == "":
				if err != nil || !got.New {
					t.Errorf("got %+v, %v, want a node of its own", got, err)
				}
			default:
				f.wantTakenOver(err, holder, got, c.why)
			}
		})
	}
}

// TestInstanceOfAnotherNow: another machine has taken the node over. So the earlier instance gets it back only by the rules for its
// name.
func TestInstanceOfAnotherNow(t *testing.T) {
	f := newFleet(t)
	token := f.bound()
	first, err := f.Enrol(t.Context(), f.atInstance(token, "box", "7"))
	if err != nil {
		t.Fatal(err)
	}
	f.beat(first, 1, nil)
	f.clock.Forward(10 * time.Minute)
	second, err := f.Enrol(t.Context(), f.atInstance(f.token("mse_b001", nil), "box", "8"))
	if err != nil || second.Node.ID != first.Node.ID {
		t.Fatalf("got %+v, %v", second, err)
	}
	f.beat(second, 1, nil)
	f.clock.Forward(10 * time.Minute)
	_, err = f.Enrol(t.Context(), f.atInstance(token, "box", "7"))
	f.wantRefusal(err, wire.CodeNameInUse)
	got, err := f.Enrol(t.Context(), f.atInstance(token, "free", "7"))
	if err != nil || !got.New {
		t.Errorf("under a free name: got %+v, %v, want a node of its own", got, err)
	}
	if used, err := f.store.Token(t.Context(), token.ID); err != nil || used.Used != 1 {
		t.Errorf("got %d uses taken, %v, want the instance's own one", used.Used, err)
	}
}

// TestStaleNameOfAnotherInstance: a newer token whose uses belong to instances takes no silent node's name for another instance, nor from
// a node that named none. It takes the name for the instance of that node, and where an operator allows it.
func TestStaleNameOfAnotherInstance(t *testing.T) {
	for _, c := range []struct {
		name, holder, applicant string
		allowed                 bool
		want                    string
	}{
		{"the same", "7", "7", false, "ok"},
		{"another", "7", "8", false, wire.CodeNameInUse},
		{"of a node that named none", "", "8", false, wire.CodeNameInUse},
		{"another that was allowed", "7", "8", true, "ok"},
	} {
		f := newFleet(t)
		first := f.applicant(f.token("mse_first", nil), "box", newKey(t))
		if c.holder != "" {
			first = f.atInstance(first.Credential, "box", c.holder)
		}
		holder, err := f.Enrol(t.Context(), first)
		if err != nil {
			t.Fatal(err)
		}
		f.beat(holder, 1, nil)
		f.clock.Forward(10 * time.Minute)
		if c.allowed {
			f.allow(holder, time.Hour)
		}
		token := f.bound()
		got, err := f.Enrol(t.Context(), f.atInstance(token, "box", c.applicant))
		if c.want != "ok" {
			f.wantRefusal(err, c.want)
			if !strings.Contains(err.Error(), "another instance") {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err != nil || got.Node.ID != holder.Node.ID {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
}

// TestStaleNameOnce: of two holders of fresh tokens one gets a silent node's name, and keeps it until its chance to report is over.
func TestStaleNameOnce(t *testing.T) {
	f := newFleet(t)
	holder := f.enrolled("box")
	f.beat(holder, 1, nil)
	f.clock.Forward(10 * time.Minute)
	tokens := []store.Token{f.token("mse_b001", nil), f.token("mse_b002", nil)}
	first, err := f.Enrol(t.Context(), f.applicant(tokens[0], "box", newKey(t)))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err = f.Enrol(t.Context(), f.applicant(tokens[1], "box", newKey(t)))
		f.wantRefusal(err, wire.CodeNameInUse)
		f.clock.Forward(3*pace - time.Second)
	}
	f.beat(first, 1, nil)
	f.clock.Forward(2 * time.Second)
	_, err = f.Enrol(t.Context(), f.applicant(tokens[1], "box", newKey(t)))
	f.wantRefusal(err, wire.CodeNameInUse)
	if err := f.may(first.Certificate.Fingerprint, fleet.ForAnything); err != nil {
		t.Errorf("the first taker: got %v", err)
	}
}

// TestStaleNameAgain: a taker that never reports loses the name again, but to no token that was there before it took the name: that one
// was minted for the same silence, and a first start can take long.
func TestStaleNameAgain(t *testing.T) {
	f := newFleet(t)
	f.beat(f.enrolled("box"), 1, nil)
	f.clock.Forward(10 * time.Minute)
	before := []store.Token{f.token("mse_b001", nil), f.token("mse_b002", nil)}
	if _, err := f.Enrol(t.Context(), f.applicant(before[0], "box", newKey(t))); err != nil {
		t.Fatal(err)
	}
	f.clock.Forward(20 * time.Minute)
	_, err := f.Enrol(t.Context(), f.applicant(before[1], "box", newKey(t)))
	f.wantRefusal(err, wire.CodeNameInUse)
	if _, err := f.Enrol(t.Context(), f.applicant(f.token("mse_b003", nil), "box", newKey(t))); err != nil {
		t.Errorf("a token that was minted since: %v", err)
	}
}

// TestRaceForAStaleName: holders of tokens, of a token that belongs to the instance, and the node itself all want it at once.
func TestRaceForAStaleName(t *testing.T) {
	for _, reports := range []bool{false, true} {
		f := newFleet(t)
		token := f.bound()
		holder, err := f.Enrol(t.Context(), f.atInstance(token, "box", "7"))
		if err != nil {
			t.Fatal(err)
		}
		f.beat(holder, 1, nil)
		f.clock.Forward(10 * time.Minute)
		fresh := f.token("mse_b001", func(s *store.Token) { s.Uses = 100 })
		if reports {
			f.beat(holder, 2, nil)
		}
		got := parallel(40, func(i int) string {
			a := f.applicant(fresh, "box", newKey(t))
			if i%2 == 0 {
				a = f.atInstance(token, "box", "7")
			}
			_, err := f.Enrol(context.Background(), a)
			return code(err)
		})
		won := map[bool]int{false: 1}[reports]
		if got["ok"] != won || got[wire.CodeNameInUse] != 40-won {
			t.Errorf("the node reports: %v: got %v, want %d of 40 to take it over", reports, got, won)
		}
	}
}

// TestHeardWhileIssuing: the node reports while its certificate's successor is being made, which can take a while.
func TestHeardWhileIssuing(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		f := newFleet(t)
		token := f.bound()
		holder, err := f.Enrol(t.Context(), f.atInstance(token, "box", "7"))
		if err != nil {
			t.Fatal(err)
		}
		f.beat(holder, 1, nil)
		f.clock.Forward(10 * time.Minute)
		a := f.atInstance(token, "box", "7")
		issue := a.Issue
		a.Issue = func(ctx context.Context, id string) (store.Certificate, error) {
			f.beat(holder, 2, nil)
			if flushed {
				f.flush()
			}
			return issue(ctx, id)
		}
		_, err = f.Enrol(t.Context(), a)
		f.wantRefusal(err, wire.CodeNameInUse)
		if err := f.may(holder.Certificate.Fingerprint, fleet.ForAnything); err != nil {
			t.Errorf("the holder: got %v", err)
		}
	}
}

// TestKeyEndsWhileIssuing: the key that also signs is superseded, or its node comes into conflict, before the take-over is written.
func TestKeyEndsWhileIssuing(t *testing.T) {
	for _, change := range []func(*world, fleet.Admission){
		func(f *world, ad fleet.Admission) {
			f.use(f.renew(ad.Certificate.Fingerprint).Fingerprint)
		},
		func(f *world, ad fleet.Admission) {
			f.apply("box", fleet.Drain)
			f.play(ad, "A1 5m A2 30s B1 30s A3 30s A4")
		},
	} {
		f := newFleet(t)
		holder := f.enrolled("box")
		f.beat(holder, 1, nil)
		a := f.applicant(f.token("mse_b001", nil), "box", newKey(t))
		a.Identity = f.identity(holder.Certificate.Fingerprint)
		issue := a.Issue
		once := false
		a.Issue = func(ctx context.Context, id string) (store.Certificate, error) {
			if !once {
				once = true
				change(f, holder)
			}
			return issue(ctx, id)
		}
		got, err := f.Enrol(t.Context(), a)
		if code(err) != wire.CodeNameInUse {
			t.Errorf("got %+v, %v, want name_in_use", got.Node.Name, err)
		}
		if now := f.stored("box"); now.EnrolmentID != holder.Node.EnrolmentID {
			t.Errorf("the node was taken over")
		}
	}
}

// TestForeignNames: a refusal tells nothing of another tenant's node but that the name is taken.
func TestForeignNames(t *testing.T) {
	f := newFleet(t)
	foreign := func(id string) store.Token { return f.token(id, func(s *store.Token) { s.Tenant = "rival" }) }
	f.enrolled("box")
	_, lives := f.Enrol(t.Context(), f.applicant(foreign("mse_r001"), "box", newKey(t)))
	f.apply("box", fleet.Ban)
	_, banned := f.Enrol(t.Context(), f.applicant(foreign("mse_r002"), "box", newKey(t)))
	f.wantRefusal(banned, wire.CodeNameInUse)
	if lives.Error() != banned.Error() || strings.Contains(banned.Error(), "platform") {
		t.Errorf("got %q for a banned node and %q for a live one", banned, lives)
	}
}
