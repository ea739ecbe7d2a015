package nodeapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/http"
	"sync"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/httpserver/limit"
)

// identify finds out which node calls, by the client certificate of the TLS connection or by a signature. If both arrive they must
// agree. Handlers do not see which it was. The order of the checks is part of the contract: known key, window, signature, record,
// nonce, and the body after that.
func (a *API) identify(r *http.Request, s *sign.Signature, purpose fleet.Purpose, proof fleet.Proof) (*fleet.Identity, error) {
	direct := clientFingerprint(r)
	if direct == "" && s == nil {
		return nil, wire.Refuse(wire.CodeNoIdentity, "this request carries neither a client certificate nor a signature",
			"sign it; the agent does so by itself where a proxy ends TLS")
	}
	if direct == "" && a.RequireMTLS && purpose != fleet.ForRenewal {
		return nil, wire.Refuse(wire.CodeMTLSRequired, "this gateway takes client certificates only", "connect to its own TLS port directly")
	}
	if s != nil && direct != "" && s.Fingerprint != direct {
		return nil, wire.Refuse(wire.CodeIdentityMismatch, "the client certificate and the signature are of two identities",
			"use one identity for both")
	}
	fingerprint := direct
	if s != nil {
		fingerprint = s.Fingerprint
	}
	id, err := a.Fleet.Identity(r.Context(), fingerprint)
	if err != nil {
		return nil, err
	}
	if s != nil {
		if err := a.signed(r, s, id); err != nil {
			return nil, err
		}
	}
	if id.NodeID != r.PathValue("id") && r.PathValue("id") != "" {
		return nil, wire.Refuse(wire.CodeWrongNode, "the path names another node than the identity", "a node can speak for itself only")
	}
	return id, a.usable(r.Context(), s, id, purpose, proof)
}

// usable judges a proven identity by the record, and then the nonce of its request. The use of a superseded identity is evidence of a
// copy, so its nonce has to be new as well.
func (a *API) usable(ctx context.Context, s *sign.Signature, id *fleet.Identity, purpose fleet.Purpose, proof fleet.Proof) error {
	refused := a.Fleet.Check(id, purpose)
	if refused != nil && !id.Superseded() {
		return refused
	}
	if s != nil {
		if err := a.fresh(s, id); err != nil {
			return err
		}
	}
	if refused == nil {
		return nil
	}
	return a.Fleet.Stray(ctx, id, proof, purpose)
}

// proof says when a request was proven: when it was signed, or when it arrived.
func (a *API) proof(r *http.Request, s *sign.Signature) fleet.Proof {
	if s != nil {
		return fleet.Proof{Address: a.Address(r), At: s.Created}
	}
	proof := fleet.Proof{Address: a.Address(r), At: a.Now()}
	if c := connectionOf(r); c != nil {
		proof.Opened = proof.At.Round(0).Add(-proof.At.Sub(c.opened)) // counted back from now: the clock may have been set meanwhile
	}
	return proof
}

// connection is what the requests on one connection have in common.
type connection struct {
	opened      time.Time
	identify    sync.Once // the requests of an HTTP/2 connection come side by side
	fingerprint string    // of the client's certificate; "" none
}

// connectionKey is the key under which a request's context has its *connection.
type connectionKey struct{}

// Connected notes when a connection was opened, for http.Server's ConnContext: a request may have waited in the connection since then.
func (a *API) Connected(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, &connection{opened: a.Now()})
}

// connectionOf is nil on a server without Connected.
func connectionOf(r *http.Request) *connection {
	c, _ := r.Context().Value(connectionKey{}).(*connection)
	return c
}

// signed checks window and signature.
func (a *API) signed(r *http.Request, s *sign.Signature, id *fleet.Identity) error {
	if off := a.Now().Sub(s.Created); off > wire.SignatureWindow || off < -wire.SignatureWindow {
		return wire.Refuse(wire.CodeClockSkew, "the signature's time is too far off",
			"the answer carries the gateway's time: correct the clock and sign again")
	}
	if s.Verify(r, id.Key) != nil {
		return wire.Refuse(wire.CodeBadSignature, "the signature does not fit the request and the key on record",
			"something between may have changed the method, path or query")
	}
	return nil
}

// fresh checks that a verified signature's nonce is of this gateway's epoch and was not used before.
func (a *API) fresh(s *sign.Signature, id *fleet.Identity) error {
	if s.Epoch != a.Info.Epoch {
		return wire.Refuse(wire.CodeStaleNonce, "the nonce is of another start of this gateway", "the answer carries the right epoch: sign again")
	}
	switch id.Replay.Take(s.Nonce[len(s.Epoch)+1:], s.Created, s.Created.Add(wire.SignatureWindow), a.Now()) {
	case limit.Repeated:
		return wire.Refuse(wire.CodeReplayed, "this request was seen before", "every request needs a new nonce: sign again")
	case limit.Full:
		return wire.Refuse(wire.CodeTooManyRequests, "too many requests of this node at once", "slow down")
	}
	return nil
}

// clientFingerprint names the certificate whose key the client proved to hold in the TLS handshake. A connection has one at most.
func clientFingerprint(r *http.Request) string {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return ""
	}
	fingerprint := func() string {
		sum := sha256.Sum256(r.TLS.PeerCertificates[0].Raw)
		return hex.EncodeToString(sum[:])
	}
	c := connectionOf(r)
	if c == nil {
		return fingerprint()
	}
	c.identify.Do(func() { c.fingerprint = fingerprint() })
	return c.fingerprint
}
