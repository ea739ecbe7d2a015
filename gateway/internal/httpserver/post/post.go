// Package post sends requests to addresses that people have named: receivers of alerts, and sinks of logs. It says in words why a receiver
// or sink takes nothing, and how long to leave it alone.
package post

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Bounds of an answer, in bytes.
const (
	longestHeader = 64 << 10
	longestAnswer = 64 << 10
)

// Config says how requests are sent, and what is said if they fail.
type Config struct {
	Roots   *x509.CertPool // nil: the machine's own
	Time    time.Duration  // for one request, its answer included
	Longest time.Duration  // that somebody may ask to wait
	Hops    int            // redirects that are followed, which lead to another path of the same host and keep the body
	// Control refuses addresses, such as Guard; nil: it allows all.
	Control func(network, address string, _ syscall.RawConn) error

	What, Takes string // to whom requests go, such as receiver, and what it takes, such as alerts
	// What to do about a certificate of an authority that nobody here knows, and about answers.
	Untrusted, Moved, Barred, Nowhere, Wait, Broken string
}

// Client sends requests. It is safe for concurrent use.
type Client struct {
	Config
	http *http.Client
}

// New makes a Client.
func New(c Config) *Client {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: c.Roots, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true, MaxIdleConns: 50, IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: longestHeader,
		TLSHandshakeTimeout: 10 * time.Second,
	}
	if c.Control != nil {
		transport.DialContext = (&net.Dialer{Timeout: 10 * time.Second, Control: c.Control}).DialContext
	}
	return &Client{c, &http.Client{Transport: transport, Timeout: c.Time, CheckRedirect: c.stays}}
}

// stays lets a request follow a redirect that keeps its body, to another path of the same host. Another host must not get it.
func (c *Config) stays(r *http.Request, via []*http.Request) error {
	first := via[0].URL
	status := r.Response.StatusCode
	keeps := status == http.StatusTemporaryRedirect || status == http.StatusPermanentRedirect
	if !keeps || len(via) > c.Hops || r.URL.Host != first.Host || r.URL.Scheme != first.Scheme {
		return http.ErrUseLastResponse
	}
	return nil
}

// Close ends the connections that nobody uses.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Answer is an answer that came.
type Answer struct {
	Status int
	Type   string // of its content
	Said   []byte // its beginning
	client *Client
	host   string
	wait   string // its header Retry-After
}

// Send sends a request, and reads the beginning of the answer. What is left of a longer one is not read: closing ends the connection.
func (c *Client) Send(r *http.Request) (*Answer, *Error) {
	got, err := c.http.Do(r)
	if err != nil {
		return nil, c.unreached(r.URL.Host, err)
	}
	defer got.Body.Close()
	a := &Answer{Status: got.StatusCode, client: c, host: r.URL.Host, wait: got.Header.Get("Retry-After")}
	a.Type, _, _ = mime.ParseMediaType(got.Header.Get("Content-Type"))
	a.Said, _ = io.ReadAll(io.LimitReader(got.Body, longestAnswer))
	return a, nil
}

// IsPage reports whether the answer is a page for people: something else stands at the address.
func (a *Answer) IsPage() bool { return a.Type == "text/html" || a.Type == "application/xhtml+xml" }

// Fails returns an error whose text begins with the host that answered, and its status.
func (a *Answer) Fails(text, next string) *Error {
	return &Error{Text: fmt.Sprintf("%s answered with status %d", a.host, a.Status) + text, Next: next, Status: a.Status}
}

// Refusal returns what the answer means, if its status means the same everywhere; nil: it does not.
func (a *Answer) Refusal(now time.Time) *Error {
	c := a.client
	switch {
	case a.Status/100 == 3:
		return a.Fails(": it sends callers to another place", c.Moved)
	case a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden:
		return a.Fails(": it does not let the gateway in", c.Barred)
	case a.Status == http.StatusNotFound || a.Status == http.StatusGone:
		return a.Fails(": nothing takes "+c.Takes+" there", c.Nowhere)
	case a.Status == http.StatusTooManyRequests || a.Status == http.StatusServiceUnavailable:
		e := a.Fails(": it asks to wait", c.Wait)
		e.After = RetryAfter(a.wait, now, c.Longest)
		return e
	case a.Status/100 == 5:
		return a.Fails(": it is broken", c.Broken)
	}
	return nil
}

// RetryAfter reads the header Retry-After, which holds seconds or a date; 0: it holds neither.
func RetryAfter(text string, now time.Time, longest time.Duration) time.Duration {
	if seconds, err := strconv.ParseUint(strings.TrimSpace(text), 10, 31); err == nil {
		return min(time.Duration(seconds)*time.Second, longest)
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return max(0, min(at.Sub(now), longest))
}

// Pause returns how long to wait after a failure. before is the number of failures in a row before it: the pause doubles with each. chance,
// from 0 to 1, spreads the pause over its second half, so that many callers do not come back at one moment.
func Pause(first, longest time.Duration, before int, chance float64) time.Duration {
	whole := min(first<<min(before, 20), longest)
	return whole/2 + time.Duration(chance*float64(whole/2))
}
