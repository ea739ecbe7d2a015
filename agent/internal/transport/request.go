package transport

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/http"
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
	Body    *Body         // nil: none, and the method is GET instead of POST
	Timeout time.Duration // of one exchange with its connecting; 0: the client's
	Most    int64         // bytes of an answer in memory; 0: wire.MaxBody. A larger one is an error
	Memory  []byte        // the answer may be in it; nil: it is in memory of its own
	Into    *Download     // takes an answer with status 200 or 206; nil: every answer comes in memory
}

// outgoing is a request as an exchanger sends it.
type outgoing struct {
	method  string
	path    string
	header  http.Header
	body    *Body
	timeout time.Duration
	most    int64
	memory  []byte
	into    *Download
	signed  bool
}

// outgoing fills in the defaults. The header is new for each exchange, because signing writes into it.
func (c *Client) outgoing(q Request) *outgoing {
	o := &outgoing{
		method: http.MethodGet, path: q.Path, header: http.Header{}, body: q.Body, memory: q.Memory, into: q.Into,
		timeout: cmp.Or(q.Timeout, c.cfg.Timeout), most: cmp.Or(q.Most, wire.MaxBody),
	}
	if o.body != nil {
		o.method = http.MethodPost
		o.header.Set("Content-Type", o.body.kind)
	}
	return o
}

// get is a request for something that is open to everybody.
func (c *Client) get(path string) *outgoing { return c.outgoing(Request{Path: path}) }

// streams reports whether the body of an answer with this head goes to the download. An answer that could not be proven at the end does
// not. To a signed request the head must carry the proof, and to an unsigned one the connection must be the proof.
func (o *outgoing) streams(a Answer) bool {
	switch {
	case o.into == nil, a.Status != http.StatusOK && a.Status != http.StatusPartialContent:
		return false
	case o.into.open:
		return true
	case o.signed:
		return a.Header.Get(wire.HeaderAnswer) != ""
	}
	return a.chained
}

// take reads the body of an answer to its end. One whose length is announced is read into one buffer.
func (o *outgoing) take(a *Answer, body io.Reader, announced int64) error {
	if o.streams(*a) {
		if err := o.into.begin(*a, o.signed); err != nil {
			return err
		}
		if _, err := io.Copy(o.into, body); err != nil {
			return err
		}
		return o.taken(a)
	}
	content := bytes.NewBuffer(o.memory[:0])
	content.Grow(int(min(max(announced, 0), o.most)) + bytes.MinRead)
	if _, err := content.ReadFrom(io.LimitReader(body, o.most+1)); err != nil {
		return err
	}
	a.Body = content.Bytes()
	return o.fits(len(a.Body))
}

// taken ends an answer that went to the download.
func (o *outgoing) taken(a *Answer) error {
	if !o.into.whole(*a) {
		return io.ErrUnexpectedEOF
	}
	a.digest = o.into.digest()
	return nil
}

// fits checks the size of an answer in memory.
func (o *outgoing) fits(size int) error {
	if int64(size) > o.most {
		return fmt.Errorf("larger than %d bytes: %w", o.most, errTooLarge)
	}
	return nil
}

// contentDigest is the digest that the proof of an answer covers.
func (a Answer) contentDigest() string {
	if a.digest != "" {
		return a.digest
	}
	return sign.ContentDigest(a.Body)
}
