package region

import (
	"cmp"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"muster/gateway/internal/httpserver/post"
)

// Kind says what went wrong, as far as callers must tell it apart.
type Kind string

// Kinds of errors. Nothing was done, but for Unclear.
const (
	KeyRefused Kind = "key_refused" // MAAS does not take the key, or does not see it
	Clock      Kind = "clock"       // MAAS does not take the time of the request: its clock is more than five minutes from ours
	Forbidden  Kind = "forbidden"   // this user may not, or the machine is locked
	NoSuch     Kind = "no_such"     // MAAS says that it has no such machine or tag
	Conflict   Kind = "conflict"    // the machine's state does not allow it
	NoMachine  Kind = "no_machine"  // the machine cannot be acquired: it is not ready, or somebody else has it
	Refused    Kind = "refused"     // MAAS says no; its text says why
	Unclear    Kind = "unclear"     // no answer, or none that can be read: it may have been done, and the state must be read again
	Unreached  Kind = "unreached"   // nothing was sent
	NotMAAS    Kind = "not_maas"    // something else answers at the URL: a page for people, or a redirect
)

// Error is a failed call.
type Error struct {
	Op     string // what was asked, such as deploy abc123
	Kind   Kind
	Status int           // of HTTP; 0: there was no answer
	Text   string        // what MAAS says, without anything secret
	Again  time.Duration // MAAS asks to wait so long; 0: it does not

	cause error // the end of the context, or nil
	again bool  // a read may be sent again
}

// Error says what was asked and what MAAS said.
func (e *Error) Error() string {
	text := e.Text
	if e.Status != 0 {
		text = fmt.Sprintf("HTTP %d: %s", e.Status, text)
	}
	return fmt.Sprintf("MAAS, %s: %s (%s)", e.Op, text, e.Kind)
}

// Unwrap returns the end of the caller's context, if that ended the call.
func (e *Error) Unwrap() error { return e.cause }

// KindOf returns the kind of an error of this package, and empty for others.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

// NoImage reports whether MAAS has no image of the system that a deployment asked for: asking again changes nothing.
func NoImage(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == Refused && (strings.Contains(e.Text, "is not a valid distro_series") ||
		strings.HasPrefix(e.Text, "Deployment operating system ") && strings.Contains(e.Text, " is unavailable for "))
}

// fail makes an error whose text is safe to show.
func (c *Client) fail(r request, kind Kind, status int, text string) *Error {
	return &Error{Op: r.name(), Kind: kind, Status: status, Text: c.plain(text)}
}

// unanswered is a request that got no answer. After its time, or without a connection, the text of the error says enough.
func (c *Client) unanswered(parent error, r request, sent bool, err error) *Error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err // without the URL
	}
	kind, text := Unclear, "no answer came: "
	if !sent {
		kind, text = Unreached, "MAAS cannot be reached: "
	}
	text += err.Error()
	if untrusted := (x509.UnknownAuthorityError{}); errors.As(err, &untrusted) {
		text += ": where the CA is one of your own, --maas-ca FILE names it"
	}
	e := c.fail(r, kind, 0, text)
	e.cause = parent
	return e
}

// unread is the answer to a success that was not understood.
func (c *Client) unread(parent error, r request, status int, err error) *Error {
	e := c.fail(r, Unclear, status, "the answer cannot be read: "+err.Error())
	e.cause = parent
	return e
}

// refusal is an answer that is not a success.
func (c *Client) refusal(r request, got *http.Response) *Error {
	body, err := io.ReadAll(io.LimitReader(got.Body, longestError))
	wait := got.Header.Get("Retry-After")
	a := answer{status: got.StatusCode, page: isPage(got.Header), asksToWait: wait != "", text: say(body)}
	kind, text := a.judge(r)
	if err != nil {
		kind, text = Unclear, "the answer ends early" // half a text may mean something else
	}
	if a.status/100 == 3 {
		text = strings.Replace(text, "another place", cmp.Or(target(got), "another place"), 1)
	}
	e := c.fail(r, kind, a.status, text)
	e.Again = post.RetryAfter(wait, c.now(), longestAgain)
	e.again = a.status == http.StatusBadGateway || a.status == http.StatusServiceUnavailable || a.status/100 == 4 && kind == Unclear
	return e
}

// target says where a redirect leads, without a query.
func target(got *http.Response) string {
	to, err := got.Location()
	if err != nil {
		return ""
	}
	return (&url.URL{Scheme: to.Scheme, Host: to.Host, Path: to.Path}).String()
}

// say is the text of an error: lines, or {"field":["line"]} of a form.
func say(body []byte) string {
	var form map[string][]string
	if json.Unmarshal(body, &form) != nil {
		return strings.TrimSpace(string(body))
	}
	var lines []string
	for _, field := range slices.Sorted(maps.Keys(form)) {
		text := strings.Join(form[field], "; ")
		if field != "__all__" {
			text = field + ": " + text
		}
		lines = append(lines, text)
	}
	return strings.Join(lines, "; ")
}

// isPage is true for a page for people.
func isPage(h http.Header) bool {
	kind, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return kind == "text/html" || kind == "application/xhtml+xml"
}
