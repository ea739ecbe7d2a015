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

// inspect looks into a body of which nothing is proven. The nonce is used for one thing: to prove a refusal to its sender. secret tells
// whether the body holds the secret itself: under a name that says so, or as a whole token anywhere.
func inspect(raw []byte) (nonce string, secret bool) {
	var q struct {
		Nonce        any `json:"nonce"`
		Token        any `json:"token"`
		Bootstrap    any `json:"bootstrap_token"`
		ClusterToken any `json:"cluster_token"`
		PSK          any `json:"psk"`
	}
	_ = json.Unmarshal(raw, &q) // what is no JSON may hold a token all the same
	if text, is := q.Nonce.(string); is && len(text) <= mostNonce {
		nonce = text
	}
	return nonce, q.Token != nil || q.Bootstrap != nil || q.ClusterToken != nil || q.PSK != nil || holdsToken(raw)
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
