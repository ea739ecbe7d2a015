package nodeapi

import (
	"context"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/authority"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/httpserver/limit"
	"muster/gateway/internal/view/reading"
	"muster/store"
)

func (a *API) heartbeat(ctx context.Context, c Call) (any, error) {
	b, err := reading.ParseHeartbeat(c.Body)
	if err != nil {
		return nil, err
	}
	state, err := a.Fleet.Beat(ctx, c.Identity, c.Proof, b)
	if err != nil {
		return nil, err
	}
	answer := wire.HeartbeatAnswer{
		IntervalSeconds: int(a.Interval.Seconds()), State: string(state), StateReasons: a.Fleet.Reasons(ctx, c.Identity),
		GPUsExpected: a.Fleet.GPUsExpected(ctx, c.Identity), Epoch: a.Info.Epoch, Time: a.Now().UTC(), Trust: a.Authority.TrustNumber(),
		Tasks: a.waiting(c.Identity.NodeID), Enrolment: c.Identity.Enrolment,
		Name: c.Identity.Name, Gateways: a.Gateways(),
	}
	if a.Logs != nil {
		answer.Logs = a.Logs(c.Identity.NodeID, b.Unshipped)
	}
	return answer, a.updates(ctx, c.Identity, b, &answer)
}

func (a *API) leave(ctx context.Context, c Call) (any, error) {
	node, err := a.Fleet.Apply(ctx, "", c.Identity.NodeID, fleet.Retire,
		store.Actor{Name: "node:" + c.Identity.NodeID, Address: c.Proof.Address})
	if err != nil {
		return nil, err
	}
	if a.Releases != nil {
		a.Releases.Moved(node.Node)
	}
	return wire.LeaveAnswer{State: node.State}, nil
}

// renew issues the next generation's certificate. The same key gets the same certificate again, so that a lost answer does no harm.
// It issues first and records then: the record refuses a second certificate for one key, and the second one is dropped.
func (a *API) renew(ctx context.Context, c Call) (any, error) {
	var q wire.RenewRequest
	if err := reading.Decode(c.Body, &q); err != nil {
		return nil, wire.Refuse(wire.CodeBadRequest, "the body is not a renewal in JSON", `{"csr":"PEM"}`)
	}
	csr, err := authority.CheckCSR(q.CSR, authority.Subject{Names: []string{c.Identity.NodeID, c.Identity.Name},
		URI: a.Authority.NodeURI(c.Identity.NodeID)})
	if err != nil {
		return nil, wire.Refuse(wire.CodeBadCSR, err.Error(), "a renewal keeps subject and SAN and brings a new P-256 key")
	}
	if a.pace.Over(c.Identity.NodeID) {
		return nil, wire.Refuse(wire.CodeTooManyRequests, "this node renews its certificate again and again",
			"wait; one renewal in two thirds of a certificate's life is usual")
	}
	issued, err := a.Issuer.Issue(ctx, authority.Request{NodeID: c.Identity.NodeID, CSR: csr})
	if err != nil {
		return nil, err
	}
	next := fleet.Certificate(store.Node{ID: c.Identity.NodeID, EnrolmentID: c.Identity.Enrolment}, issued, c.Identity.Generation+1)
	if err := a.Fleet.AddCertificate(ctx, c.Identity, next, c.Proof.Address); err != nil {
		if recorded, lost := a.Store.PendingCertificate(ctx, c.Identity.NodeID, next.KeyHash); lost == nil {
			return a.recorded(recorded)
		}
		return nil, err
	}
	return a.renewed(next), nil
}

// recorded gives the certificate that a key got before. It is refused where it is of no use: it was fetched too late, or the gateway's
// clock was ahead and the certificate is not good yet. Its key is never certified again.
func (a *API) recorded(c store.Certificate) (any, error) {
	if c.NotBefore.After(a.Now()) {
		return nil, wire.Refuse(wire.CodeKeyInUse,
			"the certificate for this key was made while the gateway's clock was ahead, and is not good yet",
			"make a new key; the agent does so by itself")
	}
	if spare := c.NotAfter.Sub(c.IssuedAt) / 10; a.Now().After(c.NotAfter.Add(-spare)) {
		return nil, wire.Refuse(wire.CodeKeyInUse, "the certificate for this key was not fetched before its time was over",
			"make a new key; the agent does so by itself")
	}
	return a.renewed(c), nil
}

func (a *API) renewed(c store.Certificate) wire.RenewAnswer {
	return wire.RenewAnswer{Certificate: c.Chain, Generation: c.Generation, Time: a.Now().UTC().Truncate(time.Millisecond)}
}

const (
	// paceBurst is how many renewals a node may ask for in a row: lost answers and restarts take a few, a hundred are a fault.
	paceBurst = 10
	// paceKeys is more than there are nodes, so that none shares its allowance.
	paceKeys = 1 << 20
)

// pace bounds how often one node may have a certificate made, so that a faulty node fills neither the database nor
// the log of events.
func (c *Config) pace() *limit.Limiter {
	return limit.New(limit.Config{Burst: paceBurst, Every: c.RenewEvery, Keys: paceKeys, Now: c.Now})
}
