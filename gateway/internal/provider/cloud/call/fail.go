package call

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"

	"muster/agent/wire"
	"muster/gateway/internal/httpserver/post"
	"muster/gateway/internal/provider/cloud"
)

const longestText = 300 // bytes of what a company says

// Fail returns an error with a text that is safe to show. An error that a company hides in a success goes through it too.
func (c *Client) Fail(kind string, status int, text string) *cloud.Error {
	return &cloud.Error{Kind: kind, Status: status, Text: Plain(text, c.account.Key)}
}

// watch tells whether a connection was there to send a request on. Before that, nothing was sent.
func watch(ctx context.Context) (context.Context, *atomic.Bool) {
	sent := new(atomic.Bool)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }}), sent
}

// unanswered is a request that got no answer.
func (c *Client) unanswered(parent context.Context, sent bool, err error) error {
	if parent.Err() != nil {
		return parent.Err()
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err // without the URL
	}
	kind, text := cloud.Unclear, "no answer came: "
	if !sent {
		kind, text = cloud.Unreached, "the API cannot be reached: "
	}
	return c.Fail(kind, 0, text+c.inTime(err))
}

// unread is the answer to a success that was not understood. An error of the reader that is *cloud.Error already says more.
func (c *Client) unread(parent context.Context, status int, err error) error {
	var told *cloud.Error
	switch {
	case parent.Err() != nil:
		return parent.Err()
	case errors.As(err, &told):
		return told
	}
	return c.Fail(cloud.Unclear, status, "the answer cannot be read: "+c.inTime(err))
}

// inTime says it plainly when the time is over.
func (c *Client) inTime(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "it took longer than " + c.rules.Time.String()
	}
	return err.Error()
}

// refusal is an answer that is not a success.
func (c *Client) refusal(r Request, got *http.Response) *cloud.Error {
	body, err := io.ReadAll(io.LimitReader(got.Body, longestError))
	kind, text := byStatus(got.StatusCode), http.StatusText(got.StatusCode)
	readable := err == nil && !isPage(got.Header) && json.Valid(body)
	if !readable {
		kind = unreadable(kind)
	} else if c.rules.Judge != nil {
		own, said := c.rules.Judge(got.StatusCode, body)
		kind, text = cmp.Or(own, kind), cmp.Or(said, text)
	}
	e := c.Fail(kind, got.StatusCode, text)
	e.Again = post.RetryAfter(got.Header.Get("Retry-After"), c.account.Now(), longestAgain)
	if readable && r.Failed != nil {
		r.Failed(e, body)
	}
	return e
}

// byStatus is what a status says everywhere. That nothing is there it cannot say: 404 is a wrong address too. Nor does 403 say anything of
// the key: what stands before a company's API says it too. Judge knows the company's own words.
func byStatus(status int) string {
	switch {
	case status == http.StatusUnauthorized:
		return cloud.KeyRefused
	case status == http.StatusTooManyRequests:
		return cloud.Limited
	case status/100 == 5 || status == http.StatusForbidden || status == http.StatusRequestTimeout:
		return cloud.Unclear
	}
	return cloud.Refused
}

// unreadable is a kind for an answer that has no JSON. A limit is believed, since it may come as plain text. Any other answer may be a
// proxy's on the way, which says nothing of the key and of what was done.
func unreadable(kind string) string {
	if kind == cloud.Limited {
		return kind
	}
	return cloud.Unclear
}

// isPage is true for a page for people.
func isPage(h http.Header) bool {
	kind, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return kind == "text/html" || kind == "application/xhtml+xml"
}

var (
	// Words after which a secret stands: what follows them is not shown.
	beforeSecret = regexp.MustCompile(`(?i)((onstart|\w*env|user_data|dockerargs|docker_login|\w*token|api_?key|passw(or)?d|\w*secret|` +
		`authorization)["'\\]*\s*[:={\[]|bearer\s)`)
	// What looks like a token, wherever it stands.
	likeSecret = regexp.MustCompile(`ms[abek]_[A-Za-z0-9_.]+|[A-Za-z0-9_+/=]{32,}`)
)

// Plain makes a short line of a company's text, without the key and without what looks like a secret.
func Plain(text, key string) string {
	if key != "" {
		text = strings.ReplaceAll(text, key, "***")
	}
	text = wire.Plain(text, 4*longestText)
	if at := beforeSecret.FindStringIndex(text); at != nil {
		text = text[:at[0]] + "***"
	}
	text = likeSecret.ReplaceAllString(text, "***")
	if key != "" {
		text = strings.ReplaceAll(text, key, "***")
	}
	return wire.Cut(text, longestText)
}
