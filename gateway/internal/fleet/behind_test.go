package fleet_test

import (
	"fmt"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/fleet"
	"muster/store"
)

// TestClockThatWasBehind: a clock that is behind for ten seconds makes certificates, tokens and accounts end earlier. When the clock is
// right again, they get that time back, also those of a node that was silent meanwhile.
func TestClockThatWasBehind(t *testing.T) {
	for _, by := range []time.Duration{40 * time.Second, 5 * time.Hour, 30 * time.Hour, 5 * 24 * time.Hour, year} {
		for _, restarts := range []string{"", "into it", "out of it", "both"} {
			t.Run(fmt.Sprint("by ", by, " restarts ", restarts), func(t *testing.T) {
				f := newTide(t, true)
				ad := f.enrolled("box")
				token := f.token("mse_open", nil)
				f.account("msa_a", 90*24*time.Hour)
				f.tell(ad, "A", 1)
				f.pass(time.Minute)
				f.flush()
				right := f.clock.Now()
				f.set(-by)
				if restarts == "into it" || restarts == "both" {
					f.restart()
				}
				f.pass(10 * time.Second)
				f.flush()
				f.set(by)
				if restarts == "out of it" || restarts == "both" {
					f.restart()
				}
				f.pass(20 * time.Second)

				if err := f.may(ad.Certificate.Fingerprint, fleet.ForAnything); err != nil {
					t.Errorf("the certificate: %v", err)
				}
				got, err := f.store.Token(t.Context(), token.ID)
				if err != nil || !got.ExpiresAt.Equal(token.ExpiresAt) || !got.CreatedAt.Equal(token.CreatedAt) {
					t.Errorf("the token: made %v, until %v, %v; want %v, %v", got.CreatedAt, got.ExpiresAt, err, token.CreatedAt,
						token.ExpiresAt)
				}
				account, err := f.store.Account(t.Context(), "msa_a")
				if err != nil || (account.ExpiresAt.Sub(right)-90*24*time.Hour).Abs() > 2*time.Minute {
					t.Errorf("the account: until %v, %v", account.ExpiresAt, err)
				}
				if n := f.seen("box"); n.Status != "online" || reasons(n) != "" {
					t.Errorf("the node: %s, reasons %q", n.Status, reasons(n))
				}
			})
		}
	}
}

// account makes an account that ends.
func (f *world) account(id string, lasts time.Duration) {
	f.t.Helper()
	expires := f.clock.Now().Add(lasts)
	err := f.store.CreateAccount(f.t.Context(), store.Account{
		ID: id, Name: "a", Scopes: []string{"nodes:read"}, SecretHash: []byte("h"), CreatedAt: f.clock.Now(), ExpiresAt: &expires,
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

// TestGatewayAway: a certificate that ended while nobody could renew it is as good for a renewal as one that ended since.
func TestGatewayAway(t *testing.T) {
	const week = 7 * 24 * time.Hour
	away := map[string]func(*tide){
		"stopped": func(f *tide) { f.pass(week); f.restart() },
		"asleep":  func(f *tide) { f.set(week) },
		"stopped twice": func(f *tide) {
			f.pass(week / 2)
			f.restart()
			f.pass(time.Minute)
			f.flush()
			f.pass(week / 2)
			f.restart()
		},
		"started often": func(f *tide) { f.pass(week); f.restartOften() },
		"its clock lags": func(f *tide) {
			f.set(-time.Hour / 2)
			f.restart()
			f.flush()
			f.pass(week)
			f.set(time.Hour / 2)
			f.restart()
		},
	}
	for name, goes := range away {
		t.Run(name, func(t *testing.T) {
			f := newTide(t, true)
			old := f.enrolled("old")
			f.tell(old, "A", 1)
			f.pass(24*time.Hour + grace + time.Hour) // ended too long ago before the gateway went
			ad := f.enrolled("box")
			f.tell(ad, "A", 1)
			f.flush()
			goes(f)
			f.pass(time.Hour) // the node takes its time to come back
			print := ad.Certificate.Fingerprint
			if err := f.may(print, fleet.ForAnything); code(err) != wire.CodeExpired {
				t.Errorf("for anything: got %v", err)
			}
			if err := f.may(print, fleet.ForRenewal); err != nil {
				t.Errorf("its renewal: %v", err)
			}
			if err := f.may(old.Certificate.Fingerprint, fleet.ForRenewal); code(err) != wire.CodeExpired {
				t.Errorf("the renewal of one that ended before: got %v", err)
			}
			for range 24 { // a gateway that is there
				f.flush()
				f.pass(grace / 24)
			}
			f.pass(24 * time.Hour)
			if err := f.may(print, fleet.ForRenewal); code(err) != wire.CodeExpired {
				t.Errorf("after the grace: got %v", err)
			}
		})
	}
}

// restartOften starts the gateway so often, with pauses between, that not all absences can be remembered.
func (f *tide) restartOften() {
	for range 40 {
		f.restart()
		f.pass(time.Second)
		f.flush()
		f.pass(time.Minute)
	}
	f.restart()
}

// TestIssuedByAClockThatWasBehind: such a certificate ends before it can be renewed. The node can renew it all the same.
func TestIssuedByAClockThatWasBehind(t *testing.T) {
	f := newTide(t, true)
	f.pass(20 * 24 * time.Hour) // the CA is older than the step
	f.flush()
	f.set(-10 * 24 * time.Hour)
	f.restart()
	ad := f.enrolled("box")
	f.tell(ad, "A", 1)
	f.flush()
	f.set(10 * 24 * time.Hour)
	f.restart()
	f.pass(2 * time.Hour)
	if err := f.may(ad.Certificate.Fingerprint, fleet.ForRenewal); err != nil {
		t.Errorf("its renewal: %v", err)
	}
}

// TestGivenBackOnce: a gateway that starts again soon after it came back gives nothing back a second time.
func TestGivenBackOnce(t *testing.T) {
	f := newTide(t, true)
	ad := f.enrolled("box")
	f.flush()
	f.pass(20 * time.Hour)
	f.restart()
	f.set(10 * time.Hour)
	f.flush()
	next := f.renew(ad.Certificate.Fingerprint)
	f.set(-10 * time.Hour)
	f.flush()
	want := f.clock.Now().Add(24 * time.Hour)
	for range 3 {
		f.pass(10 * time.Second)
		f.flush()
		f.restart()
	}
	id, err := f.store.Identity(t.Context(), next.Fingerprint)
	if err != nil || id.Certificate.NotAfter.Sub(want) > time.Minute {
		t.Errorf("the certificate is good until %v, %v, want %v", id.Certificate.NotAfter, err, want)
	}
}

// TestAbsenceOfAClockThatWasAhead: an absence that a clock far ahead has noted makes no later grace longer.
func TestAbsenceOfAClockThatWasAhead(t *testing.T) {
	f := newTide(t, true)
	ad := f.enrolled("box")
	f.tell(ad, "A", 1)
	f.flush()
	f.set(year)
	f.identity(ad.Certificate.Fingerprint) // the step is noticed, and the gateway dies before it can say that it is at work
	f.set(-year)
	f.restart()
	f.pass(30 * time.Second)
	f.flush()
	f.pass(24*time.Hour + grace + time.Hour)
	if err := f.may(ad.Certificate.Fingerprint, fleet.ForRenewal); code(err) != wire.CodeExpired {
		t.Errorf("after the grace: got %v", err)
	}
}
