package placement

import (
	"strings"
	"testing"
)

// FuzzPublicKeys: whatever a file holds, no line is taken that is none of its own, and a private key never is.
func FuzzPublicKeys(f *testing.F) {
	f.Add("ssh-ed25519 AAAA ada\n# a comment\n\n")
	f.Add("-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n")
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := publicKeys("id.pub", text)
		if err == nil && (len(keys) == 0 || strings.Contains(text, "PRIVATE KEY")) {
			t.Errorf("%q gives %q", text, keys)
		}
		for _, key := range keys {
			if key == "" || key[0] == '#' || strings.Contains(key, "\n") || !strings.Contains(text, key) {
				t.Errorf("%q gives the key %q", text, key)
			}
		}
	})
}
