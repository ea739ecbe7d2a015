package mask

import (
	"bytes"
	"strings"
	"testing"
)

// FuzzVeil: however a text is cut into pieces, no secret of it gets through, and nothing else is lost.
func FuzzVeil(f *testing.F) {
	f.Add("the key is abcd and abz", "abc", "abcd", 3)
	f.Add("xabz", "xab", "abz", 1)
	f.Add("\xff\xfe secret", "\xfe", "s", 2)
	f.Fuzz(func(t *testing.T, text, one, two string, step int) {
		m := New(one, two)
		var out bytes.Buffer
		v := Veil{Mask: m, To: &out}
		for rest := text; rest != ""; {
			n := min(max(step, 1), len(rest))
			if _, err := v.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		v.Flush()
		if got, want := out.String(), m.Text(text); got != want {
			t.Errorf("in pieces of %d: %q, whole: %q", step, got, want)
		}
		for _, part := range strings.Split(out.String(), Masked) {
			for _, secret := range m.secrets {
				if strings.Contains(part, string(secret)) {
					t.Errorf("%q is in %q", secret, out.String())
				}
			}
		}
	})
}

// TestMaskEmpty: without secrets everything gets through, and an empty secret hides nothing.
func TestMaskEmpty(t *testing.T) {
	for _, m := range []Mask{{}, New(), New("", "\n")} {
		if got := m.Text("a\nb"); got != "a\nb" {
			t.Errorf("%q", got)
		}
	}
}
