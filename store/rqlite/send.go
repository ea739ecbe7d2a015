package rqlite

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"muster/store/engine"
)

const (
	mostAnswer = 256 << 20 // bytes of an answer
	mostText   = 200       // bytes of one that is an error's text
)

// failure is why a node gave no answer to go by.
type failure struct {
	err     error
	unknown bool // it may have been done all the same
	final   bool // no node would answer otherwise
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// once asks one node. The error is a *failure.
func (db *DB) once(ctx context.Context, path string, body []byte, statements int) (reply, error) {
	at := int(db.next.Load()) % len(db.base)
	asking, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	r, err := db.ask(asking, db.base[at]+path, body, statements)
	if err != nil && !errors.Is(ctx.Err(), context.Canceled) { // a caller who goes says nothing about the node
		db.failures.Add(1)
		db.next.CompareAndSwap(int64(at), int64((at+1)%len(db.base)))
	}
	return r, err
}

func (db *DB) ask(ctx context.Context, address string, body []byte, statements int) (reply, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return reply{}, &failure{err: err, final: true}
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := db.do(request)
	if err != nil {
		return reply{}, &failure{err: err, unknown: !unread(err)}
	}
	defer response.Body.Close()
	if err := tooOld(response.Header); err != nil {
		return reply{}, &failure{err: err, unknown: true, final: true}
	}
	raw, err := io.ReadAll(io.LimitReader(response.Body, mostAnswer+1))
	switch {
	case err != nil:
		return reply{}, &failure{err: err, unknown: true}
	case len(raw) > mostAnswer:
		return reply{}, &failure{err: errors.New("rqlite's answer is too long"), unknown: true, final: true}
	}
	if failed := faulty(response.StatusCode, raw); failed != nil {
		return reply{}, failed
	}
	r, err := decode(raw, statements)
	switch {
	case err != nil: // a page of something in between
		return r, &failure{err: err, unknown: true}
	case r.Error != "": // of Raft, or of the way from that node to the leader
		return r, &failure{err: errors.New("rqlite: " + r.Error), unknown: true}
	}
	return r, nil
}

// faulty is what an answer says that is none of the database's; nil: it is one.
func faulty(status int, raw []byte) error {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return &failure{err: errors.New("rqlite refuses this user or certificate"), final: true}
	case status == http.StatusBadRequest, status == http.StatusRequestEntityTooLarge: // what answers so has done nothing
		return &failure{err: fmt.Errorf("rqlite refuses the request with status %d: %.200q", status, raw), final: true}
	case status == http.StatusServiceUnavailable && bytes.Contains(raw, []byte("leader not found")):
		return &failure{err: errors.New("rqlite has no leader")}
	case status != http.StatusOK:
		return &failure{err: fmt.Errorf("rqlite answered with status %d: %.200q", status, raw), unknown: true}
	}
	return nil
}

func newClient(o Options) *http.Client {
	dialer := net.Dialer{Timeout: connectTime}
	var through http.RoundTripper = &http.Transport{DialContext: unsent(dialer.DialContext),
		DialTLSContext:      unsent((&tls.Dialer{NetDialer: &dialer, Config: o.TLS}).DialContext),
		MaxIdleConnsPerHost: 32, IdleConnTimeout: time.Minute}
	if o.Transport != nil {
		through = o.Transport
	}
	// A redirect would carry the password to whoever a node names.
	return &http.Client{Transport: through, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// do sends a request with what proves who asks.
func (db *DB) do(request *http.Request) (*http.Response, error) {
	if db.o.User != "" {
		request.SetBasicAuth(db.o.User, db.o.Password)
	}
	return db.http.Do(request)
}

// unsentError is of a connection that was not made, so that nothing went over it.
type unsentError struct{ error }

func (e unsentError) Unwrap() error { return e.error }

type dial = func(ctx context.Context, network, address string) (net.Conn, error)

// unsent marks the errors of new connections, the handshake of TLS included.
func unsent(make dial) dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*connectTime)
		defer cancel()
		c, err := make(ctx, network, address)
		if err != nil {
			return nil, unsentError{err}
		}
		return c, nil
	}
}

// unread tells whether a node has certainly not read a request. That is so if there was no connection. With TLS 1.3 a client has made its
// connection before it hears that its certificate is refused: the alert comes in place of an answer, and a node that sends such an alert
// reads no request. Where it comes as a connection that is cut, nothing is known.
func unread(err error) bool {
	var none unsentError
	var op *net.OpError
	if errors.As(err, &none) {
		return true
	}
	return errors.As(err, &op) && (op.Op == "dial" || op.Op == "remote error" && strings.Contains(op.Err.Error(), "certificate"))
}

// one runs a statement outside of a batch, which may be done twice: see settle.
func (db *DB) one(ctx context.Context, st engine.Statement, within time.Duration) (reply, error) {
	lines, err := encode(st)
	if err != nil {
		return reply{}, err
	}
	return db.settle(ctx, execute, lines, within)
}

// settle asks the nodes one after the other until one of them answers, for so long at most; 0: until ctx or the database ends. Whoever asks
// so must not mind that a request is done twice.
func (db *DB) settle(ctx context.Context, path string, lines [][]any, within time.Duration) (reply, error) {
	body, err := json.Marshal(lines)
	if err != nil {
		return reply{}, err
	}
	limit := time.Now().Add(within)
	for {
		r, err := db.onceCurrent(ctx, path, body, len(lines))
		var failed *failure
		switch {
		case err == nil:
			return r, nil
		case errors.As(err, &failed) && failed.final:
			return r, err
		case ctx.Err() != nil:
			return r, errors.Join(ctx.Err(), err)
		case within > 0 && !time.Now().Before(limit):
			return r, err
		}
		if err := db.pause(ctx, retryPause); err != nil {
			return r, err
		}
	}
}

func (db *DB) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-db.open.Done():
		return engine.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}
