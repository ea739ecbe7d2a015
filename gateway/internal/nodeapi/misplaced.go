package nodeapi

import (
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"

	"muster/agent/wire"
	"muster/gateway/internal/account/secret"
)

// inQuery finds a token in the query string.
func inQuery(q arrival) exposure {
	if q.URL.RawQuery == "" || q.admin {
		return exposure{}
	}
	text := secret.Unescape(q.URL.RawQuery)
	switch {
	case !secret.HasToken(text):
		return exposure{}
	case secret.HasPSK(text):
		return exposure{refusal: plainPSK(), text: text}
	}
	return exposure{text: text, refusal: wire.Refuse(wire.CodePlaintextSecret, "a token stands in the query string: others may have read it",
		"revoke it (muster token revoke ID); bootstrap tokens stand in the path, others are proven without being sent")}
}

// inPath finds a token in the path of a route that takes none there.
func inPath(q arrival) exposure {
	if q.admin || q.route.takesToken() {
		return exposure{}
	}
	text := secret.Unescape(q.URL.Path)
	if !pathCarries(text) {
		return exposure{}
	}
	wholeForBootstrap := forBootstrap(text) && strings.Contains(text[strings.Index(text, "ms"):], ".")
	switch {
	case secret.HasPSK(text):
		return exposure{refusal: plainPSK(), text: text}
	case wholeForBootstrap && !private(q.Request): // this comes first: others may have read the token
		return exposure{refusal: tlsRequired(q.Request), text: text}
	}
	return exposure{refusal: wrongRoute("in the path"), text: text}
}

// pathCarries tells whether a path holds more of a token than its public part, or anything of one below bootstrap's.
func pathCarries(text string) bool {
	if !secret.HasToken(text) {
		return false
	}
	if forBootstrap(text) {
		return true
	}
	for segment := range strings.SplitSeq(text, "/") {
		if secret.HasToken(segment) && secret.TokenID(segment) != segment {
			return true
		}
	}
	return false
}

// forBootstrap tells whether a path leads below that of bootstrap.
func forBootstrap(text string) bool { return strings.HasPrefix(path.Clean(text), wire.PrefixBootstrap) }

// inAuthorization finds an API token that came to the admin API through a proxy, openly as far as that.
func inAuthorization(q arrival) exposure {
	if !q.admin || !q.doors.open(q.Request) {
		return exposure{}
	}
	if text := secret.Header(q.Header["Authorization"]); strings.Contains(text, "msa_") {
		return exposure{refusal: overheard(), text: text}
	}
	return exposure{}
}

// usualHeaders are where people put tokens by mistake. Any token in them is refused. In other headers a token's public part may stand.
var usualHeaders = [...]string{"Authorization", "Proxy-Authorization", "Cookie", "Referer", "X-Api-Key", "X-Auth-Token", "X-Cluster-Token"}

// inUsualHeaders leaves out the headers that the route reads itself.
func inUsualHeaders(q arrival) exposure {
	for _, name := range usualHeaders {
		values := q.Header[name]
		switch {
		case len(values) == 0:
			continue
		case name == "Authorization" && (q.admin || q.route.takesCredential()), name == "X-Cluster-Token" && q.route.takesCredential():
			continue
		}
		text := secret.Header(values)
		if !secret.HasToken(text) {
			continue
		}
		if refusal := inHeader(q, name, text); refusal != nil {
			return exposure{refusal: refusal, text: text}
		}
	}
	return exposure{}
}

// inOtherHeaders leaves out requests that prove a node's key. Nearly all requests do, and agents put no token into other headers.
func inOtherHeaders(q arrival) exposure {
	if proves(q) {
		return exposure{}
	}
	for _, name := range slices.Sorted(maps.Keys(q.Header)) {
		if slices.Contains(usualHeaders[:], name) {
			continue
		}
		text := secret.Header(q.Header[name])
		if !secret.Carries(text) {
			continue
		}
		if refusal := inHeader(q, name, text); refusal != nil {
			return exposure{refusal: refusal, text: text}
		}
	}
	return exposure{}
}

// inHeader is the refusal of a token in a header. An API token may stand in one over TLS: clients send it to every path.
func inHeader(q arrival, name, text string) error {
	switch {
	case secret.HasPSK(text):
		return plainPSK()
	case strings.Contains(text, "msb_"), strings.Contains(text, "mse_"):
		return wrongRoute("in the header " + name)
	case q.TLS == nil && !q.doors.proxied(q.Request), q.doors.open(q.Request):
		return overheard()
	}
	return nil
}

// knownPSK finds a PSK that a person chose. Such a PSK has no form to look for, so each text is compared with the PSKs on record.
func (a *API) knownPSK(q arrival) exposure {
	if q.admin {
		return exposure{}
	}
	texts := secret.QueryValues(q.Request)
	for _, name := range usualHeaders {
		for _, value := range q.Header[name] {
			texts = append(texts, value, secret.Decoded(value))
		}
	}
	segments := secret.Segments(q.Request)
	if proves(q) { // its path has few segments, and none that holds a slash
		texts = append(texts, segments...)
	} else if psk, _ := a.Bootstrap.PSKInPath(q.Context(), segments); psk != "" {
		return exposure{refusal: plainPSK(), psk: psk}
	}
	if psk := a.Bootstrap.PSKIn(q.Context(), texts...); psk != "" {
		return exposure{refusal: plainPSK(), psk: psk}
	}
	return exposure{}
}

// proves tells whether a request to a node's route brings a proof, good or not.
func proves(q arrival) bool {
	return q.route.takesKey() && (len(q.Header["Signature"]) > 0 || q.TLS != nil && len(q.TLS.PeerCertificates) > 0)
}

// overheard refuses an API token that came without TLS.
func overheard() error {
	return wire.Refuse(wire.CodeTLSRequired, "an API token came over plain HTTP: others may have read it",
		"revoke its account (muster account revoke) and make another; use the gateway's https URL. "+
			"If it came by https to a proxy, have the proxy say so: X-Forwarded-Proto")
}

func wrongRoute(where string) error {
	return wire.Refuse(wire.CodeTokenWrongRoute, "a token stands "+where+" of a route that takes none: others may have read it",
		"revoke it (muster token revoke ID); a bootstrap token is good for "+wire.PathBootstrap+" and for registering its node alone")
}

// tlsRequired refuses a whole bootstrap token that came without TLS, or through a proxy that ends it.
func tlsRequired(r *http.Request) error {
	const instead = "use the URL that ends before the dot, and give the script the token in MUSTER_TOKEN; "
	if r.Context().Value(proxied{}) != nil {
		return wire.Refuse(wire.CodeTLSRequired, "the whole bootstrap token came through a proxy that ends TLS, which has seen it",
			instead+"a registry's credential is lent at the gateway's own https URL alone")
	}
	return wire.Refuse(wire.CodeTLSRequired, "the whole bootstrap token came over plain HTTP: others may have read it",
		instead+"or use https. Mint a new token: muster bootstrap NODE")
}
