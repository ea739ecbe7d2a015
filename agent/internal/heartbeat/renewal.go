package heartbeat

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
	"muster/agent/wire"
)

// renewal is when the next certificate is asked for. Two clocks count: at by the gateway's clock, and after by the time that passes here.
// Whichever comes first starts the renewal, so that a clock that is set cannot delay it.
type renewal struct {
	at      time.Time     // by the gateway's clock
	after   time.Duration // of use, at the latest: the clock may have been ahead when the certificate was issued
	taken   time.Time     // when its use began, by this machine's clock
	ends    time.Time     // when the certificate ends
	retry   time.Time     // not before, by this machine's clock
	backoff transport.Backoff
	trouble string // a notice, empty while all is well
}

// planRenewal chooses the moment by wire.RenewAfter, less a random part of wire.RenewSpread, counted from the issue.
func (l *Loop) planRenewal(leaf *x509.Certificate) {
	lifetime := leaf.NotAfter.Sub(l.State.Current.IssuedAt)
	if lifetime <= 0 { // an identity file without a usable IssuedAt
		lifetime = leaf.NotAfter.Sub(leaf.NotBefore)
	}
	l.renewal.ends = leaf.NotAfter
	early := mathrand.N(wire.RenewSpread(lifetime) + 1)
	l.renewal.after = wire.RenewAfter(lifetime)
	l.renewal.at = leaf.NotAfter.Add(-lifetime + l.renewal.after - early)
	l.renewal.taken = time.Now()
}

// expired reports whether the certificate has ended. The gateway says so. Before its first answer this machine's clock decides;
// later it does not, because it may just have been set.
func (l *Loop) expired() bool {
	return l.phase.expired || !l.phase.answered && l.Client.Now().After(l.renewal.ends)
}

func (l *Loop) renewalDue() bool { return l.mayRenew() && l.untilRenewal() <= 0 }

// mayRenew is false until the first answer, which corrects the clock: with a clock that is ahead, the agent would renew at every
// start. An expired certificate is renewed by step, in the place of a heartbeat.
func (l *Loop) mayRenew() bool { return l.phase.answered && !l.phase.refused && !l.expired() }

func (l *Loop) untilRenewal() time.Duration {
	if !l.mayRenew() {
		return refusedPause
	}
	due := min(l.renewal.at.Sub(l.Client.Now()), l.renewal.after-time.Since(l.renewal.taken))
	return max(due, time.Until(l.renewal.retry))
}

// renew asks for the next certificate and takes it over, or plans another try.
func (l *Loop) renew(ctx context.Context) {
	err := l.renewOnce(ctx)
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		l.renewal.backoff.Reset()
		l.renewal.trouble = ""
		l.nextBeat = time.Now() // the first use supersedes the certificate before
		l.Logger.Info("certificate renewed", "generation", l.State.Current.Generation, "not_after", l.report.status.NotAfter)
		l.saveStatus(true)
		return
	}
	if l.trusted(ctx, err, 0) { // newer roots or keys: the loop comes back at once
		return
	}
	l.renewal.trouble = "the certificate could not be renewed: " + err.Error()
	var refusal *transport.Refusal
	if errors.As(err, &refusal) && refusal.Code == wire.CodeKeyInUse {
		l.State.Pending = "" // the next try makes another key
	}
	if l.expired() {
		if !l.adopted(ctx, err) {
			l.failed(err)
		}
		return
	}
	// The certificate in use is still good, so a refused renewal does not stop the heartbeats.
	wait := l.renewal.backoff.Next()
	if refusal != nil && forGood(refusal.Code) {
		wait = refusedPause + mathrand.N(refusedPause)
	}
	l.renewal.retry = time.Now().Add(wait)
	l.Logger.Warn("certificate not renewed, trying again", "in", wait.Round(100*time.Millisecond).String(), "error", err)
}

// renewOnce makes one attempt. The pair before stays on the disk as Previous, for a gateway that is restored from a backup and does not
// know the new one. The new pair is on the disk before it is used: its first use makes the gateway refuse the one before.
func (l *Loop) renewOnce(ctx context.Context) error {
	key, err := l.pendingKey()
	if err != nil {
		return err
	}
	csr, err := identity.CSR(key)
	if err != nil {
		return err
	}
	var answer wire.RenewAnswer
	if err := l.Client.Call(ctx, wire.RenewPath(l.State.NodeID), wire.RenewRequest{CSR: csr}, &answer); err != nil {
		return err
	}
	leaf, err := l.checkRenewed(key, answer)
	if err != nil {
		return err
	}
	next := l.State
	next.Previous = l.State.Current
	next.Current = &identity.Pair{
		Key: l.State.Pending, Certificate: answer.Certificate, Generation: answer.Generation,
		IssuedAt: identity.IssuedAt(leaf, l.Client.Now()),
	}
	next.Pending = ""
	if err := l.Directory.Save(next); err != nil {
		return err
	}
	return l.use(next)
}

// pendingKey is the next key. It is on the disk before the gateway hears of it.
func (l *Loop) pendingKey() (*ecdsa.PrivateKey, error) {
	if l.State.Pending != "" {
		return identity.ParseKey(l.State.Pending)
	}
	key, text, err := identity.NewKey()
	if err != nil {
		return nil, err
	}
	next := l.State
	next.Pending = text
	if err := l.Directory.Save(next); err != nil {
		return nil, err
	}
	l.State = next
	return key, nil
}

// checkRenewed demands the same names as before, for the new key.
func (l *Loop) checkRenewed(key *ecdsa.PrivateKey, answer wire.RenewAnswer) (*x509.Certificate, error) {
	current, err := l.State.Leaf()
	if err != nil {
		return nil, err
	}
	leaf, err := identity.CheckCertificate(answer.Certificate, identity.Wanted{
		Key: key, Roots: l.State.Gateway.Roots, NodeID: l.State.NodeID, TrustDomain: current.URIs[0].Host, Now: l.Client.Now(),
	})
	switch {
	case err != nil:
		return nil, err
	case !bytes.Equal(leaf.RawSubject, current.RawSubject):
		return nil, fmt.Errorf("%w: its subject is not the one before", identity.ErrBadCertificate)
	case answer.Generation <= l.State.Current.Generation:
		return nil, fmt.Errorf("%w: generation %d does not follow %d", identity.ErrBadCertificate, answer.Generation,
			l.State.Current.Generation)
	}
	return leaf, nil
}
