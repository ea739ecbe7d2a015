package region

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"muster/gateway/internal/httpserver/post"
)

const (
	readTime  = time.Minute      // for one try, its answer included
	listTime  = 10 * time.Minute // MAAS makes a list of thousands of machines in minutes
	writeTime = 2 * time.Minute  // MAAS may wait 15 minutes for a power control; the change is made by then

	longestError = 64 << 10 // bytes
	retries      = 3        // of reading
	firstPause   = time.Second
	longestPause = 15 * time.Second // a longer one is the caller's
	longestAgain = time.Hour
)

const pathMachines = "machines/"

// request is one call. It reads unless it has a form.
type request struct {
	path  string // below the API, with its last slash
	op    string // MAAS's name of what is asked; empty: none
	query url.Values
	form  url.Values // nil: the request only reads
	time  time.Duration
	bare  bool // it goes without the key
}

// name is what the request asks, for errors.
func (r request) name() string {
	what := r.op
	if what == "" {
		what = map[bool]string{true: "read", false: "write"}[r.form == nil]
	}
	return strings.TrimSpace(what + " " + strings.TrimSuffix(r.path, "/"))
}

// limit is how long one try of a request may take.
func (r request) limit() time.Duration {
	switch {
	case r.time != 0:
		return r.time
	case r.form != nil:
		return writeTime
	}
	return readTime
}

// do sends a request, and has read take the answer to a success. What changes something is sent once. What reads is sent again while MAAS
// says that it cannot answer now; nothing has been read by then. An error is *Error, or that of a function which took rows.
func (c *Client) do(ctx context.Context, r request, read func(*http.Response) error) error {
	for tries := 0; ; tries++ {
		err := c.try(ctx, r, read)
		var own callerError
		if errors.As(err, &own) {
			return own.error
		}
		var failed *Error
		if r.form != nil || !errors.As(err, &failed) || !failed.again || tries == retries {
			return err
		}
		again := max(failed.Again, post.Pause(firstPause, longestPause, tries, rand.Float64()))
		if again > longestPause {
			return err
		}
		if over := c.sleep(ctx, again); over != nil {
			failed.cause = over
			return failed
		}
	}
}

// try sends a request one time.
func (c *Client) try(parent context.Context, r request, read func(*http.Response) error) error {
	limit := r.limit()
	ctx, cancel := context.WithTimeoutCause(parent, limit, fmt.Errorf("it took longer than %s", limit))
	defer cancel()
	sent := new(atomic.Bool) // before there is a connection, nothing is
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	asked, err := c.request(traced, r)
	if err != nil {
		return c.fail(r, Unreached, 0, "the request cannot be written: "+err.Error())
	}
	got, err := c.http.Do(asked)
	if err != nil {
		return c.unanswered(parent.Err(), r, sent.Load(), inTime(ctx, err))
	}
	defer got.Body.Close()
	if got.StatusCode/100 != 2 {
		return c.refusal(r, got)
	}
	if isPage(got.Header) {
		kind := NotMAAS
		if r.form != nil {
			kind = Unclear // a page may stand in the place of any answer
		}
		return c.fail(r, kind, got.StatusCode, textPage)
	}
	err = read(got)
	var own callerError
	if err == nil || errors.As(err, &own) {
		return err
	}
	return c.unread(parent.Err(), r, got.StatusCode, inTime(ctx, err))
}

// inTime says it plainly when the time is over.
func inTime(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// request makes the request of HTTP. Forms are URL-encoded: MAAS takes no JSON, and a form's + is %2B, so that base64 arrives as it is.
func (c *Client) request(ctx context.Context, r request) (*http.Request, error) {
	query := url.Values{}
	for name, values := range r.query {
		query[name] = values
	}
	if r.op != "" {
		query.Set("op", r.op)
	}
	at, method := c.base+r.path, http.MethodGet
	if len(query) > 0 {
		at += "?" + query.Encode()
	}
	var body io.Reader // nil: there is none
	if r.form != nil {
		method, body = http.MethodPost, strings.NewReader(r.form.Encode())
	}
	asked, err := http.NewRequestWithContext(ctx, method, at, body)
	if err != nil {
		return nil, err
	}
	if !r.bare {
		asked.Header.Set("Authorization", c.sign())
	}
	asked.Header.Set("Accept", "application/json")
	asked.Header.Set("User-Agent", "muster-gateway")
	if r.form != nil {
		asked.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return asked, nil
}
