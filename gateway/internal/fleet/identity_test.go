package fleet_test

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/authority"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/httpserver/limit"
	"muster/store"
)

// name makes a node's name of a key.
func (f *world) name(key *ecdsa.PrivateKey) string {
	return authority.KeyHash(publicKey(f.t, key))[:16]
}

// next is the row of another certificate for a node's identity, not yet recorded.
func (f *world) next(id *fleet.Identity, key *ecdsa.PrivateKey) store.Certificate {
	f.t.Helper()
	issued, err := f.issue(key)(f.t.Context(), id.NodeID)
	if err != nil {
		f.t.Fatal(err)
	}
	return fleet.Certificate(store.Node{ID: id.NodeID, EnrolmentID: id.Enrolment}, issued, id.Generation+1)
}

// renew records the next generation's certificate.
func (f *world) renew(fingerprint string) store.Certificate {
	f.t.Helper()
	id := f.identity(fingerprint)
	next := f.next(id, newKey(f.t))
	if err := f.AddCertificate(f.t.Context(), id, next, address); err != nil {
		f.t.Fatal(err)
	}
	return next
}

func (f *world) use(fingerprint string) *fleet.Identity {
	f.t.Helper()
	id, err := f.Use(f.t.Context(), f.identity(fingerprint), fleet.ForAnything)
	if err != nil {
		f.t.Fatal(err)
	}
	return id
}

func TestUnknownIdentity(t *testing.T) {
	f := newFleet(t)
	if _, err := f.Identity(t.Context(), "00"); code(err) != wire.CodeUnknownCertificate || hint(err) == "" {
		t.Errorf("got %v, want unknown_certificate", err)
	}
}

// TestEndsAtOnce: when an identity ends, the next request is refused, whether the identity is cached or not.
func TestEndsAtOnce(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(*world, fleet.Admission)
		want string
	}{
		{"retired", func(f *world, _ fleet.Admission) { f.apply("box", fleet.Retire) }, wire.CodeRetired},
		{"banned", func(f *world, _ fleet.Admission) { f.apply("box", fleet.Ban) }, wire.CodeBanned},
		{"enrolled again", func(f *world, ad fleet.Admission) {
			a := f.applicant(f.token("mse_b001", nil), "box", newKey(f.t))
			a.Identity = f.identity(ad.Certificate.Fingerprint)
			if _, err := f.Enrol(f.t.Context(), a); err != nil {
				f.t.Fatal(err)
			}
		}, wire.CodeSuperseded},
		{"renewed", func(f *world, ad fleet.Admission) { f.use(f.renew(ad.Certificate.Fingerprint).Fingerprint) },
			wire.CodeSupersededRetry},
		{"expired", func(f *world, _ fleet.Admission) { f.clock.Forward(authority.DefaultTTL + time.Second) }, wire.CodeExpired},
		{"revoked", func(f *world, ad fleet.Admission) {
			move := store.Move{NodeID: ad.Node.ID, From: "enrolled", To: "enrolled", At: f.clock.Now(), RevokeCertificates: true}
			if err := f.store.MoveNode(f.t.Context(), move); err != nil {
				f.t.Fatal(err)
			}
			f.Forget(ad.Node.ID)
		}, wire.CodeRevoked},
	} {
		f := newFleet(t)
		ad := f.enrolled("box")
		before := f.use(ad.Certificate.Fingerprint)
		if err := f.may(ad.Certificate.Fingerprint, fleet.ForAnything); err != nil {
			t.Fatal(err)
		}
		c.end(f, ad)
		if err := f.may(ad.Certificate.Fingerprint, fleet.ForAnything); code(err) != c.want || hint(err) == "" {
			t.Errorf("%s: got %v, want %s with a hint", c.name, err, c.want)
		}
		if c.want == wire.CodeExpired {
			continue // the clock moved, nothing on record did
		}
		if _, err := f.Use(t.Context(), before, fleet.ForAnything); code(err) != c.want {
			t.Errorf("%s: a request that was judged before and is used after: got %v, want %s", c.name, err, c.want)
		}
	}
}

// TestDates: the edges of a certificate's life and of the grace after it.
func TestDates(t *testing.T) {
	f := newFleet(t)
	ad := f.enrolled("box")
	for _, c := range []struct {
		at      time.Duration
		purpose fleet.Purpose
		want    string
	}{
		{0, fleet.ForAnything, "ok"},
		{authority.DefaultTTL, fleet.ForAnything, "ok"},
		{authority.DefaultTTL + time.Second, fleet.ForAnything, wire.CodeExpired},
		{authority.DefaultTTL + time.Second, fleet.ForRenewal, "ok"},
		{authority.DefaultTTL + grace, fleet.ForRenewal, "ok"},
		{authority.DefaultTTL + grace + time.Second, fleet.ForRenewal, wire.CodeExpired},
		{authority.DefaultTTL + grace + time.Second, fleet.ForEnrolment, "ok"},
	} {
		f.clock.Forward(start.Add(c.at).Sub(f.clock.Now()))
		if err := f.may(ad.Certificate.Fingerprint, c.purpose); code(err) != c.want {
			t.Errorf("%v after issue, purpose %v: got %v, want %s", c.at, c.purpose, err, c.want)
		}
	}
}

// TestRenewal: the old generation is good until the first use of the new one.
func TestRenewal(t *testing.T) {
	f := newFleet(t)
	ad := f.enrolled("box")
	old := ad.Certificate.Fingerprint
	first := f.renew(old)
	second := f.renew(old) // the answer with the first was lost, and the key with it
	for fingerprint, want := range map[string]string{old: "ok", first.Fingerprint: wire.CodeSupersededRetry, second.Fingerprint: "ok"} {
		if err := f.may(fingerprint, fleet.ForAnything); code(err) != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	id := f.use(second.Fingerprint)
	if id.Generation != 2 || id.Enrolment != ad.Node.EnrolmentID {
		t.Errorf("got %+v, want generation 2 of the same enrolment", id)
	}
	if err := f.may(old, fleet.ForAnything); code(err) != wire.CodeSupersededRetry {
		t.Errorf("the old one: got %v, want superseded_retry", err)
	}
	f.use(second.Fingerprint) // the second use changes nothing
	events := f.events("node.renewed")
	if len(events) != 1 || events[0].NodeName != "box" || events[0].Tenant != "platform" {
		t.Errorf("got events %+v, want one that names the node", events)
	}
	if issued := f.events("certificate.issued"); len(issued) != 2 || issued[0].Address != address {
		t.Errorf("got events %+v, want two", issued)
	}
}

// TestFirstUseAtOnce: many first requests with a pending certificate make one promotion.
func TestFirstUseAtOnce(t *testing.T) {
	f := newFleet(t)
	ad := f.enrolled("box")
	next := f.renew(ad.Certificate.Fingerprint)
	id := f.identity(next.Fingerprint)
	outcomes := parallel(16, func(int) string {
		_, err := f.Use(context.Background(), id, fleet.ForAnything)
		return code(err)
	})
	if outcomes["ok"] != 16 || len(f.events("node.renewed")) != 1 {
		t.Errorf("got %v and %d events, want 16 ok and one", outcomes, len(f.events("node.renewed")))
	}
}

func TestAddCertificateRefuses(t *testing.T) {
	f := newFleet(t)
	ad := f.enrolled("box")
	key := newKey(t)
	old := f.identity(ad.Certificate.Fingerprint)
	if err := f.AddCertificate(t.Context(), old, f.next(old, key), address); err != nil {
		t.Fatal(err)
	}
	if err := f.AddCertificate(t.Context(), old, f.next(old, key), address); code(err) != wire.CodeKeyInUse {
		t.Errorf("the same key: got %v, want key_in_use", err)
	}
	f.use(f.renew(ad.Certificate.Fingerprint).Fingerprint)
	if err := f.AddCertificate(t.Context(), old, f.next(old, newKey(t)), address); code(err) != wire.CodeKeyInUse {
		t.Errorf("asked for by the generation before: got %v, want key_in_use", err)
	}
}

// TestLookupRacesWithRetire: whoever looks an identity up while its node retires must not leave the old one behind.
func TestLookupRacesWithRetire(t *testing.T) {
	f := newFleet(t)
	for i := range 20 {
		ad := f.enrolled(fmt.Sprintf("box%d", i))
		stop := make(chan struct{})
		done := make(chan map[string]int)
		go func() {
			done <- parallel(4, func(int) string {
				for {
					select {
					case <-stop:
						return "ok"
					default:
					}
					f.Forget("somebody-else")
					if _, err := f.Identity(context.Background(), ad.Certificate.Fingerprint); err != nil {
						return code(err)
					}
				}
			})
		}()
		f.apply(ad.Node.Name, fleet.Retire)
		err := f.may(ad.Certificate.Fingerprint, fleet.ForAnything)
		close(stop)
		if outcomes := <-done; code(err) != wire.CodeRetired || outcomes["ok"] != 4 {
			t.Fatalf("got %v and lookups %v, want retired", err, outcomes)
		}
		if err := f.may(ad.Certificate.Fingerprint, fleet.ForAnything); code(err) != wire.CodeRetired {
			t.Fatalf("afterwards: got %v, want retired", err)
		}
	}
}

// TestReplayOutlivesTheCache: after an identity is dropped from the cache, its old requests are still refused.
func TestReplayOutlivesTheCache(t *testing.T) {
	f := newFleet(t)
	ad := f.enrolled("box")
	until := start.Add(time.Minute)
	if got := f.identity(ad.Certificate.Fingerprint).Replay.Take("a", start, until, start); got != limit.Fresh {
		t.Fatalf("got %d, want fresh", got)
	}
	f.Forget(ad.Node.ID)
	next := f.renew(ad.Certificate.Fingerprint)
	for _, fingerprint := range []string{ad.Certificate.Fingerprint, next.Fingerprint} {
		if got := f.identity(fingerprint).Replay.Take("a", start, until, start); got != limit.Repeated {
			t.Errorf("got %d, want repeated", got)
		}
	}
}
