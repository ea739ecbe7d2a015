// Package region speaks to a region controller of MAAS (API 2.0), with the key of one user.
//
// What it answers is foreign: it is bounded, and what is not known stays unknown. MAAS changes a machine first and waits for its power
// control after that, so a request that fails may have done its work. After an error that is Unclear the caller reads the machine again.
package region

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// Config says where MAAS is, and whose calls they are.
type Config struct {
	// URL is such as https://maas.example:5240/MAAS. If it begins with http, whoever listens on the way reads the key, and is that user of
	// MAAS.
	URL   string
	Key   string         // CONSUMER:TOKEN:SECRET, as MAAS shows it
	Roots *x509.CertPool // nil: the machine's own

	Now   func() time.Time                                                     // nil: time.Now
	Sleep func(ctx context.Context, d time.Duration) error                     // nil: it waits
	Dial  func(ctx context.Context, network, address string) (net.Conn, error) // nil: of the network
}

// Client sends requests. It is safe for concurrent use.
type Client struct {
	base  string // of the API, with its last slash
	now   func() time.Time
	sleep func(ctx context.Context, d time.Duration) error
	sign  func() string // a fresh Authorization header. A function holds the key, so that no print of a Client shows it.
	plain func(string) string
	http  *http.Client
}

// New makes a Client. It sends nothing.
func New(c Config) (*Client, error) {
	base, err := baseOf(c.URL)
	if err != nil {
		return nil, err
	}
	key, err := readKey(c.Key)
	if err != nil {
		return nil, err
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Sleep == nil {
		c.Sleep = sleep
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: c.Roots, MinVersion: tls.VersionTLS12},
		DialContext: c.Dial, MaxIdleConnsPerHost: 9, IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second,
		MaxResponseHeaderBytes: longestError,
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // the key goes to nobody else
	return &Client{
		base: base, now: c.Now, sleep: c.Sleep,
		sign:  func() string { return key.header(c.Now()) },
		plain: key.plain,
		http:  &http.Client{Transport: transport, CheckRedirect: stay},
	}, nil
}

// Close ends the connections that nobody uses.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// baseOf is the API's address. People write the URL with or without /MAAS, a last slash, and the path of the API.
func baseOf(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		u.Scheme != "https" && u.Scheme != "http" {
		return "", errors.New("the URL of MAAS is not https://HOST[:PORT]/MAAS")
	}
	path := strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/api/2.0")
	if path == "" {
		path = "/MAAS"
	}
	return u.Scheme + "://" + u.Host + (&url.URL{Path: path}).EscapedPath() + "/api/2.0/", nil
}

// Grammar of what stands in a path.
var (
	systemID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	tagName  = regexp.MustCompile(`^[A-Za-z0-9_-]{1,256}$`)
)

// sleep waits, and ends with ctx.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
