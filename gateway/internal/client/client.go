// Package client calls the admin API, whose shapes are in package api.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
)

// Client calls the admin API. It is safe for concurrent use. A refusal comes back as *wire.ErrorDetail; every other error is about the way
// to the gateway, and says what to check.
type Client struct {
	BaseURL string // without a slash at its end
	Token   string // API token; empty on the socket
	HTTP    *http.Client
	explain func(error) error // adds what to do about a connection that failed; nil: nothing
	again   time.Duration     // how long after a cut connection a request that only reads is made again
}

// longestAnswer is what a client takes, in bytes: a page of 1000 nodes with eight GPUs each is some 5 MB.
const longestAnswer = 64 << 20

// Get reads what a path gives. The filter's fields are the query, by their names in JSON; nil: there is none.
func Get[T any](ctx context.Context, c *Client, path string, filter any) (T, error) {
	return Ask[T](ctx, c, http.MethodGet, path, filter, nil)
}

// Send has a route do something; body may be nil.
func Send[T any](ctx context.Context, c *Client, method, path string, body any) (T, error) {
	return Ask[T](ctx, c, method, path, nil, body)
}

// Drop deletes what a path names.
func Drop(ctx context.Context, c *Client, path string, filter any) error {
	_, err := Ask[struct{}](ctx, c, http.MethodDelete, path, filter, nil)
	return err
}

// Ask sends a request for JSON: path is a path of package api, filter becomes the query, body is sent as JSON. Both may be nil.
func Ask[T any](ctx context.Context, c *Client, method, path string, filter, body any) (out T, err error) {
	q, err := query(filter)
	if err == nil {
		err = c.do(ctx, method, path, q, body, &out)
	}
	return out, err
}

// Raw holds an answer in two forms: the bytes as the gateway sent them, with fields that this client does not know, and the decoded value.
type Raw[T any] struct {
	Sent json.RawMessage
	Read T
}

// MarshalJSON is encoding/json's: as it was sent.
func (r Raw[T]) MarshalJSON() ([]byte, error) { return r.Sent, nil }

// UnmarshalJSON is encoding/json's.
func (r *Raw[T]) UnmarshalJSON(raw []byte) error {
	r.Sent = bytes.Clone(raw)
	return json.Unmarshal(raw, &r.Read)
}

// query writes a filter's fields, and lists with commas.
func query(filter any) (url.Values, error) {
	raw, err := json.Marshal(filter)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&fields); err != nil {
		return nil, err
	}
	q := url.Values{}
	for name, value := range fields {
		values := []string{}
		list, several := value.([]any)
		if !several {
			list = []any{value}
		}
		for _, one := range list {
			values = append(values, fmt.Sprint(one))
		}
		q.Set(name, strings.Join(values, ","))
	}
	return q, nil
}

// do makes a request and reads its answer; in and out may be nil. Only a GET is made again after a cut: nobody knows whether the gateway
// has done what a cut request asked for.
func (c *Client) do(ctx context.Context, method, path string, q url.Values, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = sign.Encode(in); err != nil {
			return err
		}
	}
	address := c.address(path, q)
	answer, err := c.send(ctx, method, address, body)
	if method == http.MethodGet && wasCut(err) && c.rest(ctx) == nil {
		answer, err = c.send(ctx, method, address, body)
	}
	if err != nil {
		return c.failed(err)
	}
	return read(answer, out)
}

func (c *Client) address(path string, q url.Values) string {
	address := c.BaseURL + wire.PrefixAdmin + path
	if len(q) > 0 {
		address += "?" + q.Encode()
	}
	return address
}

// long makes a request for an answer of another kind than JSON. The answer may take as long as within says, 0 without a bound. The
// caller reads and closes its body.
func (c *Client) long(ctx context.Context, path string, q url.Values, kind string, within time.Duration) (*http.Response, error) {
	r, err := c.request(ctx, http.MethodGet, c.address(path, q), nil)
	if err != nil {
		return nil, err
	}
	patient := *c.HTTP
	patient.Timeout = within
	response, err := patient.Do(r)
	if err != nil {
		return nil, c.failed(err)
	}
	if got, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); response.StatusCode == http.StatusOK && got == kind {
		return response, nil
	}
	refusal, err := take(response)
	if err == nil {
		err = read(refusal, nil)
	}
	if err == nil {
		err = errors.New("the gateway's answer is of another kind than this version expects, " + kind)
	}
	return nil, err
}

// send makes one request, and reads the whole answer.
func (c *Client) send(ctx context.Context, method, address string, body []byte) (*answer, error) {
	r, err := c.request(ctx, method, address, body)
	if err != nil {
		return nil, err
	}
	response, err := c.HTTP.Do(r)
	if err != nil {
		return nil, err
	}
	return take(response)
}

func (c *Client) request(ctx context.Context, method, address string, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	return r, nil
}

// wasCut tells that a connection ended before the answer did, as when the gateway restarts. A request that only reads may then be made
// again: once, because what cuts twice is no restart.
func wasCut(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF)
}

// rest gives a gateway that restarts the time to listen again.
func (c *Client) rest(ctx context.Context) error {
	timer := time.NewTimer(c.again)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// failed adds what to do about the way to the gateway. An answer that broke off needs no such hint.
func (c *Client) failed(err error) error {
	var broken *brokenOff
	if c.explain == nil || errors.As(err, &broken) {
		return err
	}
	return c.explain(err)
}

// answer is what came back: from the gateway, or from something between.
type answer struct {
	status int
	kind   string // the media type
	host   string
	body   []byte
}

func take(r *http.Response) (*answer, error) {
	defer r.Body.Close()
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	body := bytes.NewBuffer(make([]byte, 0, min(max(r.ContentLength, 0), 2*wire.MaxPiece)+bytes.MinRead)) // a piece is read into one buffer
	if _, err := body.ReadFrom(io.LimitReader(r.Body, longestAnswer)); err != nil {
		return nil, &brokenOff{err}
	}
	return &answer{status: r.StatusCode, kind: kind, host: r.Request.URL.Host, body: body.Bytes()}, nil
}

// brokenOff says that the gateway's answer had no end. Since the gateway was reached, no hint at the way to it is needed.
type brokenOff struct{ err error }

func (e *brokenOff) Error() string { return "the gateway's answer broke off: " + e.err.Error() }

func (e *brokenOff) Unwrap() error { return e.err }

// read turns an answer into out or an error. An answer that is not muster's JSON came from something else, such as a proxy.
func read(a *answer, out any) error {
	ok := a.status/100 == 2
	if a.kind == "application/json" && !ok {
		var refusal wire.Error
		if json.Unmarshal(a.body, &refusal) == nil && refusal.Error.Code != "" {
			if refusal.RequestID != "" {
				refusal.Error.Message += ", request id " + refusal.RequestID
			}
			return &refusal.Error
		}
	}
	if a.kind != "application/json" || !ok {
		const text = "not muster's admin API: %s answered with status %d and %q; is the URL right, and does it lead to the gateway itself?"
		return fmt.Errorf(text, a.host, a.status, a.kind)
	}
	if out == nil {
		return nil
	}
	return understand(a.body, out)
}

func understand(raw []byte, out any) error {
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("the gateway's answer is not as this version expects; is the gateway of another version? "+
			"Its path /version says: %w", err)
	}
	return nil
}

// IsNotFound reports whether an error is the gateway's word that something does not exist.
func IsNotFound(err error) bool {
	var detail *wire.ErrorDetail
	return errors.As(err, &detail) && detail.Code == wire.CodeNotFound
}
