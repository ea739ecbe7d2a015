// Package bootstrap keeps the credentials with which a node can enrol: enrollment tokens, the cluster's PSKs, and bootstrap tokens with
// their scripts. It makes and revokes them, finds them by their public part, and checks the proofs that are made with them.
//
// The database never has the secrets. It has keys that are derived from them, and these are sealed. A secret is shown once, when it is
// made.
package bootstrap

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/audit"
	"muster/gateway/internal/bootstrap/reach"
	"muster/gateway/internal/httpserver/limit"
	"muster/gateway/internal/httpserver/origin"
	"muster/store"
)

// Config says what a Bootstrap works with. A zero field means the default.
type Config struct {
	Store  *store.Store
	Now    func() time.Time
	Rand   io.Reader
	Logger *slog.Logger
	Audit  *audit.Trail         // nil: New makes one
	Site   func() (Site, error) // what scripts say about the gateway; nil: it makes no scripts
	Reach  reach.Reach          // for the URLs that people give for some machines
	// Release is what a node's script installs. Nil: the agents that the gateway carries.
	Release func(ctx context.Context, nodeID string) (Release, error)
}

// Bootstrap is safe for concurrent use.
type Bootstrap struct {
	config Config
	marks  marks // of PSKs
	nonces *limit.Memory

	fails   *limit.Limiter // wrong proofs, by address
	macs    *limit.Limiter // events of wrong proofs, by address and credential
	fetches *limit.Limiter // events of fetched scripts, by token, part and address
}

// New makes a Bootstrap.
func New(c Config) *Bootstrap {
	if c.Release == nil {
		c.Release = func(context.Context, string) (Release, error) { return Release{}, nil }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Audit == nil {
		c.Audit = audit.New(audit.Config{Store: c.Store, Now: c.Now, Logger: c.Logger})
	}
	return &Bootstrap{config: c, nonces: newNonces(), fails: limit.Minute(failsAllowed, failBound, c.Now),
		macs: limit.Minute(1, failBound, c.Now), fetches: limit.Minute(1, failBound, c.Now)}
}

// Credential finds the credential that a register request names in its Authorization header: a token by mse_<id> or msb_<id>, or a PSK
// by psk-<8 hex>. It returns a PSK as a token of the default tenant, without a number of uses. It finds a token that has ended too,
// because the node that it enrolled may ask again.
func (b *Bootstrap) Credential(ctx context.Context, id string) (store.Token, error) {
	var token store.Token
	var err error
	if sign.IsPSKID(id) {
		var psk store.PSK
		psk, err = b.config.Store.PSK(ctx, id)
		token = store.Token{ID: psk.ID, Key: psk.Key, Tenant: store.DefaultTenant, CreatedAt: psk.CreatedAt}
	} else {
		token, err = b.config.Store.Token(ctx, id)
	}
	if errors.Is(err, store.ErrNotFound) {
		return store.Token{}, unknownCredential(id)
	}
	return token, err
}

func unknownCredential(id string) error {
	what := "token " + id
	if sign.IsPSKID(id) {
		what = "PSK"
	}
	return wire.Refuse(
		wire.CodeUnknownCredential, "this gateway has no such "+what,
		"check that the token and the gateway's address belong together; mint one with: muster token create --tenant TENANT")

}

// Proven checks a register request's MAC over its body. It refuses with bad_mac, or with too_many_requests if the address has failed too
// often. A right MAC is always accepted. For each address and credential, one failure in a minute is an event. The others are counted.
func (b *Bootstrap) Proven(ctx context.Context, p sign.Presented, token store.Token, body []byte, address string) error {
	if p.Verify(token.Key, body) == nil {
		return nil
	}
	from := origin.SiteOf(address)
	e := store.Event{At: b.config.Now(), Kind: "enrol.refused", Actor: "credential:" + token.ID, NodeID: token.NodeID, Tenant: token.Tenant,
		Address: address, Outcome: wire.CodeBadMAC, Security: true, Detail: map[string]string{"credential": token.ID}}
	b.config.Audit.NameNode(ctx, &e)
	b.config.Audit.Refused(ctx, e, b.macs.Over(from+" "+token.ID))
	if b.fails.Over(from) {
		return wire.Refuse(
			wire.CodeTooManyRequests, "too many wrong proofs from this address", "wait a minute, then try again with the right token")

	}
	return wire.Refuse(
		wire.CodeBadMAC, "the proof does not fit credential "+token.ID,
		"the secret is wrong, or something changed the request on its way; copy the token again")

}

// Timely checks that a proven request's time is off by wire.EnrollWindow at most, in either direction, and that its nonce is new. The
// MAC must be checked first: otherwise anybody could fill the memory of nonces.
func (b *Bootstrap) Timely(credential, nonce string, at time.Time) error {
	now := b.config.Now()
	if off := now.Sub(at); off > wire.EnrollWindow || off < -wire.EnrollWindow {
		return wire.Refuse(
			wire.CodeClockSkew, "the request's time is off by "+roughly(off),
			"the answer carries the gateway's time: the agent corrects its clock and tries again by itself")

	}
	switch b.nonces.Take(credential+" "+nonce, at, now.Add(nonceMemory), now) {
	case limit.Repeated:
		return wire.Refuse(
			wire.CodeReplayed, "this request was seen before", "every attempt needs a new nonce")

	case limit.Full:
		return wire.Refuse(
			wire.CodeTooManyRequests, "too many machines enrol at once", "try again in a minute")

	}
	return nil
}

// roughly says how far two clocks differ. A clock that was never set can be off by more years than a Duration holds.
func roughly(off time.Duration) string {
	if off = off.Abs(); off > 365*24*time.Hour {
		return "more than a year"
	}
	return off.Round(time.Second).String()
}
