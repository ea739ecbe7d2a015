package client

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
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
// the pin names. Over TLS it has to prove itself by a certificate that this machine trusts, by one that chains to that root, or by the key
// that the gateway says it serves with, as curl's --pinnedpubkey takes it: a company's own authority may have signed the certificate.
func Reach(ctx context.Context, at, pin, key string) (Reached, error) {
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
	state, err := health(ctx, at, &tls.Config{})
	var unknown x509.UnknownAuthorityError
	private := errors.As(err, &unknown)
	if err != nil && !private {
		return r, err
	}
	pool, err := pinnedRoot(ctx, at, pin) // also where the certificate is good: it may be another gateway's
	if err == nil && private {
		r.Proof = "its certificate chains to the gateway's root"
		state, err = health(ctx, at, &tls.Config{RootCAs: pool})
		if errors.As(err, &unknown) && key != "" {
			r.Proof = "its certificate has the gateway's key"
			state, err = health(ctx, at, keyed(key))
		}
	}
	if state != nil && len(state.PeerCertificates) > 0 {
		end := state.PeerCertificates[0].NotAfter.UTC()
		r.NotAfter = &end
	}
	return r, err
}

// keyed takes a certificate with this key alone, whoever signed it. Its name and its time were looked at before.
func keyed(key string) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, VerifyConnection: func(state tls.ConnectionState) error {
		sum := sha256.Sum256(state.PeerCertificates[0].RawSubjectPublicKeyInfo)
		if "sha256//"+base64.StdEncoding.EncodeToString(sum[:]) != key {
			return errors.New("its certificate is not of the gateway's key, and is signed by an authority that is not known here")
		}
		return nil
	}}
}

// health asks a server for its health, over TLS as secured says.
func health(ctx context.Context, base string, secured *tls.Config) (*tls.ConnectionState, error) {
	transport := newTransport()
	transport.TLSClientConfig = secured
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
