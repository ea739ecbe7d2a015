package adminapi

import "testing"

// TestAttachment: the name of a file comes from a node, so it is nothing but a name in the header.
func TestAttachment(t *testing.T) {
	for name, want := range map[string]string{
		"diag.tar.gz": `attachment; filename=diag.tar.gz`,
		`a"; b=c`:     `attachment; filename="a\"; b=c"`,
		"a\r\nX: y":   "attachment; filename*=utf-8''a%0D%0AX%3A%20y",
		"":            `attachment; filename=""`,
	} {
		if got := attachment(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}
