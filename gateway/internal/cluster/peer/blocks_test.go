package peer_test

import (
	"encoding/pem"
	"testing"
)

// blocks are the certificates of a chain in PEM.
func blocks(t *testing.T, chain string) (all [][]byte) {
	t.Helper()
	for rest := []byte(chain); ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			return all
		}
		all = append(all, b.Bytes)
	}
}
