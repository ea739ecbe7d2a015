package web

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/account"
	"muster/gateway/internal/client"
	"muster/gateway/internal/login"
)

// connect gives the visitor a client of the admin API, which runs its handler here.
func (v *visit) connect() {
	v.r = v.r.WithContext(account.Enter(v.r.Context(), account.Visit{AccountID: v.session.Account.ID, Address: v.address()}))
	v.api = &client.Client{BaseURL: "http://console", HTTP: &http.Client{Transport: inside{v.API}}}
}

// inside is a transport that calls a handler.
type inside struct{ handler http.Handler }

// RoundTrip keeps the whole answer in memory. Long answers do not go this way, but through passed.
func (i inside) RoundTrip(r *http.Request) (response *http.Response, err error) {
	w := &kept{header: http.Header{}, status: http.StatusOK}
	defer func() {
		if fault := recover(); fault == http.ErrAbortHandler {
			err = errors.New("the answer broke off")
		} else if fault != nil {
			panic(fault)
		}
	}()
	if r.Body == nil {
		r.Body = http.NoBody
	}
	i.handler.ServeHTTP(w, r)
	return &http.Response{StatusCode: w.status, Header: w.header, Body: io.NopCloser(&w.body), Request: r, ProtoMajor: 1, ProtoMinor: 1}, nil
}

// kept is an answer in memory.
type kept struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (k *kept) Header() http.Header                  { return k.header }
func (k *kept) WriteHeader(status int)               { k.status = status }
func (k *kept) Write(text []byte) (n int, err error) { return k.body.Write(text) }

// passed makes a handler that passes a GET on to a route of the admin API, whose answer goes to the browser as it comes. path is below
// wire.PrefixAdmin, with the same names in braces as the console's path has. The browser's own headers stay here: the API gets Accept and
// what a stream needs to go on.
func passed(path string) func(*visit) (page, error) {
	return func(v *visit) (page, error) {
		ctx, leave := v.whileIn()
		defer leave()
		inner := v.r.Clone(ctx)
		inner.URL = &url.URL{RawQuery: v.r.URL.RawQuery}
		setPath(inner.URL, wire.PrefixAdmin+path, v.r.PathValue)
		inner.RequestURI = inner.URL.RequestURI()
		inner.Header = http.Header{}
		for _, name := range []string{"Accept", "Last-Event-Id"} {
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
