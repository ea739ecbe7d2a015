package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/account"
	"muster/gateway/internal/account/login"
	"muster/gateway/internal/client"
	"muster/gateway/internal/console/inside"
)

// connect gives the visitor a client of the admin API, which runs its handler here.
func (v *visit) connect() {
	v.r = v.r.WithContext(account.Enter(v.r.Context(), account.Visit{AccountID: v.session.Account.ID, Address: v.address()}))
	v.api = &client.Client{BaseURL: "http://console", HTTP: &http.Client{Transport: inside.Transport{Handler: v.API}}}
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
