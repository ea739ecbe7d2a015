package nodeapi

import (
	"context"
	"encoding/base64"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"

	"muster/agent/wire"
	"muster/gateway/internal/reply"
)

// Doors says what the requests of a listener pass besides this API. A nil field says no.
type Doors struct {
	Admin   func(*http.Request) bool // a route of the admin API takes this request
	Proxied func(*http.Request) bool // it came over TLS as far as a trusted proxy, which has read it
	Open    func(*http.Request) bool // a trusted proxy says that it came there without TLS
}

// proxied marks the context of such a request.
type proxied struct{}

// Guard refuses tokens that stand where none belongs, before any route looks at the request and before one that is not clean is
// redirected: in a query string, in the path of another route than bootstrap's, in a header. Each is an event.
func (a *API) Guard(next http.Handler, d Doors) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.Proxied != nil && strings.HasPrefix(r.URL.Path, wire.PathBootstrap) && d.Proxied(r) {
			r = r.WithContext(context.WithValue(r.Context(), proxied{}, true))
		}
		var at *attempt
		if r.URL.Path == wire.PathRegister {
			w, r, at = a.proving(w, r)
		}
		text, err := misplaced(r, d)
		psk := ""
		if err == nil {
			psk, err = a.misplacedPSK(r, d)
		}
		if err == nil && at != nil && !registers(r) {
			text, psk, err = a.inBody(w, r, at)
		}
		if err != nil {
			w.Header().Set(wire.HeaderEpoch, a.Info.Epoch)
			a.refuseVisit(w, a.misused(r, visit{address: a.Address(r), psk: psk}, text, err))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// misplaced gives the refusal of a request with a token in the wrong place, and the text in which that was found.
func misplaced(r *http.Request, d Doors) (text string, err error) {
	at := r.URL.Path
	admin := strings.HasPrefix(at, wire.PrefixAdmin) && d.Admin != nil && d.Admin(r)
	if r.URL.RawQuery != "" && !admin {
		if text := reply.Unescape(r.URL.RawQuery); reply.HasToken(text) {
			return text, inQuery(text)
		}
	}
	if !admin && !ours(r) {
		if text := reply.Unescape(at); pathCarries(text) {
			return text, inPath(r, text)
		}
	}
	if admin && openly(r, d) {
		if text := shown(r.Header["Authorization"]); strings.Contains(text, "msa_") {
			return text, overheard()
		}
	}
	return inHeaders(r, d, admin)
}

// misplacedPSK finds a PSK that a person chose, where misplaced finds what has the form of a token, and gives its id with the refusal.
// The admin API looks by itself.
func (a *API) misplacedPSK(r *http.Request, d Doors) (psk string, err error) {
	if strings.HasPrefix(r.URL.Path, wire.PrefixAdmin) && d.Admin != nil && d.Admin(r) {
		return "", nil
	}
	texts := reply.QueryValues(r)
	for _, name := range usualHeaders {
		for _, value := range r.Header[name] {
			texts = append(texts, value, decoded(value))
		}
	}
	if segments := reply.Segments(r); proves(r) { // the way of most requests, whose paths have few segments
		texts = append(texts, segments...)
	} else if psk, _ = a.Bootstrap.PSKInPath(r.Context(), segments); psk != "" {
		return psk, plainPSK()
	}
	if psk = a.Bootstrap.PSKIn(r.Context(), texts...); psk != "" {
		err = plainPSK()
	}
	return psk, err
}

// decoded is what stands in base64 behind the name of a scheme; empty where nothing does.
func decoded(value string) string {
	_, text, _ := strings.Cut(value, " ")
	plain, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(text), "="))
	if err != nil {
		return ""
	}
	return string(plain)
}

// usualHeaders are where tokens are put by mistake. Any token there is refused, in others what is more than a public part.
var usualHeaders = [...]string{"Authorization", "Proxy-Authorization", "Cookie", "Referer", "X-Api-Key", "X-Auth-Token", "X-Cluster-Token"}

// inHeaders looks into all headers, of what a node proves into the usual ones alone: that is most of all requests.
func inHeaders(r *http.Request, d Doors, admin bool) (text string, err error) {
	registers := registers(r)
	for _, name := range usualHeaders {
		values := r.Header[name]
		if len(values) == 0 || name == "Authorization" && (admin || registers) || name == "X-Cluster-Token" && registers {
			continue // to register is to name a token there, and it knows what may stand where
		}
		if text := shown(values); reply.HasToken(text) {
			if err := inHeader(r, d, name, text); err != nil {
				return text, err
			}
		}
	}
	if proves(r) {
		return "", nil
	}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		if slices.Contains(usualHeaders[:], name) {
			continue
		}
		if text := shown(r.Header[name]); reply.Carries(text) {
			if err := inHeader(r, d, name, text); err != nil {
				return text, err
			}
		}
	}
	return "", nil
}

// registers tells a request that register answers.
func registers(r *http.Request) bool {
	return r.Method == http.MethodPost && r.URL.Path == wire.PathRegister && plainSlashes(r)
}

// proves tells a request for a node's route that brings a proof, good or not.
func proves(r *http.Request) bool {
	if !strings.HasPrefix(r.URL.Path, wire.PrefixNodes) && !strings.HasPrefix(r.URL.Path, wire.PrefixInternal) || r.URL.Path == wire.PathRegister {
		return false
	}
	return len(r.Header["Signature"]) > 0 || r.TLS != nil && len(r.TLS.PeerCertificates) > 0
}

// plainSlashes tells a path whose slashes all stand there as such: ServeMux takes no %2F for one.
func plainSlashes(r *http.Request) bool {
	return r.URL.RawPath == "" || strings.Count(r.URL.EscapedPath(), "/") == strings.Count(r.URL.Path, "/")
}

// inBody looks into what somebody sends to the path of registering in another way than that takes.
func (a *API) inBody(w http.ResponseWriter, r *http.Request, at *attempt) (text, psk string, err error) {
	body, err := at.raw, at.broken
	if !at.known {
		body, err = reply.ReadBody(w, r, wire.MaxRegisterBody, a.BodyTime)
	}
	if err != nil {
		return "", "", nil // what cannot be read is refused for its method
	}
	if psk = a.Bootstrap.PSKInBody(r.Context(), body, reply.Texts); psk != "" {
		return string(body), psk, plainPSK()
	}
	if !carriesSecret(body) {
		return "", "", nil
	}
	return string(body), "", plaintext()
}

// ours tells a request for a bootstrap route by all that makes it one; its handler looks at the token.
func ours(r *http.Request) bool {
	rest, ok := strings.CutPrefix(r.URL.Path, wire.PrefixBootstrap)
	token, _, _ := strings.Cut(rest, "/")
	if !ok || token == "" || !plainSlashes(r) {
		return false
	}
	switch r.URL.Path {
	case wire.BootstrapScriptPath(token):
		return r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodPost
	case wire.RegistryCredentialPath(token):
		return r.Method == http.MethodGet || r.Method == http.MethodHead
	}
	return false
}

// pathCarries tells whether a path holds more of a token than its public part, or anything of one below bootstrap's.
func pathCarries(at string) bool {
	if !reply.HasToken(at) {
		return false
	}
	if strings.HasPrefix(path.Clean(at), wire.PrefixBootstrap) {
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
	if reply.HasPSK(at) {
		return plainPSK()
	}
	if !private(r) && strings.HasPrefix(path.Clean(at), wire.PrefixBootstrap) && strings.Contains(at[strings.Index(at, "ms"):], ".") {
		return tlsRequired(r)
	}
	return wrongRoute("in the path")
}

// inHeader is the refusal of a token in a header. An API token may stand in one over TLS: clients send it to every path.
func inHeader(r *http.Request, d Doors, name, text string) error {
	switch {
	case reply.HasPSK(text):
		return plainPSK()
	case strings.Contains(text, "msb_"), strings.Contains(text, "mse_"):
		return wrongRoute("in the header " + name)
	case r.TLS == nil && (d.Proxied == nil || !d.Proxied(r)), openly(r, d):
		return overheard()
	}
	return nil
}

func openly(r *http.Request, d Doors) bool { return d.Open != nil && d.Open(r) }

// overheard refuses an API token that came without TLS.
func overheard() error {
	return wire.Refuse(wire.CodeTLSRequired, "an API token came over plain HTTP: others may have read it",
		"revoke its account (muster account revoke) and make another; use the gateway's https URL")
}

// shown is all that a header's values say, out of the encodings in which headers hide tokens.
func shown(values []string) string {
	if len(values) == 1 {
		return reply.Unescape(credentials(values[0]))
	}
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i] = reply.Unescape(credentials(value))
	}
	return strings.Join(texts, "\n")
}

// credentials decodes a token that stands in base64 behind the name of a scheme, as Basic has it (RFC 7617) and some write it for
// others; any other value stays as it is.
func credentials(value string) string {
	at := strings.IndexAny(value, " \t")
	if at < 0 {
		return value
	}
	text := strings.TrimRight(strings.TrimSpace(value[at:]), "=")
	for _, encoding := range [...]*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if plain, err := encoding.DecodeString(text); err == nil && reply.HasToken(string(plain)) {
			return string(plain)
		}
	}
	return value
}

func inQuery(text string) error {
	if reply.HasPSK(text) {
		return plainPSK()
	}
	return wire.Refuse(wire.CodePlaintextSecret, "a token stands in the query string: others may have read it",
		"revoke it (muster token revoke ID); bootstrap tokens stand in the path, others are proven without being sent")
}

func wrongRoute(where string) error {
	return wire.Refuse(wire.CodeTokenWrongRoute, "a token stands "+where+" of a route that takes none: others may have read it",
		"revoke it (muster token revoke ID); a bootstrap token is good for "+wire.PathBootstrap+" and for registering its node alone")
}

// tlsRequired refuses a whole bootstrap token that came without TLS, or through a proxy that ends it.
func tlsRequired(r *http.Request) error {
	if r.Context().Value(proxied{}) != nil {
		return wire.Refuse(wire.CodeTLSRequired, "the whole bootstrap token came through a proxy that ends TLS, which has seen it",
			"use the URL that ends before the dot, and give the script the token in MUSTER_TOKEN; a registry's credential is lent at the gateway's own https URL alone")
	}
	return wire.Refuse(wire.CodeTLSRequired, "the whole bootstrap token came over plain HTTP: others may have read it",
		"use the URL that ends before the dot, and give the script the token in MUSTER_TOKEN; or use https. Mint a new token: muster bootstrap NODE")
}
