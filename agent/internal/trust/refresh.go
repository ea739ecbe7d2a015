package trust

import (
	"context"
	"errors"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
)

// Stale reports whether an error may come from what is pinned being out of date: a certificate that chains to no pinned
// root, or an answer with a gateway's signature that no pinned key made. What an edge says by itself is neither.
func Stale(err error) bool {
	var unproven *transport.Unproven
	switch {
	case errors.As(err, &unproven):
		return unproven.Signed
	}
	return errors.Is(err, transport.ErrUntrusted) || errors.Is(err, identity.ErrBadCertificate)
}

// Refresh fetches the trust sets and follows them. news says that the state has changed: the caller makes it durable before
// the client uses it.
func Refresh(ctx context.Context, c *transport.Client, s identity.State) (next identity.State, news bool, err error) {
	document, err := c.FetchTrust(ctx)
	if err != nil {
		return s, false, err
	}
	next = s
	next.Gateway, news, err = Follow(s.Gateway, document)
	return next, news, err
}
