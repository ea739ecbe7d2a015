package paste_test

import (
	"os/exec"
	"testing"

	"muster/gateway/internal/paste"
)

func TestQuote(t *testing.T) {
	for word, want := range map[string]string{
		"": "''", "/srv/muster": "/srv/muster", "https://gw:7443": "https://gw:7443", "a b": "'a b'", "$(id)": "'$(id)'", "it's": `'it'\''s'`,
		"~": "'~'",
	} {
		if got := paste.Quote(word); got != want {
			t.Errorf("Quote(%q) = %s, want %s", word, got, want)
		}
	}
}

// FuzzQuote has a shell read the word back.
func FuzzQuote(f *testing.F) {
	for _, word := range []string{"", "a", "a b", "it's", "\\", "\"", "$x", "`id`", "*", "\n", "é", "-n", "a;b"} {
		f.Add(word)
	}
	f.Fuzz(func(t *testing.T, word string) {
		for i := range len(word) {
			if word[i] == 0 { // no argument holds one
				return
			}
		}
		out, err := exec.Command("sh", "-c", "printf %s. "+paste.Quote(word)).Output()
		if err != nil || string(out) != word+"." {
			t.Errorf("%q comes back as %q (%v)", word, out, err)
		}
	})
}
