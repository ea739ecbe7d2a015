package identity

import (
	"crypto/ed25519"

	"muster/agent/sign"
)

// answerKeys are the keys that prove the gateway's answers. A file that an older agent wrote has AnswerKey alone.
func (g Gateway) answerKeys() ([]ed25519.PublicKey, error) {
	texts := g.AnswerKeys
	if len(texts) == 0 {
		texts = []string{g.AnswerKey}
	}
	keys := make([]ed25519.PublicKey, 0, len(texts))
	for _, text := range texts {
		key, err := sign.DecodeKey(text)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}
