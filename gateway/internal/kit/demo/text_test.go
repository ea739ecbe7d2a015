package main

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestText: the text fits a terminal, but for where muster's programs are, and says where everything is and how each machine is broken.
func TestText(t *testing.T) {
	t.Parallel()
	p := &play{dir: "/tmp/muster-demo-1234567890", programs: "/bin", control: "127.0.0.1:10003", companies: companies(nil),
		metal: newMetal(nil)}
	p.metal.address = "127.0.0.1:10002"
	for _, c := range p.companies {
		c.address = "127.0.0.1:10001"
	}
	text := p.text()
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(line) - 1; n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, part := range []string{"cd " + p.dir, p.metal.url(), p.companies[2].url(), "    fail: until mend", "    hang: until mend", "    mend: "} {
		if !strings.Contains(text, part) {
			t.Errorf("it does not have %q", part)
		}
	}
}
