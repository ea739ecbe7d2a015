package nodeapi

import (
	"bytes"
	"encoding/json"
	"muster/agent/wire"
	"muster/gateway/internal/reading"
	"muster/gateway/internal/reply"
	"muster/gateway/internal/secret"
)

// glance reads of a body that is not proven yet what its refusal needs: the nonce, and whether it carries a secret. A usual body is read
// in one pass.
func glance(raw []byte) (nonce string, secret bool) {
	nonce, ok := reading.Nonce(raw)
	if !ok || len(nonce) > mostNonce {
		return nonceOf(raw), carriesSecret(raw)
	}
	return nonce, holdsToken(raw)
}

// mostNonce is how many bytes a nonce has that a refusal is proven with.
const mostNonce = 64

// nonceOf reads the nonce alone, to prove a refusal of a body that was not proven itself. Nothing else may rest on it.
func nonceOf(raw []byte) string {
	var q struct {
		Nonce string `json:"nonce"`
	}
	if json.Unmarshal(raw, &q) != nil || len(q.Nonce) > mostNonce {
		return ""
	}
	return q.Nonce
}

// carriesSecret tells a body in which somebody sends the secret itself: by the name of a member, or as a whole token anywhere.
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

// holdsToken looks for a whole token in a body, whatever it is. JSON can hide a letter of one by \u alone.
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
