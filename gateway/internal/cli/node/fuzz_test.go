package node_test

import (
	"encoding/json"
	"testing"
	"time"
	"unicode"

	"muster/gateway/internal/cli/node"
)

// FuzzShown feeds nodes as a hostile gateway, or a node behind it, could make them: nothing may reach the terminal that
// moves its cursor.
func FuzzShown(f *testing.F) {
	for _, s := range []string{
		`{}`, `null`, `[]`,
		`{"name":"a\u001b[2J","hardware":{"probe":{"state":"hung","since":"2026-11-21T09:00:00Z","error":"\u009b"}}}`,
		`{"labels":{"a":"\u202e"},"notices":["\u0007"],"hardware":{"gpus":[` +
			`{"name":"NVIDIA ","memory_source":"unified"},{"name":"界"}],"gpus_expected":-1}}`,
		`{"certificate":{"not_after":"0001-01-01T00:00:00Z"},"last_seen":"9999-12-31T23:59:59Z","skew_ms":-9223372036854775808}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return
		}
		shown, err := node.Shown(raw, time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC))
		for _, r := range shown {
			if err == nil && unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' { // JSON's own white space
				t.Errorf("%q shows %U", raw, r)
			}
		}
	})
}
