// Package inside lets a client of HTTP call a handler in the same process.
package inside

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// Transport calls a handler.
type Transport struct{ Handler http.Handler }

// RoundTrip answers when the header is there. The body comes as it is read, so that none is in memory whole. Who closes it early ends the
// handler's work.
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	from, to := io.Pipe()
	w := &flow{own: http.Header{}, to: to, begun: make(chan struct{})}
	go w.run(t.Handler, r)
	<-w.begun
	return &http.Response{StatusCode: w.status, Header: w.header, Body: answered{from}, Request: r, ProtoMajor: 1, ProtoMinor: 1}, nil
}

// flow is an answer on its way from a handler.
type flow struct {
	own    http.Header // the handler's, which it may change at any time
	to     *io.PipeWriter
	once   sync.Once
	begun  chan struct{} // closed when the fields below are set
	status int
	header http.Header
}

// panicked is the end of an answer whose handler has panicked. It goes on in the goroutine that reads the answer, which somebody guards.
type panicked struct{ fault any }

func (p panicked) Error() string { return fmt.Sprint("the handler panicked: ", p.fault) }

func (w *flow) run(handler http.Handler, r *http.Request) {
	var end error // nil: io.EOF
	defer func() {
		switch fault := recover(); {
		case fault == http.ErrAbortHandler:
			end = errors.New("the answer broke off")
		case fault != nil:
			end = panicked{fault}
		}
		w.WriteHeader(http.StatusOK)
		w.to.CloseWithError(end)
	}()
	handler.ServeHTTP(w, r)
}

func (w *flow) Header() http.Header { return w.own }

func (w *flow) WriteHeader(status int) {
	w.once.Do(func() {
		w.status = status
		w.header = w.own.Clone()
		close(w.begun)
	})
}

func (w *flow) Write(text []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.to.Write(text)
}

// answered is the body of such an answer.
type answered struct{ *io.PipeReader }

func (a answered) Read(into []byte) (int, error) {
	n, err := a.PipeReader.Read(into)
	if p, ok := err.(panicked); ok {
		panic(p.fault)
	}
	return n, err
}
