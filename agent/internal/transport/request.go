package transport

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
)

// kindJSON is the Content-Type of most bodies.
const kindJSON = "application/json"

// Request is one call to a route of the node. Something without an end, such as a log that goes on, takes one call after another. Each of
// them is proven by itself.
type Request struct {
	Path    string        // with its query
	Kind    string        // Content-Type of the body; empty: there is none, and the method is GET instead of POST
	Body    []byte        // must not change until the call has returned
	Timeout time.Duration // of one exchange with its connecting; 0: the client's
	Most    int64         // bytes of an answer in memory; 0: wire.MaxBody. A larger one is an error
	Memory  []byte        // the answer may be in it; nil: it is in memory of its own
	Into    *Download     // takes an answer with status 200 or 206; nil: every answer comes in memory
}

// outgoing is a request as an exchanger sends it, with all defaults filled in.
type outgoing struct {
	Request
	header http.Header
	nonce  string              // of its signature; empty: it is not signed, and the connection has to prove the answer
	keys   []ed25519.PublicKey // that prove the answer
}

// outgoing fills in the defaults. The header is new for each exchange, because signing writes into it.
func (c *Client) outgoing(q Request) *outgoing {
	o := &outgoing{Request: q, header: http.Header{}}
	o.Timeout = cmp.Or(q.Timeout, c.cfg.Timeout)
	o.Most = cmp.Or(q.Most, wire.MaxBody)
	if o.Kind != "" {
		o.header.Set("Content-Type", o.Kind)
	}
	return o
}

func (o *outgoing) method() string {
	if o.Kind == "" {
		return http.MethodGet
	}
	return http.MethodPost
}

// get is a request for something that is open to everybody.
func (c *Client) get(path string) *outgoing { return c.outgoing(Request{Path: path}) }

// streams reports whether the body of an answer with this head goes to the download: it has to be proven already.
func (o *outgoing) streams(a Answer) bool {
	switch {
	case o.Into == nil, a.Status != http.StatusOK && a.Status != http.StatusPartialContent:
		return false
	case o.nonce == "":
		return o.Into.open || a.chained
	}
	return o.proves(a, o.Into.digest())
}

// proves reports whether the signature of an answer is the gateway's, about a content with this digest.
func (o *outgoing) proves(a Answer, digest string) bool {
	return slices.ContainsFunc(o.keys, func(key ed25519.PublicKey) bool {
		return sign.VerifyAnswerDigest(a.Header.Get(wire.HeaderAnswer), key, o.nonce, a.Status, digest) == nil
	})
}

// take reads the body of an answer to its end. One whose length is announced is read into one buffer.
func (o *outgoing) take(a *Answer, body io.Reader, announced int64) error {
	if o.streams(*a) {
		if err := o.Into.begin(*a); err != nil {
			return err
		}
		a.streamed = true
		_, err := io.Copy(o.Into, body)
		return err
	}
	content := bytes.NewBuffer(o.Memory[:0])
	content.Grow(int(min(max(announced, 0), o.Most)) + bytes.MinRead)
	if _, err := content.ReadFrom(io.LimitReader(body, o.Most+1)); err != nil {
		return err
	}
	a.Body = content.Bytes()
	return o.fits(len(a.Body))
}

// fits checks the size of an answer in memory.
func (o *outgoing) fits(size int) error {
	if int64(size) > o.Most {
		return fmt.Errorf("larger than %d bytes: %w", o.Most, errTooLarge)
	}
	return nil
}
