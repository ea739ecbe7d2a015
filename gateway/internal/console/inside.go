package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/account"
	"muster/gateway/internal/account/login"
	"muster/gateway/internal/client"
)

// connect gives the visitor a client of the admin API, which runs its handler here.
func (v *visit) connect() {
	v.r = v.r.WithContext(account.Enter(v.r.Context(), account.Visit{AccountID: v.session.Account.ID, Address: v.address()}))
	v.api = &client.Client{BaseURL: "http://console", HTTP: &http.Client{Transport: inside{v.API}}}
}

// inside is a transport that calls a handler.
type inside struct{ handler http.Handler }

// RoundTrip answers when the header is there. The body comes as it is read, so that none is in memory whole. Who closes it early ends the
// handler's work.
func (i inside) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	from, to := io.Pipe()
	w := &flow{own: http.Header{}, to: to, begun: make(chan struct{})}
	go w.run(i.handler, r)
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

// passed makes a handler that passes a GET on to a route of the admin API, whose answer goes to the browser as it comes. path is below
// wire.PrefixAdmin, with the same names in braces as the console's path has. The browser's own headers stay here: the API gets Accept and
// what a stream needs to go on, and whether the
// answer may be packed.
func passed(path string) func(*visit) (page, error) {
	return func(v *visit) (page, error) {
		ctx, leave := v.whileIn()
		defer leave()
		inner := v.r.Clone(ctx)
		inner.URL = &url.URL{RawQuery: v.r.URL.RawQuery}
		setPath(inner.URL, wire.PrefixAdmin+path, v.r.PathValue)
		inner.RequestURI = inner.URL.RequestURI()
		inner.Header = http.Header{}
		for _, name := range []string{"Accept", "Accept-Encoding", "Last-Event-Id"} {
			if value := v.r.Header.Get(name); value != "" {
				inner.Header.Set(name, value)
			}
		}
		v.API.ServeHTTP(v.w, inner)
		return page{sent: true}, nil
	}
}

// stillEvery is the time between two looks at the session of an answer that goes on.
const stillEvery = 15 * time.Second

// whileIn is the request's context, which ends with the session too: a stream may last for days, and must not outlive it.
func (v *visit) whileIn() (context.Context, context.CancelFunc) {
	ctx, leave := context.WithCancel(v.r.Context())
	go func() {
		defer leave()
		ticker := time.NewTicker(stillEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			if _, err := v.Logins.Session(ctx, v.cookie); errors.Is(err, login.ErrNone) {
				return
			}
		}
	}()
	return ctx, leave
}

// setPath fills the names in braces in.
func setPath(u *url.URL, path string, value func(string) string) {
	var plain, escaped strings.Builder
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			part = value(strings.TrimSuffix(name, "}"))
		}
		plain.WriteString("/" + part)
		escaped.WriteString("/" + url.PathEscape(part))
	}
	u.Path = plain.String()
	u.RawPath = escaped.String()
}
