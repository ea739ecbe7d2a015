package identity

import (
	"context"
	"errors"

	"muster/agent/internal/transport"
)

// ErrUnknownKey is wrapped by errors about a document that no key of the pinned set has signed in its role.
var ErrUnknownKey = errors.New("no key that the pinned trust set names has signed")

// StaleTrust reports whether an error may mean that the pinned set is out of date. That is so for a certificate that chains to no pinned
// root, and for an answer or a document whose signature no pinned key made. An answer without a signature comes from a proxy and says
// nothing.
func StaleTrust(err error) bool {
	var unproven *transport.Unproven
	if errors.As(err, &unproven) {
		return unproven.Signed
	}
	return errors.Is(err, transport.ErrUntrusted) || errors.Is(err, ErrBadCertificate) || errors.Is(err, ErrUnknownKey)
}

// RefreshTrust fetches the trust sets and follows them. news says that the state has changed. The caller must save it before the client
// uses it.
func RefreshTrust(ctx context.Context, c *transport.Client, s State) (next State, news bool, err error) {
	document, err := c.FetchTrust(ctx)
	if err != nil {
		return s, false, err
	}
	next = s
	next.Gateway, news, err = FollowTrust(s.Gateway, document)
	return next, news, err
}
