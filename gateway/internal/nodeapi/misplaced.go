package nodeapi

import (
	"context"
	"encoding/base64"
	"net/http"
	"path"
	"strings"

	"muster/agent/wire"
	"muster/gateway/internal/reply"
)

// adminPrefix begins the routes of the admin API, which takes tokens of its own and records what it refuses.
const adminPrefix = "/api/v1/admin/"

// Doors says what the requests of a listener pass besides this API. A nil field says no.
type Doors struct {
	Admin   func(*http.Request) bool // a route of the admin API takes this request
	Proxied func(*http.Request) bool // it came over TLS as far as a trusted proxy, and from there without
}

// proxied marks the context of such a request.
type proxied struct{}

// Guard refuses tokens that stand where none belongs, before any route looks at the request and before one that is not clean is
// redirected: in a query string, in the path of another route than bootstrap's, in a header. Each is an event.
func (a *API) Guard(next http.Handler, d Doors) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil && d.Proxied != nil && strings.HasPrefix(r.URL.Path, "/api/v1/bootstrap") && d.Proxied(r) {
			r = r.WithContext(context.WithValue(r.Context(), proxied{}, true))
		}
		if text, err := misplaced(r, d); err != nil {
			w.Header().Set(wire.HeaderEpoch, a.Info.Epoch)
			a.refuseVisit(w, a.misused(r, visit{address: a.Address(r)}, text, err))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// misplaced gives the refusal of a request with a token in the wrong place, and the text in which that was found.
func misplaced(r *http.Request, d Doors) (text string, err error) {
	at := r.URL.Path
	admin := strings.HasPrefix(at, adminPrefix) && d.Admin != nil && d.Admin(r)
	if r.URL.RawQuery != "" && !admin {
		if text := reply.Unescape(r.URL.RawQuery); reply.HasToken(text) {
			return text, inQuery()
		}
	}
	if !admin && !ours(r) {
		if text := reply.Unescape(at); pathCarries(text) {
			return text, inPath(r, text)
		}
	}
	for _, name := range [...]string{"Authorization", "Proxy-Authorization", "Cookie", "Referer", "X-Api-Key", "X-Auth-Token", "X-Cluster-Token"} {
		values := r.Header[name]
		if len(values) == 0 || name == "Authorization" && (admin || at == wire.PathRegister) || name == "X-Cluster-Token" && at == wire.PathRegister {
			continue // to register is to name a token there, and it knows what may stand where
		}
		if text, err := inHeader(r, d, name, values); err != nil {
			return text, err
		}
	}
	return "", nil
}

// ours tells a request for a bootstrap route by all that makes it one; its handler looks at the token.
func ours(r *http.Request) bool {
	rest, ok := strings.CutPrefix(r.URL.Path, bootstrapPrefix)
	token, tail, _ := strings.Cut(rest, "/")
	if !ok || token == "" {
		return false
	}
	switch "/" + tail {
	case scriptSuffix:
		return r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodPost
	case credentialSuffix:
		return r.Method == http.MethodGet || r.Method == http.MethodHead
	}
	return false
}

// pathCarries tells whether a path holds more of a token than its public part, or anything of one below bootstrap's.
func pathCarries(at string) bool {
	if !reply.HasToken(at) {
		return false
	}
	if strings.HasPrefix(path.Clean(at), bootstrapPrefix) {
		return true
	}
	for segment := range strings.SplitSeq(at, "/") {
		if reply.HasToken(segment) && reply.TokenID(segment) != segment {
			return true
		}
	}
	return false
}

// inPath is the refusal of a token in the path. A whole one that was meant for bootstrap and came without TLS is told that first.
func inPath(r *http.Request, at string) error {
	if r.TLS == nil && strings.HasPrefix(path.Clean(at), bootstrapPrefix) && strings.Contains(at[strings.Index(at, "ms"):], ".") {
		return tlsRequired(r)
	}
	return wrongRoute("in the path")
}

// inHeader looks for tokens in a header, also in the encodings in which headers hide them. An API token may stand in one over
// TLS: clients send it to every path.
func inHeader(r *http.Request, d Doors, name string, values []string) (text string, err error) {
	for _, value := range values {
		text := reply.Unescape(basic(value))
		switch {
		case !reply.HasToken(text):
		case strings.Contains(text, "msb_"), strings.Contains(text, "mse_"):
			return text, wrongRoute("in the header " + name)
		case r.TLS == nil && (d.Proxied == nil || !d.Proxied(r)):
			return text, refuse(wire.CodeTLSRequired, "an API token came over plain HTTP: take it for known to others",
				"revoke its account (muster account revoke) and make another; use the gateway's https URL")
		}
	}
	return "", nil
}

// basic decodes what RFC 7617 encodes; any other value stays as it is.
func basic(value string) string {
	scheme, credentials, ok := strings.Cut(value, " ")
	if !ok || !strings.EqualFold(scheme, "Basic") {
		return value
	}
	plain, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(credentials), "="))
	if err != nil {
		return value
	}
	return string(plain)
}

func inQuery() error {
	return refuse(wire.CodePlaintextSecret, "a token stands in the query string: take it for known to others",
		"revoke it (muster token revoke ID); bootstrap tokens stand in the path, others are proven without being sent")
}

func wrongRoute(where string) error {
	return refuse(wire.CodeTokenWrongRoute, "a token stands "+where+" of a route that takes none: take it for known to others",
		"revoke it (muster token revoke ID); a bootstrap token is good for /api/v1/bootstrap and for registering its node alone")
}

// tlsRequired refuses a whole bootstrap token that came without TLS, or through a proxy that ends it.
func tlsRequired(r *http.Request) error {
	if r.Context().Value(proxied{}) != nil {
		return refuse(wire.CodeTLSRequired, "the whole bootstrap token came through a proxy that ends TLS, which has seen it",
			"use the URL that ends before the dot, and give the script the token in MUSTER_TOKEN; a registry's credential is lent at the gateway's own https URL alone")
	}
	return refuse(wire.CodeTLSRequired, "the whole bootstrap token came over plain HTTP: take it for known to others",
		"use the URL that ends before the dot, and give the script the token in MUSTER_TOKEN; or use https. Mint a new token: muster bootstrap NODE")
}
