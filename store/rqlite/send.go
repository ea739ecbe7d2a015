package rqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
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
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	r, err := db.ask(ctx, db.base[at]+path, body, statements)
	if err != nil {
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
		return reply{}, &failure{err: err, unknown: !refused(err)}
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
	case response.StatusCode == http.StatusUnauthorized, response.StatusCode == http.StatusForbidden:
		return reply{}, &failure{err: errors.New("rqlite refuses this user or certificate"), final: true}
	case response.StatusCode == http.StatusServiceUnavailable && bytes.Contains(raw, []byte("leader not found")):
		return reply{}, &failure{err: errors.New("rqlite has no leader")}
	case response.StatusCode != http.StatusOK:
		return reply{}, &failure{err: fmt.Errorf("rqlite answered with status %d: %.200q", response.StatusCode, raw), unknown: true}
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

// do sends a request with what proves who asks.
func (db *DB) do(request *http.Request) (*http.Response, error) {
	if db.o.User != "" {
		request.SetBasicAuth(db.o.User, db.o.Password)
	}
	return db.http.Do(request)
}

// refused tells whether a request has certainly not left this machine.
func refused(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// settle asks the nodes one after the other until one of them answers, for so long at most; 0: until ctx or the database ends. Whoever asks
// so must not mind that a request is done twice.
func (db *DB) settle(ctx context.Context, path string, statements []engine.Statement, within time.Duration) (reply, error) {
	body, err := encode(statements)
	if err != nil {
		return reply{}, err
	}
	limit := time.Now().Add(within)
	for {
		r, err := db.onceCurrent(ctx, path, body, len(statements))
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
	case <-db.closing:
		return engine.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}
