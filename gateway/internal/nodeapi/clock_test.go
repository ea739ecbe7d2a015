package nodeapi_test

import (
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/store"
)

// TestRenewalByAWrongClock: a certificate is issued while the gateway's clock is ahead. It is good when the clock is right again, and
// not for longer than it should be. If its answer was lost, it is not given to a node that could not use it yet.
func TestRenewalByAWrongClock(t *testing.T) {
	for _, ahead := range []time.Duration{3 * time.Minute, 10 * time.Hour, 23 * time.Hour} {
		s := newSite(t, nil)
		n := s.enrol("box")
		s.want("before", s.beats(n), 200, "ok")
		s.clock.Forward(ahead)
		csr := newCSR(t, newKey(t), named(n.id))
		lost, _ := s.renew(n, csr)
		s.want("renewal, whose answer is lost", lost, 200, "ok")
		s.clock.Forward(10 * time.Second)
		s.clock.Forward(-ahead)

		again, _ := s.renew(n, csr)
		if ahead > wire.EnrollWindow {
			s.want("the same key again", again, 409, wire.CodeKeyInUse)
		} else {
			s.want("the same key again", again, 200, "ok")
		}
		s.clock.Forward(ahead)
		tomorrows := s.renewed(n)
		s.want("the first use while it is ahead", s.beats(tomorrows), 200, "ok")
		s.clock.Forward(-ahead)
		s.want("the clock is right again", s.beats(tomorrows), 200, "ok")
		next := s.renewed(tomorrows)
		s.want("the next certificate", s.beats(next), 200, "ok")
		s.want("the one before", s.beats(tomorrows), 401, wire.CodeSupersededRetry)
		if events, err := s.store.Events(t.Context(), store.EventQuery{Kind: "identity.conflict"}); err != nil || len(events) > 0 {
			t.Errorf("ahead by %s: %d conflicts, %v", ahead, len(events), err)
		}
		s.clock.Forward(24*time.Hour + time.Minute)
		s.want("a day later", s.beats(next), 403, wire.CodeExpired)
	}
}

// TestReplayAfterAWrongClock: a captured request is taken only once, although the clock was ahead meanwhile, so that the gateway forgot
// the nonces that were used.
func TestReplayAfterAWrongClock(t *testing.T) {
	s := newSite(t, nil)
	n := s.enrol("box")
	send := s.captured(n, wire.HeartbeatPath(n.id), beat(1))
	s.want("captured", send(), 200, "ok")
	s.clock.Forward(10 * time.Hour)
	s.want("while it is ahead", s.beats(n), 200, "ok")
	s.clock.Forward(5*time.Second - 10*time.Hour)
	s.want("replayed", send(), 401, wire.CodeReplayed)
	s.want("a new one", s.beats(n), 200, "ok")
}

// captured signs a request once and sends it as often as it is asked to.
func (s *site) captured(n node, path string, body []byte) func() answer {
	s.t.Helper()
	signed := newRequest(s.t, "POST", s.plain.URL+path, body)
	if _, err := (sign.Signer{Key: n.signer.Key, Fingerprint: n.signer.Fingerprint}).Sign(signed, body, epoch, s.clock.Now()); err != nil {
		s.t.Fatal(err)
	}
	return func() answer {
		r := newRequest(s.t, "POST", s.plain.URL+path, body)
		r.Header = signed.Header.Clone()
		return s.do(s.plain.Client(), r)
	}
}
