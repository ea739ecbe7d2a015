package account

import (
	"net/http"
	"slices"
	"strings"

	"muster/agent/wire"
	"muster/gateway/internal/account/secret"
)

// inURL refuses a token in the query string, more of a token in the path than its public part, and a PSK in either.
func (g *Gate) inURL(r *http.Request) error {
	segments := secret.Segments(r)
	values := secret.QueryValues(r)
	psk, _ := g.PSKs.PSKInPath(r.Context(), segments)
	if psk != "" || slices.ContainsFunc(slices.Concat(segments, values), secret.HasPSK) || g.PSKs.PSKIn(r.Context(), values...) != "" {
		return PlainPSK("stands in the URL")
	}
	if r.URL.RawQuery != "" && secret.HasToken(secret.Unescape(r.URL.RawQuery)) {
		return wire.Refuse(wire.CodePlaintextSecret, "a token stands in the query string",
			"others may have read it: revoke it; API tokens go into the header Authorization: Bearer ...")
	}
	for segment := range strings.SplitSeq(secret.Unescape(r.URL.Path), "/") {
		if secret.TokenLike(segment) && secret.TokenID(segment) != segment {
			return wire.Refuse(wire.CodePlaintextSecret, "a whole token stands in the URL",
				"others may have read it: revoke it; a token or an account is named by the public part, such as mse_ab12")
		}
	}
	return nil
}

// PlainPSK returns the refusal of a call that shows the cluster's PSK. where says in which part of the call it stands, such as "stands in
// the URL".
func PlainPSK(where string) error {
	return wire.Refuse(wire.CodePlaintextSecret, "the cluster's PSK "+where+": others may have read it, so replace it",
		"make another: muster psk rotate, then muster psk clear --keep ID; a PSK is named by its id, such as psk-0123abcd")
}
