package trust

import (
	"context"
	"errors"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
)

// Stale reports whether an error may mean that the pinned set is out of date. That is so for a certificate that chains to no pinned
// root, and for an answer whose signature no pinned key made. An answer without a signature comes from a proxy and says nothing.
func Stale(err error) bool {
	var unproven *transport.Unproven
	if errors.As(err, &unproven) {
		return unproven.Signed
	}
	return errors.Is(err, transport.ErrUntrusted) || errors.Is(err, identity.ErrBadCertificate)
}

// Refresh fetches the trust sets and follows them. news says that the state has changed. The caller must save it before the client
// uses it.
func Refresh(ctx context.Context, c *transport.Client, s identity.State) (next identity.State, news bool, err error) {
	document, err := c.FetchTrust(ctx)
	if err != nil {
		return s, false, err
	}
	next = s
	next.Gateway, news, err = Follow(s.Gateway, document)
	return next, news, err
}
