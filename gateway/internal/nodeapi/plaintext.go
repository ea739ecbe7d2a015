package nodeapi

import (
	"bytes"
	"encoding/json"

	"muster/agent/wire"
	"muster/gateway/internal/account/secret"
	"muster/gateway/internal/reply"
)

// mostNonce is how many bytes of a nonce a refusal is proven with. A longer one counts as none.
const mostNonce = 64

// nonceOf reads the nonce alone. It is used for one thing: to prove a refusal to the sender of a body that proved nothing.
func nonceOf(raw []byte) string {
	var q struct {
		Nonce string `json:"nonce"`
	}
	if json.Unmarshal(raw, &q) != nil || len(q.Nonce) > mostNonce {
		return ""
	}
	return q.Nonce
}

// carriesSecret tells whether a body holds the secret itself: under a name that says so, or as a whole token anywhere.
func carriesSecret(raw []byte) bool {
	var q struct {
		Token        any `json:"token"`
		Bootstrap    any `json:"bootstrap_token"`
		ClusterToken any `json:"cluster_token"`
		PSK          any `json:"psk"`
	}
	named := json.Unmarshal(raw, &q) == nil && (q.Token != nil || q.Bootstrap != nil || q.ClusterToken != nil || q.PSK != nil)
	return named || holdsToken(raw)
}

// holdsToken looks for a whole token in a body, which may be no JSON. In JSON a letter of the token can hide behind \u alone, so only
// a body with \u is decoded.
func holdsToken(raw []byte) bool {
	if bytes.Contains(raw, []byte(`\u`)) {
		var v any
		if json.Unmarshal(raw, &v) == nil {
			raw = reply.JSON(v)
		}
	}
	return secret.Whole(string(raw))
}

func plaintext() error {
	return wire.Refuse(wire.CodePlaintextSecret, "a secret was sent instead of a proof of it: others may have read it, so revoke it",
		"the agent proves a token without sending it: muster-agent run --gateway URL with MUSTER_TOKEN")
}

func plainPSK() error {
	return wire.Refuse(wire.CodePlaintextSecret, "the cluster's PSK was sent, where no secret belongs: others may have read it, so replace it",
		"make another: muster psk rotate, then muster psk clear --keep ID; the agent proves a PSK without sending it")
}
