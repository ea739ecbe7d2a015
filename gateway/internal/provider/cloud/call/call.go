// Package call sends requests to companies that rent machines. It keeps their pace, bounds their answers, and says what went wrong in
// the words of package cloud. The key stands in one header, and nowhere else: not in a URL, an error or a log.
package call

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"muster/gateway/internal/httpserver/post"
	"muster/gateway/internal/provider/cloud"
)

const (
	perCall       = 20 * time.Second // for one try
	longestAnswer = 8 << 20          // bytes
	longestError  = 64 << 10
	retries       = 3 // of reading
	firstPause    = time.Second
	longestPause  = 15 * time.Second // a longer one is the caller's
	longestAgain  = time.Hour
)

// Account is the account that makes the calls.
type Account struct {
	URL   string // of the API; empty: the company's usual one
	Key   string
	Now   func() time.Time                                 // nil: time.Now
	Sleep func(ctx context.Context, d time.Duration) error // nil: it waits
}

// Rules are the rules of one company.
type Rules struct {
	URL   string
	Every map[string]time.Duration // least time between calls of a class
	Time  time.Duration            // for one try, its answer included; 0: 20 s
	// Longest is the greatest length of an answer in bytes; 0: 8 MiB. A list without pages is longer.
	Longest int64
	// Judge reads the JSON of an answer that is a failure. An empty kind means that the status says what it says everywhere. Only Judge can
	// say NoSuch.
	Judge func(status int, body []byte) (kind, text string)
}

// Client sends the requests of one account. It is safe for concurrent use.
type Client struct {
	account Account
	rules   Rules
	base    string
	pace    pace
	http    *http.Client
}

// New makes a Client. It sends nothing.
func New(a Account, r Rules) (*Client, error) {
	base, err := baseOf(a.URL, r.URL)
	if err != nil {
		return nil, err
	}
	if len(a.Key) < 8 || strings.ContainsFunc(a.Key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("the API key has less than 8 characters, or such that a key has not")
	}
	if a.Now == nil {
		a.Now = time.Now
	}
	if a.Sleep == nil {
		a.Sleep = sleep
	}
	if r.Time == 0 {
		r.Time = perCall
	}
	if r.Longest == 0 {
		r.Longest = longestAnswer
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 4, IdleConnTimeout: 90 * time.Second,
		MaxResponseHeaderBytes: longestError, TLSHandshakeTimeout: 10 * time.Second,
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // the key goes to nobody else
	return &Client{
		account: a, rules: r, base: base, pace: pace{every: r.Every, now: a.Now, sleep: a.Sleep},
		http: &http.Client{Transport: transport, CheckRedirect: stay},
	}, nil
}

// baseOf is an API's address without a slash at its end. A key crosses plain HTTP only inside this machine.
func baseOf(text, usual string) (string, error) {
	if text == "" {
		text = usual
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("the API's URL is not https://HOST[/PATH]")
	}
	ip := net.ParseIP(u.Hostname())
	inside := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	if u.Scheme != "https" && (u.Scheme != "http" || !inside) {
		return "", errors.New("the API's URL is not https: the key would be seen on the way")
	}
	return strings.TrimSuffix(u.String(), "/"), nil
}

// Close ends the connections that nobody uses.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Request is one call.
type Request struct {
	Method string
	Path   string // with its first slash
	Query  url.Values
	Body   any    // what is sent as JSON; nil: nothing
	Class  string // of Rules.Every
	// Failed adds to an error what only this call has in its answer, which is JSON; nil: there is nothing to add.
	Failed func(e *cloud.Error, answer []byte)
}

// Do sends a request, and calls read with the answer to a success, whose length is bounded; nil: nobody reads it. It calls read once at
// most. If the company says to come again, Do repeats a request that only reads (GET). The error is a *cloud.Error or that of ctx. After
// the latter, the request may have been sent.
func (c *Client) Do(ctx context.Context, r Request, read func(io.Reader) error) error {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = json.Marshal(r.Body); err != nil {
			return c.Fail(cloud.Refused, 0, "the request cannot be written: "+err.Error())
		}
	}
	for tries := 0; ; tries++ {
		if err := c.pace.wait(ctx, r.Class); err != nil {
			return err
		}
		err := c.once(ctx, r, body, read)
		var failed *cloud.Error
		if !errors.As(err, &failed) {
			return err
		}
		again := max(failed.Again, post.Pause(firstPause, longestPause, tries, rand.Float64()))
		if failed.Kind == cloud.Limited {
			c.pace.hold(r.Class, again)
		}
		if r.Method != http.MethodGet || !passes(failed.Status) || tries == retries || again > longestPause {
			return err
		}
		if err := c.account.Sleep(ctx, again); err != nil {
			return err
		}
	}
}

// passes is true of statuses that say: not now.
func passes(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// once sends a request one time.
func (c *Client) once(parent context.Context, r Request, body []byte, read func(io.Reader) error) error {
	ctx, cancel := context.WithTimeout(parent, c.rules.Time)
	defer cancel()
	ctx, sent := watch(ctx)
	request, err := c.request(ctx, r, body)
	if err != nil {
		return c.Fail(cloud.Refused, 0, "the request cannot be written: "+err.Error())
	}
	got, err := c.http.Do(request)
	if err != nil {
		return c.unanswered(parent, sent.Load(), err)
	}
	defer got.Body.Close()
	if got.StatusCode/100 != 2 {
		return c.refusal(r, got)
	}
	if isPage(got.Header) {
		return c.Fail(cloud.Unclear, got.StatusCode, "a page for people came, and not the API's answer")
	}
	if read == nil {
		_, _ = io.CopyN(io.Discard, got.Body, longestError) // so that the connection can be used again
		return nil
	}
	answer := &bounded{r: got.Body, left: c.rules.Longest, most: c.rules.Longest}
	if err := read(answer); err != nil {
		return c.unread(parent, got.StatusCode, err)
	}
	return nil
}

// request makes the request of HTTP.
func (c *Client) request(ctx context.Context, r Request, body []byte) (*http.Request, error) {
	at := c.base + r.Path
	if len(r.Query) > 0 {
		at += "?" + r.Query.Encode()
	}
	var sent io.Reader // nil: there is no body
	if r.Body != nil {
		sent = bytes.NewReader(body)
	}
	request, err := http.NewRequestWithContext(ctx, r.Method, at, sent)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.account.Key)
	request.Header.Set("Accept", "application/json")
	if r.Body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	return request, nil
}

// errLarge is of an answer that has no end.
var errLarge = errors.New("the answer is longer than")

// bounded reads so many bytes at most. More is an error, not an end.
type bounded struct {
	r          io.Reader
	left, most int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left == 0 {
		var one [1]byte
		if n, err := io.ReadFull(b.r, one[:]); n == 0 {
			return 0, err
		}
		return 0, fmt.Errorf("%w %d MiB", errLarge, b.most>>20)
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
