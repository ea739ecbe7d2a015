package registry_test

import (
	"context"
	"crypto/x509"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/registry"
	"muster/store"
)

func TestEnrolNewNode(t *testing.T) {
	f := newFleet(t)
	token := f.token("mse_new1", func(s *store.Token) {
		s.Labels, s.GPUs = map[string]string{"tier": "sovereign", "site": "a"}, 8
	})
	a := f.applicant(token, "box", newKey(t))
	a.Request.Provider, a.Request.InstanceID, a.Request.Labels = "vast_ai", "7", map[string]string{"tier": "spot", "rack": "9"}
	a.Request.Hardware = []byte(`{"cpus":4}`)
	got, err := f.Enrol(t.Context(), a)
	if err != nil || !got.New || got.Again {
		t.Fatalf("got %+v, %v, want a new node", got, err)
	}
	n := f.seen("box")
	if n.ID != got.Node.ID || n.Tenant != "platform" || n.State != "enrolled" || n.Status != "pending" || n.GPUsExpected != 8 ||
		n.Provider != "vast_ai" || n.InstanceID != "7" || n.Address != address || n.Hardware != `{"cpus":4}` || n.EnrolmentID == "" {
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
	if len(events) != 1 || events[0].Address != address || events[0].Actor != "token:mse_new1" || events[0].NodeID != n.ID || !events[0].Security {
		t.Errorf("got events %+v", events)
	}
}

// TestEnrolAgain asks for the recorded answer in every situation that may have come since.
func TestEnrolAgain(t *testing.T) {
	for _, c := range []struct {
		name  string
		since func(*fleet, registry.Admission)
		want  string
	}{
		{"at once", func(*fleet, registry.Admission) {}, "ok"},
		{"after a heartbeat", func(f *fleet, ad registry.Admission) { f.beat(ad, 1, nil) }, "ok"},
		{"after the token expired", func(f *fleet, _ registry.Admission) { f.clock.Forward(2 * time.Hour) }, "ok"},
		{"after the token was revoked", func(f *fleet, _ registry.Admission) {
			if err := f.store.RevokeToken(f.t.Context(), "", "mse_again", f.clock.Now()); err != nil {
				f.t.Fatal(err)
			}
		}, "ok"},
		{"while a renewal waits for its first use", func(f *fleet, ad registry.Admission) { f.renew(ad.Certificate.Fingerprint) }, "ok"},
		{"after a renewal", func(f *fleet, ad registry.Admission) { f.use(f.renew(ad.Certificate.Fingerprint).Fingerprint) }, wire.CodeKeyInUse},
		{"after the node retired", func(f *fleet, _ registry.Admission) { f.apply("box", registry.Retire) }, wire.CodeKeyInUse},
		{"after the node was banned", func(f *fleet, _ registry.Admission) { f.apply("box", registry.Ban) }, wire.CodeBanned},
		{"after another machine took over", func(f *fleet, _ registry.Admission) {
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
			if err != nil || !again.Again || again.New || again.Certificate.Chain != first.Certificate.Chain || again.Node.ID != first.Node.ID {
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

// TestTakeOver has every rule for a name that a live node has.
func TestTakeOver(t *testing.T) {
	for _, c := range []struct {
		name  string
		apply func(f *fleet, holder registry.Admission) registry.Applicant
		want  string
		why   string
	}{
		{"a node that is online, with a newer token", func(f *fleet, _ registry.Admission) registry.Applicant {
			return f.applicant(f.token("mse_b001", nil), "box", newKey(f.t))
		}, wire.CodeNameInUse, ""},
		{"three intervals of silence are not stale yet", func(f *fleet, _ registry.Admission) registry.Applicant {
			f.clock.Forward(3 * pace)
			return f.applicant(f.token("mse_b001", nil), "box", newKey(f.t))
		}, wire.CodeNameInUse, ""},
		{"a stale node, with a newer token", func(f *fleet, _ registry.Admission) registry.Applicant {
			f.clock.Forward(3*pace + time.Second)
			return f.applicant(f.token("mse_b001", nil), "box", newKey(f.t))
		}, "ok", "the node was silent and the token is newer"},
		{"a stale node, with a token minted before it was last heard", func(f *fleet, holder registry.Admission) registry.Applicant {
			token := f.token("mse_b001", nil)
			f.clock.Forward(time.Second)
			f.beat(holder, 2, nil)
			f.clock.Forward(10 * time.Minute)
			return f.applicant(token, "box", newKey(f.t))
		}, wire.CodeNameInUse, ""},
		{"a stale node, heard last in what waits in memory", func(f *fleet, holder registry.Admission) registry.Applicant {
			f.clock.Forward(10 * time.Minute)
			f.beat(holder, 2, nil)
			return f.applicant(f.token("mse_b001", nil), "box", newKey(f.t))
		}, wire.CodeNameInUse, ""},
		{"a stale node, with the PSK", func(f *fleet, _ registry.Admission) registry.Applicant {
			f.clock.Forward(10 * time.Minute)
			psk := f.psk()
			psk.Tenant = "platform"
			return f.applicant(psk, "box", newKey(f.t))
		}, wire.CodeNameInUse, ""},
		{"a stale node of another tenant", func(f *fleet, _ registry.Admission) registry.Applicant {
			f.clock.Forward(10 * time.Minute)
			return f.applicant(f.token("mse_b001", func(s *store.Token) { s.Tenant = "rival" }), "box", newKey(f.t))
		}, wire.CodeNameInUse, ""},
		{"an online node that signs with its own key", func(f *fleet, holder registry.Admission) registry.Applicant {
			a := f.applicant(f.token("mse_b001", nil), "box", newKey(f.t))
			a.Identity = f.identity(holder.Certificate.Fingerprint)
			return a
		}, "ok", "signed by the node's own key"},
		{"the PSK, and the node's own key", func(f *fleet, holder registry.Admission) registry.Applicant {
			psk := f.psk()
			psk.Tenant = "platform"
			a := f.applicant(psk, "box", newKey(f.t))
			a.Identity = f.identity(holder.Certificate.Fingerprint)
			return a
		}, "ok", "signed by the node's own key"},
		{"the key of another node", func(f *fleet, _ registry.Admission) registry.Applicant {
			a := f.applicant(f.token("mse_b001", nil), "box", newKey(f.t))
			a.Identity = f.identity(f.enrolled("neighbour").Certificate.Fingerprint)
			return a
		}, wire.CodeNameInUse, ""},
		{"its own key, but a token of another tenant", func(f *fleet, holder registry.Admission) registry.Applicant {
			a := f.applicant(f.token("mse_b001", func(s *store.Token) { s.Tenant = "rival" }), "box", newKey(f.t))
			a.Identity = f.identity(holder.Certificate.Fingerprint)
			return a
		}, wire.CodeNameInUse, ""},
		{"an operator allowed it", func(f *fleet, holder registry.Admission) registry.Applicant {
			f.allow(holder, 10*time.Minute)
			return f.applicant(f.token("mse_b001", nil), "box", newKey(f.t))
		}, "ok", "the operator allowed recovery"},
		{"an operator allowed it, too long ago", func(f *fleet, holder registry.Admission) registry.Applicant {
			f.allow(holder, time.Second)
			f.clock.Forward(time.Second)
			return f.applicant(f.token("mse_b001", nil), "box", newKey(f.t))
		}, wire.CodeNameInUse, ""},
		{"an operator allowed it, for another tenant's token", func(f *fleet, holder registry.Admission) registry.Applicant {
			f.allow(holder, 10*time.Minute)
			return f.applicant(f.token("mse_b001", func(s *store.Token) { s.Tenant = "rival" }), "box", newKey(f.t))
		}, wire.CodeNameInUse, ""},
		{"a token that is bound to the node", func(f *fleet, holder registry.Admission) registry.Applicant {
			return f.applicant(f.token("msb_b001", func(s *store.Token) { s.NodeID = holder.Node.ID }), "another-name", newKey(f.t))
		}, "ok", "a token bound to this node"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFleet(t)
			holder := f.enrolled("box")
			f.beat(holder, 1, nil)
			f.flush()
			got, err := f.Enrol(t.Context(), c.apply(f, holder))
			if c.want != "ok" {
				f.wantRefusal(err, c.want)
				if strings.Contains(err.Error(), "platform") || strings.Contains(err.Error(), holder.Node.ID) {
					t.Errorf("%v names more than the name", err)
				}
				if err := f.may(holder.Certificate.Fingerprint, false); err != nil {
					t.Errorf("the holder: got %v, want its identity untouched", err)
				}
				return
			}
			f.wantTakenOver(err, holder, got, c.why)
		})
	}
}

func (f *fleet) wantTakenOver(err error, holder, got registry.Admission, why string) {
	f.t.Helper()
	if err != nil || got.New || got.Again || got.Node.ID != holder.Node.ID {
		f.t.Fatalf("got %+v, %v, want node %s taken over", got, err, holder.Node.ID)
	}
	if n := f.seen("box"); n.State != "enrolled" || n.Tenant != "platform" || n.EnrolmentID == holder.Node.EnrolmentID {
		f.t.Errorf("got %+v, want the node enrolled anew", n)
	}
	if err := f.may(holder.Certificate.Fingerprint, false); code(err) != wire.CodeSuperseded {
		f.t.Errorf("the old certificate: got %v, want superseded", err)
	}
	if err := f.may(got.Certificate.Fingerprint, false); err != nil {
		f.t.Errorf("the new certificate: got %v", err)
	}
	events := f.events("node.enrolled")
	if events[0].Detail["took_over"] != why {
		f.t.Errorf("got event %+v, want the reason %q", events[0], why)
	}
}

func (f *fleet) allow(ad registry.Admission, d time.Duration) {
	f.t.Helper()
	if err := f.store.AllowRecovery(f.t.Context(), ad.Node.ID, f.clock.Now().Add(d)); err != nil {
		f.t.Fatal(err)
	}
}

func TestRecoveryIsSpent(t *testing.T) {
	f := newFleet(t)
	holder := f.enrolled("box")
	f.beat(holder, 1, nil)
	f.allow(holder, time.Hour)
	if _, err := f.Enrol(t.Context(), f.applicant(f.token("mse_b001", nil), "box", newKey(t))); err != nil {
		t.Fatal(err)
	}
	_, err := f.Enrol(t.Context(), f.applicant(f.token("mse_b002", nil), "box", newKey(t)))
	f.wantRefusal(err, wire.CodeNameInUse)
}

// TestNeverHeard: a node that enrolled and was never heard counts from its enrolment.
func TestNeverHeard(t *testing.T) {
	f := newFleet(t)
	f.enrolled("box")
	f.clock.Forward(time.Minute)
	_, err := f.Enrol(t.Context(), f.applicant(f.token("mse_b001", nil), "box", newKey(t)))
	f.wantRefusal(err, wire.CodeNameInUse)
	f.clock.Forward(time.Minute)
	if _, err := f.Enrol(t.Context(), f.applicant(f.token("mse_b002", nil), "box", newKey(t))); err != nil {
		t.Errorf("got %v, want the silent node taken over", err)
	}
}

// TestWaitingNode: a node that was created and waits for its bootstrap is its own token's alone.
func TestWaitingNode(t *testing.T) {
	f := newFleet(t)
	if err := f.store.CreateNode(t.Context(), store.Node{ID: "n-1", Name: "box", Tenant: "platform", CreatedAt: start}, nil); err != nil {
		t.Fatal(err)
	}
	f.clock.Forward(time.Hour)
	a := f.applicant(f.token("mse_b001", nil), "box", newKey(t))
	for range 2 { // ready, then deploying
		_, err := f.Enrol(t.Context(), a)
		f.wantRefusal(err, wire.CodeNameInUse)
		f.apply("box", registry.Fetch)
	}
	got, err := f.Enrol(t.Context(), f.applicant(f.token("msb_b001", func(s *store.Token) { s.NodeID = "n-1" }), "box", newKey(t)))
	if err != nil || got.Node.ID != "n-1" || got.New {
		t.Errorf("got %+v, %v, want the waiting node", got, err)
	}
}

// TestTakeOverKeepsWhatAPersonDecided: drained and suspended nodes stay so, and what the machine reported goes.
func TestTakeOverKeepsWhatAPersonDecided(t *testing.T) {
	for _, c := range []struct {
		event registry.Event
		want  string
	}{{registry.Drain, "drained"}, {registry.Suspend, "unavailable"}, {registry.Heartbeat, "enrolled"}} {
		f := newFleet(t)
		holder := f.enrolled("box")
		f.beat(holder, 1, nil)
		f.apply("box", c.event)
		f.beat(holder, 2, health(wire.HealthGPUMissing))
		f.clock.Forward(time.Hour)
		if _, err := f.Enrol(t.Context(), f.applicant(f.token("mse_b001", nil), "box", newKey(t))); err != nil {
			t.Fatal(err)
		}
		n := f.seen("box")
		suspended := len(n.Reasons) == 1 && n.Reasons[0].Reason == "suspended"
		if n.State != c.want || suspended != (c.event == registry.Suspend) || !suspended && len(n.Reasons) > 0 {
			t.Errorf("%s: got %s %v, want %s", c.event, n.State, n.Reasons, c.want)
		}
	}
}

// TestTakeOverDropsOldReports: what the former machine sent last is not the new one's.
func TestTakeOverDropsOldReports(t *testing.T) {
	f := newFleet(t)
	holder := f.enrolled("box")
	f.beat(holder, 1, hardware(`{"cpus":1}`))
	a := f.applicant(f.token("mse_b001", nil), "box", newKey(t))
	a.Identity = f.identity(holder.Certificate.Fingerprint)
	a.Request.Hardware = []byte(`{"cpus":2}`)
	if _, err := f.Enrol(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if n := f.seen("box"); n.Hardware != `{"cpus":2}` || n.RunID != "" {
			t.Errorf("got hardware %s of run %q, want the new machine's", n.Hardware, n.RunID)
		}
		f.flush()
	}
}

func TestBoundInstance(t *testing.T) {
	f := newFleet(t)
	token := f.token("mse_bound", func(s *store.Token) { s.BindInstance, s.Uses = true, 2 })
	ask := func(name, provider, instance string) (registry.Admission, error) {
		a := f.applicant(token, name, newKey(t))
		a.Request.Provider, a.Request.InstanceID = provider, instance
		return f.Enrol(t.Context(), a)
	}
	first, err := ask("box", "vast_ai", "7")
	if err != nil || !first.New {
		t.Fatalf("got %+v, %v", first, err)
	}
	f.beat(first, 1, nil)
	for _, name := range []string{"box", "renamed"} { // the disk is lost, the instance is the same
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
	f.apply("box2", registry.Ban)
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
	f.apply("box", registry.Ban)
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
	f.apply("box", registry.Retire)
	got, err := f.Enrol(t.Context(), f.applicant(f.token("mse_next", nil), "box", newKey(t)))
	if err != nil || !got.New || got.Node.ID == old.Node.ID {
		t.Errorf("got %+v, %v, want a new node", got, err)
	}
	if err := f.may(old.Certificate.Fingerprint, false); code(err) != wire.CodeRetired {
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

// TestRaceForOneUse: one machine gets the use, 99 are told so.
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
	if page, err := f.Nodes(t.Context(), registry.Query{}); err != nil || page.Total != 1 {
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

// TestIssuerFails: nothing is consumed where no certificate could be made.
func TestIssuerFails(t *testing.T) {
	f := newFleet(t)
	token := f.token("mse_fail", nil)
	a := f.applicant(token, "box", newKey(t))
	broken := errors.New("the issuer is away")
	a.Issue = func(context.Context, string) (*x509.Certificate, string, error) { return nil, "", broken }
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
