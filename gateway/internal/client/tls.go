package client

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
)

// RequestTime is how long a request with its whole answer may take.
const requestTime = time.Minute

const (
	longestRoots    = 256 << 10               // bytes of a root bundle
	keptConnections = 2 * wire.MaxConnections // without a request, for the next one
	pingTime        = 5 * time.Second         // of silence before a ping, and then for its answer
)

// TLS connects to a gateway at a base URL. It connects at once only to fetch the root that a pin names.
func overTLS(ctx context.Context, base string, t trust) (*http.Client, error) {
	roots, err := t.roots(ctx, base)
	if err != nil {
		return nil, err
	}
	transport := newTransport()
	transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	if _, address := named(base); address != "" {
		host, _, _ := net.SplitHostPort(address)
		transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true, VerifyConnection: oneOf(roots, localName, host)}
		transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		}
	}
	return plainClient(transport), nil
}

// localName is what every machine calls itself.
const localName = "localhost"

// named puts localhost in the place of a loopback address in an https URL, and gives the address with its port; "": the URL stays. By a
// name alone a gateway can tell a program of its own machine from a proxy there: a TLS handshake names no address.
func named(base string) (at, address string) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "https" || !loopback(u.Hostname()) || u.Hostname() == localName {
		return base, ""
	}
	address = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443"))
	u.Host = strings.TrimSuffix(net.JoinHostPort(localName, u.Port()), ":")
	return u.String(), address
}

// oneOf checks a server's certificate as TLS does, but for any of the names: one for the address alone is as good as one for localhost.
func oneOf(roots *x509.CertPool, names ...string) func(tls.ConnectionState) error {
	return func(s tls.ConnectionState) (err error) {
		between := x509.NewCertPool()
		for _, c := range s.PeerCertificates[1:] {
			between.AddCert(c)
		}
		for _, name := range names {
			_, err = s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: name})
			if err == nil {
				return nil
			}
		}
		return err
	}
}

// newTransport keeps connections for many requests at once, which sessions make. One that went dead without a word is found by pings: all
// requests share it where the gateway speaks HTTP/2.
func newTransport() *http.Transport {
	return &http.Transport{Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: 15 * time.Second, ForceAttemptHTTP2: true,
		MaxIdleConnsPerHost: keptConnections, HTTP2: &http.HTTP2Config{SendPingTimeout: pingTime, PingTimeout: pingTime}}
}

// plainClient follows no redirect: one could lead the token elsewhere.
func plainClient(transport *http.Transport) *http.Client {
	return &http.Client{Transport: transport, Timeout: requestTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Base is the URL of a gateway without a slash at its end. An API token is safe on the way to it.
func baseURL(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" {
		return "", errors.New("the gateway's URL must look like https://gateway.example:7443; set --url or MUSTER_URL")
	}
	if u.Scheme == "http" && !loopback(u.Hostname()) {
		return "", errors.New("an API token is not sent over plain http to another machine; use the gateway's https URL")
	}
	return u.Scheme + "://" + u.Host + strings.TrimRight(u.EscapedPath(), "/"), nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Token trims an API token, and checks that it is one.
func checkToken(text string) (string, error) {
	if text == "" {
		return "", errors.New("an API token is needed to reach a gateway by URL; set MUSTER_API_TOKEN or --token-file FILE")
	}
	token, err := sign.ParseToken(text)
	switch {
	case errors.Is(err, sign.ErrMistyped):
		return "", fmt.Errorf("the API token: %w", err)
	case err != nil || token.Kind != sign.AccountToken:
		return "", errors.New("MUSTER_API_TOKEN holds no API token: one begins with msa_")
	}
	return strings.TrimSpace(text), nil
}

// Trust says which certificates of a gateway to believe; the zero value: those that the system believes.
type trust struct {
	RootPin string // sha256:<hex> of the root's public key
	CAFile  string // PEM bundle
}

// roots are the certificates to trust; nil: the system's.
func (t trust) roots(ctx context.Context, base string) (*x509.CertPool, error) {
	switch {
	case t.RootPin != "" && t.CAFile != "":
		return nil, errors.New("--ca and --root-pin say the same thing twice; give one of them")
	case t.RootPin != "":
		return pinnedRoot(ctx, base, t.RootPin)
	case t.CAFile == "":
		return nil, nil
	}
	raw, err := os.ReadFile(t.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read the CA file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(raw) {
		return nil, fmt.Errorf("%s holds no certificate in PEM; the gateway serves its own at %s%s", t.CAFile, base, wire.PathRoots)
	}
	return pool, nil
}

// pinnedRoot fetches the gateway's root bundle from an unproven server and keeps the root that the pin names. Nothing but the pin is
// believed.
func pinnedRoot(ctx context.Context, base, pin string) (*x509.CertPool, error) {
	want, err := hex.DecodeString(strings.TrimPrefix(pin, "sha256:"))
	if err != nil || len(want) != sha256.Size || !strings.HasPrefix(pin, "sha256:") {
		return nil, errors.New("a root pin looks like sha256:<64 hex digits>; the gateway prints its own with the joining command")
	}
	transport := newTransport()
	transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} // nothing secret is sent, and what comes is checked by the pin
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+wire.PathRoots, nil)
	if err != nil {
		return nil, err
	}
	answer, err := plainClient(transport).Do(r)
	if err != nil {
		return nil, explainTLS(err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(answer.Body, longestRoots))
	if err != nil {
		return nil, fmt.Errorf("the root bundle broke off: %w", err)
	}
	if pool := rootsWithKey(raw, want); pool != nil {
		return pool, nil
	}
	return nil, fmt.Errorf("the server at %s has no root certificate with the pinned key: it is another gateway, or something between "+
		"poses as it", base)
}

func rootsWithKey(bundle, want []byte) *x509.CertPool {
	var pool *x509.CertPool
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			continue
		}
		if sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo); string(sum[:]) == string(want) {
			if pool == nil {
				pool = x509.NewCertPool()
			}
			pool.AddCert(cert)
		}
	}
	return pool
}

// Explain adds to an error on the way to a URL what a person can check.
func explainTLS(err error) error {
	var unknown x509.UnknownAuthorityError
	var failed *url.Error
	if errors.As(err, &failed) {
		err = failed.Err // the URL is the caller's own, and long
	}
	var name *net.DNSError
	var other x509.HostnameError
	switch {
	case errors.As(err, &name) && name.IsNotFound:
		return fmt.Errorf("DNS knows no %s; check --url or MUSTER_URL: %w", name.Name, err)
	case errors.As(err, &name):
		return fmt.Errorf("DNS did not answer the question for %s; check this machine's /etc/resolv.conf and network: %w", name.Name, err)
	case errors.As(err, &other):
		return fmt.Errorf("the gateway's certificate is for another name; use one of its names in --url or MUSTER_URL: %w", err)
	}
	if errors.As(err, &unknown) {
		return fmt.Errorf("the gateway's certificate is not one that this machine trusts; give its root by --root-pin sha256:... or --ca "+
			"FILE: %w", err)
	}
	return fmt.Errorf("cannot reach the gateway; check --url or MUSTER_URL, and the network: %w", err)
}
