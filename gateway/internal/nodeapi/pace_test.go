package nodeapi_test

import (
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/nodeapi"
)

// TestRenewAgainAndAgain: a node that renews again and again is held up for a while. Other nodes are not.
func TestRenewAgainAndAgain(t *testing.T) {
	s := newSite(t, func(c *nodeapi.Config) { c.RenewEvery = time.Minute })
	wild := s.enrol("wild")
	other := s.enrol("other")
	csr := newCSR(t, newKey(t), named(wild.id))
	for range 10 {
		a, _ := s.renew(wild, csr)
		s.want("one of the first", a, 200, "ok")
	}
	a, _ := s.renew(wild, csr)
	s.want("one too many", a, 429, wire.CodeTooManyRequests)
	if got := a.header.Get("Retry-After"); got != "60" {
		t.Errorf("Retry-After is %q", got)
	}
	s.renewed(other)
	s.clock.Forward(time.Minute)
	a, _ = s.renew(wild, csr)
	s.want("a minute later", a, 200, "ok")
	a, _ = s.renew(wild, csr)
	s.want("one only", a, 429, wire.CodeTooManyRequests)
}
