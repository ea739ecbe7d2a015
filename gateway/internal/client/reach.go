package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"muster/agent/wire"
)

// reachTime is how long a try to reach a URL may take.
const reachTime = 15 * time.Second

// Reached says how a gateway was reached at a URL that it gives to machines.
type Reached struct {
	Proof    string     // what proves the server, in a few words
	NotAfter *time.Time // of the server's certificate; nil: there was no TLS
}

// Reach asks for a gateway's health at a URL as a machine does that is no node yet: without a secret. The server must have the root that
// the pin names. Over TLS it has to prove itself by a certificate that this machine trusts, or by one that chains to that root.
func Reach(ctx context.Context, at, pin string) (Reached, error) {
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	u, err := url.Parse(at)
	if err != nil || u.Host == "" {
		return Reached{}, fmt.Errorf("%q is no URL", at)
	}
	r := Reached{Proof: "its certificate is one that this machine trusts"}
	if u.Scheme == "http" {
		r.Proof = "there is no TLS"
	}
	state, err := health(ctx, at, nil)
	var unknown x509.UnknownAuthorityError
	private := errors.As(err, &unknown)
	if err != nil && !private {
		return r, err
	}
	pool, err := pinnedRoot(ctx, at, pin) // also where the certificate is good: it may be another gateway's
	if err == nil && private {
		r.Proof = "its certificate chains to the gateway's root"
		state, err = health(ctx, at, pool)
	}
	if state != nil && len(state.PeerCertificates) > 0 {
		end := state.PeerCertificates[0].NotAfter.UTC()
		r.NotAfter = &end
	}
	return r, err
}

// health asks a server for its health. roots are what its certificate may chain to; nil: the system's.
func health(ctx context.Context, base string, roots *x509.CertPool) (*tls.ConnectionState, error) {
	transport := newTransport()
	transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(base, "/")+wire.PathHealth, nil)
	if err != nil {
		return nil, err
	}
	answer, err := plainClient(transport).Do(r)
	var failed *url.Error
	if errors.As(err, &failed) {
		return nil, failed.Err // the URL is in the caller's words
	}
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, longestRoots))
	if answer.StatusCode != http.StatusOK {
		return answer.TLS, fmt.Errorf("it answers %s with status %d", wire.PathHealth, answer.StatusCode)
	}
	return answer.TLS, nil
}
