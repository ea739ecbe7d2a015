package fleet_test

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/fleet"
	"muster/store"
)

func TestEnrolNewNode(t *testing.T) {
	f := newFleet(t)
	token := f.token("mse_new1", func(s *store.Token) {
		s.Labels = map[string]string{"tier": "sovereign", "site": "a"}
		s.GPUs = 8
	})
	a := f.applicant(token, "box", newKey(t))
	a.Request.Provider = "vast_ai"
	a.Request.InstanceID = "7"
	a.Request.Labels = map[string]string{"tier": "spot", "rack": "9", "price_per_hour": "cheap", "maintenance-window": "at night"}
	a.Hardware = decoded[wire.Hardware](`{"cpus":4}`)
	got, err := f.Enrol(t.Context(), a)
	if err != nil || !got.New {
		t.Fatalf("got %+v, %v, want a new node", got, err)
	}
	n := f.seen("box")
	if n.ID != got.Node.ID || n.Tenant != "platform" || n.State != "enrolled" || n.Status != "pending" || n.GPUsExpected != 8 ||
		n.Provider != "vast_ai" || n.InstanceID != "7" || n.Address != address || n.Hardware != written(`{"cpus":4}`) || n.EnrolmentID == "" {
		t.Errorf("got %+v", n)
	}
	if want := map[string]string{"tier": "sovereign", "site": "a", "rack": "9"}; !maps.Equal(n.Labels, want) {
		t.Errorf("labels: got %v, want %v: the credential's win over the agent's", n.Labels, want)
	}
	id := f.identity(got.Certificate.Fingerprint)
	if id.NodeID != n.ID || id.Name != "box" || id.Tenant != "platform" || id.Generation != 1 || id.Enrolment != n.EnrolmentID {
		t.Errorf("got %+v", id)
	}
	if row, err := f.store.Identity(t.Context(), id.Fingerprint); err != nil || !row.Certificate.IssuedAt.Equal(start) {
		t.Errorf("issued at %v, %v, want %v", row.Certificate.IssuedAt, err, start)
	}
	events := f.events("node.enrolled")
	if len(events) != 1 || events[0].Address != address || events[0].Actor != "token:mse_new1" || events[0].NodeID != n.ID ||
		!events[0].Security || events[0].Detail["labels_not_understood"] != "maintenance-window,price_per_hour" {
		t.Errorf("got events %+v", events)
	}
}

// TestEnrolAgain repeats a request after everything that may have happened meanwhile, and wants the recorded answer.
func TestEnrolAgain(t *testing.T) {
	for _, c := range []struct {
		name  string
		since func(*world, fleet.Admission)
		want  string
	}{
		{"at once", func(*world, fleet.Admission) {}, "ok"},
		{"after a heartbeat", func(f *world, ad fleet.Admission) { f.beat(ad, 1, nil) }, "ok"},
		{"after the token expired", func(f *world, _ fleet.Admission) { f.clock.Forward(2 * time.Hour) }, "ok"},
		{"after the token was revoked", func(f *world, _ fleet.Admission) {
			if err := f.store.RevokeToken(f.t.Context(), "", "mse_again", f.clock.Now()); err != nil {
				f.t.Fatal(err)
			}
		}, "ok"},
		{"while a renewal waits for its first use", func(f *world, ad fleet.Admission) { f.renew(ad.Certificate.Fingerprint) }, "ok"},
		{"after a renewal", func(f *world, ad fleet.Admission) { f.use(f.renew(ad.Certificate.Fingerprint).Fingerprint) },
			wire.CodeKeyInUse},
		{"after the node retired", func(f *world, _ fleet.Admission) { f.apply("box", fleet.Retire) }, wire.CodeKeyInUse},
		{"after the node was banned", func(f *world, _ fleet.Admission) { f.apply("box", fleet.Ban) }, wire.CodeBanned},
		{"after another machine took over", func(f *world, _ fleet.Admission) {
			f.clock.Forward(time.Hour)
			if _, err := f.Enrol(f.t.Context(), f.applicant(f.token("mse_other", nil), "box", newKey(f.t))); err != nil {
				f.t.Fatal(err)
			}
		}, wire.CodeKeyInUse},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFleet(t)
			a := f.applicant(f.token("mse_again", nil), "box", newKey(t))
			first, err := f.Enrol(t.Context(), a)
			if err != nil {
				t.Fatal(err)
			}
			c.since(f, first)
			again, err := f.Enrol(t.Context(), a)
			if c.want != "ok" {
				f.wantRefusal(err, c.want)
				return
			}
			if err != nil || again.New || again.Certificate.Chain != first.Certificate.Chain ||
				again.Node.ID != first.Node.ID {
				t.Errorf("got %+v, %v, want the first answer again", again, err)
			}
			if token, err := f.store.Token(t.Context(), "mse_again"); err != nil || token.Used != 1 {
				t.Errorf("%d uses taken, %v, want 1", token.Used, err)
			}
		})
	}
}

// TestSpentToken asks with another key.
func TestSpentToken(t *testing.T) {
	f := newFleet(t)
	spent := map[string]store.Token{
		wire.CodeTokenUsed:    f.token("mse_used", nil),
		wire.CodeTokenExpired: f.token("mse_expired", func(s *store.Token) { s.ExpiresAt = start.Add(time.Second) }),
		wire.CodeTokenRevoked: f.token("mse_revoked", nil),
	}
	if _, err := f.Enrol(t.Context(), f.applicant(spent[wire.CodeTokenUsed], "box", newKey(t))); err != nil {
		t.Fatal(err)
	}
	if err := f.store.RevokeToken(t.Context(), "", "mse_revoked", start); err != nil {
		t.Fatal(err)
	}
	f.clock.Forward(time.Second) // the moment of expiry itself is too late
	for want, token := range spent {
		_, err := f.Enrol(t.Context(), f.applicant(token, "other", newKey(t)))
		f.wantRefusal(err, want)
	}
	if _, err := f.store.Node(t.Context(), "", "other"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("got %v, want no node", err)
	}
}

func TestBoundInstance(t *testing.T) {
	f := newFleet(t)
	token := f.token("mse_bound", func(s *store.Token) {
		s.BindInstance = true
		s.Uses = 2
	})
	ask := func(name, provider, instance string) (fleet.Admission, error) {
		a := f.applicant(token, name, newKey(t))
		a.Request.Provider = provider
		a.Request.InstanceID = instance
		return f.Enrol(t.Context(), a)
	}
	first, err := ask("box", "vast_ai", "7")
	if err != nil || !first.New {
		t.Fatalf("got %+v, %v", first, err)
	}
	f.beat(first, 1, nil)
	for _, name := range []string{"box", "renamed"} { // the disk is lost, the instance is the same, and its node is silent
		f.clock.Forward(3*pace + time.Second)
		again, err := ask(name, "vast_ai", "7")
		if err != nil || again.New || again.Node.ID != first.Node.ID || again.Node.Name != "box" {
			t.Errorf("%s: got %+v, %v, want the same node under its old name", name, again.Node, err)
		}
	}
	second, err := ask("box2", "vast_ai", "8")
	if err != nil || !second.New || second.Node.ID == first.Node.ID {
		t.Errorf("another instance: got %+v, %v, want a use and a node of its own", second.Node, err)
	}
	_, err = ask("box3", "vast_ai", "9")
	f.wantRefusal(err, wire.CodeTokenUsed)
	_, err = ask("box3", "runpod", "7")
	f.wantRefusal(err, wire.CodeTokenUsed)
	for _, half := range [][2]string{{"", ""}, {"vast_ai", ""}, {"", "7"}} {
		_, err = ask("box3", half[0], half[1])
		f.wantRefusal(err, wire.CodeBadRequest)
	}
	f.apply("box2", fleet.Ban)
	_, err = ask("free", "vast_ai", "8")
	f.wantRefusal(err, wire.CodeBanned)
	f.clock.Forward(2 * time.Hour)
	_, err = ask("box", "vast_ai", "7")
	f.wantRefusal(err, wire.CodeTokenExpired)
}

func TestBanned(t *testing.T) {
	f := newFleet(t)
	key := newKey(t)
	first := f.token("mse_ban1", nil)
	if _, err := f.Enrol(t.Context(), f.applicant(first, "box", key)); err != nil {
		t.Fatal(err)
	}
	f.apply("box", fleet.Ban)
	_, err := f.Enrol(t.Context(), f.applicant(f.token("mse_ban2", nil), "box", newKey(t)))
	f.wantRefusal(err, wire.CodeBanned)
	_, err = f.Enrol(t.Context(), f.applicant(f.token("mse_ban3", nil), "elsewhere", key))
	f.wantRefusal(err, wire.CodeBanned)
	_, err = f.Enrol(t.Context(), f.applicant(first, "box", key))
	f.wantRefusal(err, wire.CodeBanned)
}

// TestRetiredName: a name is free again, and its next holder is another node.
func TestRetiredName(t *testing.T) {
	f := newFleet(t)
	old := f.enrolled("box")
	f.apply("box", fleet.Retire)
	got, err := f.Enrol(t.Context(), f.applicant(f.token("mse_next", nil), "box", newKey(t)))
	if err != nil || !got.New || got.Node.ID == old.Node.ID {
		t.Errorf("got %+v, %v, want a new node", got, err)
	}
	if err := f.may(old.Certificate.Fingerprint, fleet.ForAnything); code(err) != wire.CodeRetired {
		t.Errorf("the old certificate: got %v, want retired", err)
	}
}

// TestNameLikeAnID: nodes are found by name or id, so no name may pass for another node's id.
func TestNameLikeAnID(t *testing.T) {
	f := newFleet(t)
	victim := f.enrolled("victim")
	_, err := f.Enrol(t.Context(), f.applicant(f.token("mse_name", nil), victim.Node.ID, newKey(t)))
	f.wantRefusal(err, wire.CodeBadName)
	if _, err := f.Enrol(t.Context(), f.applicant(f.token("mse_okay", nil), "n-1", newKey(t))); err != nil {
		t.Errorf("n-1: got %v", err)
	}
}

func TestKeyOfAnotherEnrolment(t *testing.T) {
	f := newFleet(t)
	key := newKey(t)
	if _, err := f.Enrol(t.Context(), f.applicant(f.token("mse_key1", nil), "box", key)); err != nil {
		t.Fatal(err)
	}
	_, err := f.Enrol(t.Context(), f.applicant(f.token("mse_key2", nil), "other", key))
	f.wantRefusal(err, wire.CodeKeyInUse)
}

func TestPSKEnrols(t *testing.T) {
	f := newFleet(t)
	psk := f.psk()
	for _, name := range []string{"a", "b"} {
		got, err := f.Enrol(t.Context(), f.applicant(psk, name, newKey(t)))
		if err != nil || !got.New || got.Node.Tenant != "default" {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
	if err := f.store.ClearPSKs(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	_, err := f.Enrol(t.Context(), f.applicant(psk, "c", newKey(t))) // it was there when the request came
	f.wantRefusal(err, wire.CodeUnknownCredential)
}

// TestRaceForOneUse: one machine gets the use, and 99 are refused.
func TestRaceForOneUse(t *testing.T) {
	f := newFleet(t)
	token := f.token("mse_race", nil)
	outcomes := parallel(100, func(int) string {
		key := newKey(t)
		_, err := f.Enrol(context.Background(), f.applicant(token, "box-"+f.name(key), key))
		return code(err)
	})
	if outcomes["ok"] != 1 || outcomes[wire.CodeTokenUsed] != 99 {
		t.Errorf("got %v, want one ok and 99 token_used", outcomes)
	}
	if page, err := f.Nodes(t.Context(), store.NodeQuery{}); err != nil || page.Total != 1 {
		t.Errorf("%d nodes, %v, want 1", page.Total, err)
	}
	if events := f.events("enrol.refused"); len(events) != 99 || events[0].Address != address {
		t.Errorf("%d refusals on record, want 99", len(events))
	}
}

// TestSameRequestAtOnce: both of two equal requests get the one certificate.
func TestSameRequestAtOnce(t *testing.T) {
	f := newFleet(t)
	a := f.applicant(f.token("mse_twice", nil), "box", newKey(t))
	var mu sync.Mutex
	chains := map[string]int{}
	outcomes := parallel(8, func(int) string {
		got, err := f.Enrol(context.Background(), a)
		mu.Lock()
		defer mu.Unlock()
		chains[got.Certificate.Chain]++
		return code(err)
	})
	if outcomes["ok"] != 8 || len(chains) != 1 {
		t.Errorf("got %v and %d certificates, want 8 ok and one certificate", outcomes, len(chains))
	}
}

// TestIssuerFails: no use is taken if no certificate could be made.
func TestIssuerFails(t *testing.T) {
	f := newFleet(t)
	token := f.token("mse_fail", nil)
	a := f.applicant(token, "box", newKey(t))
	broken := errors.New("the issuer is away")
	a.Issue = func(context.Context, string) (store.Certificate, error) { return store.Certificate{}, broken }
	if _, err := f.Enrol(t.Context(), a); !errors.Is(err, broken) {
		t.Errorf("got %v, want the issuer's error", err)
	}
	if token, err := f.store.Token(t.Context(), token.ID); err != nil || token.Used != 0 {
		t.Errorf("%d uses taken, %v, want none", token.Used, err)
	}
}

func TestEnrolWithoutADatabase(t *testing.T) {
	f := newFleet(t)
	a := f.applicant(f.token("mse_none", nil), "box", newKey(t))
	if err := f.store.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := f.Enrol(t.Context(), a); err == nil || errors.As(err, new(*wire.ErrorDetail)) {
		t.Errorf("got %+v, %v, want an error that is no refusal", got, err)
	}
}

// parallel runs n calls at once and counts what they give.
func parallel(n int, call func(i int) string) map[string]int {
	var wait sync.WaitGroup
	var mu sync.Mutex
	outcomes := map[string]int{}
	begin := make(chan struct{})
	for i := range n {
		wait.Go(func() {
			<-begin
			outcome := call(i)
			mu.Lock()
			defer mu.Unlock()
			outcomes[outcome]++
		})
	}
	close(begin)
	wait.Wait()
	return outcomes
}

// TestRefusedOften: the fleet does not record an event that CountAgain has counted.
func TestRefusedOften(t *testing.T) {
	f := newFleet(t)
	counted := 0
	again := func(_ context.Context, e store.Event) bool {
		if e.Kind != "enrol.refused" || e.Outcome != wire.CodeTokenUsed || e.Address != address || e.Detail["credential"] != "mse_used" {
			t.Errorf("event %+v", e)
		}
		counted++
		return counted > 1
	}
	r, err := fleet.Open(t.Context(), fleet.Config{Store: f.store, Now: f.clock.Now, CountAgain: again})
	if err != nil {
		t.Fatal(err)
	}
	f.Fleet = r
	token := f.token("mse_used", nil)
	if _, err := f.Enrol(t.Context(), f.applicant(token, "box", newKey(t))); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		_, err := f.Enrol(t.Context(), f.applicant(token, "other", newKey(t)))
		f.wantRefusal(err, wire.CodeTokenUsed)
	}
	if e := f.events("enrol.refused"); len(e) != 1 || counted != 5 {
		t.Errorf("%d events, %d counted", len(e), counted)
	}
}
