// Package console is the console: pages for people, made on the server, that work without JavaScript. JavaScript adds live values and keys.
//
// The console is a client of the admin API, in this process. What a page shows or changes goes through the API's own handler as the account
// that has logged in, so scopes, tenants, limits, refusals and events are those of the API. A browser proves its session by a cookie.
// Every change is a form, sent by POST from the console's own pages: the browser says so (http.CrossOriginProtection), and each form has a
// text that only these pages know.
//
// Nothing that comes from a node, a label or a person reaches a page but through html/template.
package console

import (
	"embed"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account"
	"muster/gateway/internal/account/login"
	"muster/gateway/internal/console/asset"
	"muster/gateway/internal/console/picture"
	"muster/gateway/internal/reply"
)

// Config says what the console works with.
type Config struct {
	API     http.Handler  // the admin API, with a gate for calls from within
	Gate    *account.Gate // of this listener; it judges the API tokens of logins
	Logins  *login.Service
	Info    *reply.Info
	Address func(*http.Request) string // the browser's address
	Gateway api.Gateway
	MAAS    bool             // it is on, so that its page is in the navigation
	Now     func() time.Time // nil: time.Now
	Logger  *slog.Logger     // nil: slog.Default
}

//go:embed pages assets
var files embed.FS

// Console serves the pages.
type Console struct {
	Config
	pages  map[string]*template.Template
	assets map[string]asset.File
	origin *http.CrossOriginProtection
	mux    *http.ServeMux
}

// New makes a console. Templates are embedded, so a broken one is a programming error and panics.
func New(c Config) *Console {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	console := &Console{Config: c, origin: http.NewCrossOriginProtection(), mux: http.NewServeMux()}
	console.pages = console.parse()
	console.assets = asset.Read(files, "assets")
	for _, route := range Table() {
		console.mux.Handle(route.Pattern(), console.guarded(route))
	}
	return console
}

// policy lets a page load what this gateway serves, and nothing else. No script and no style stands in a page itself.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// ServeHTTP answers requests below api.PathConsole, and for the root of the site.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if _, pattern := c.mux.Handler(r); pattern == "" {
		c.nothing(w, r)
		return
	}
	c.mux.ServeHTTP(w, r)
}

// guarded is the only way to a page: no route is served without it.
func (c *Console) guarded(route Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := c.visit(w, r)
		shown, err := v.answer(route)
		if err != nil {
			shown = v.refused(err)
		}
		v.send(shown)
	})
}

func (c *Console) visit(w http.ResponseWriter, r *http.Request) *visit {
	return &visit{Console: c, w: w, r: r, now: c.Now().UTC(), Query: picture.QueryOf(r.URL)}
}

// answer lets the route answer, if the visitor may come in.
func (v *visit) answer(route Route) (page, error) {
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, wire.MaxBody)
	if err := v.origin.Check(v.r); err != nil {
		return page{}, wire.Refuse(wire.CodeForbidden, "this form came from another site",
			"open the console by its own address, and do it again there")
	}
	if err := v.enter(); err != nil {
		return page{}, err
	}
	switch {
	case v.loggedIn() || route.Open:
	case route.Method == http.MethodGet && !route.data():
		return page{to: loginFor(v.r)}, nil
	default:
		return page{}, wire.Refuse(wire.CodeUnauthorized, "nobody is logged in here, or the session has ended", "log in, and do it again")
	}
	if v.r.Method == http.MethodPost {
		if err := v.readForm(route); err != nil {
			return page{}, err
		}
	}
	shown, err := route.serve(v)
	if err == nil && shown.failure == nil && v.r.Method == http.MethodGet { // of a page that was not made whole, not all was asked for
		shown.ignored = v.Left()
	}
	return shown, err
}

// nothing answers if there is no page.
func (c *Console) nothing(w http.ResponseWriter, r *http.Request) {
	v := c.visit(w, r)
	err := v.enter()
	if err == nil {
		err = wire.Refuse(wire.CodeNotFound, fmt.Sprintf("there is no page at %.100s", r.URL.Path), "take one from the top of the page")
	}
	v.send(v.refused(err))
}
