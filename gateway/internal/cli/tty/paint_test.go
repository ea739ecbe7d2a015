package tty

import (
	"strings"
	"testing"
)

// TestPaint: only lines that changed are drawn, in one update, and lines that are gone are cleared.
func TestPaint(t *testing.T) {
	p := painter{blank: true}
	first := p.paint([]string{"one", "", "three", "four"}, 3)
	if !strings.HasPrefix(first, beginUpdate+clearAll) || !strings.HasSuffix(first, endUpdate) ||
		!strings.Contains(first, "\x1b[3;1H\x1b[Kthree") {
		t.Errorf("the first frame: %q", first)
	}
	if strings.Contains(first, "four") {
		t.Errorf("a line below the screen: %q", first)
	}
	if got := p.paint([]string{"one", "", "three"}, 3); got != "" {
		t.Errorf("the same frame: %q", got)
	}
	if got := p.paint([]string{"one", "two", "three"}, 3); got != beginUpdate+"\x1b[2;1H\x1b[Ktwo"+plain+endUpdate {
		t.Errorf("one line: %q", got)
	}
	if got := p.paint([]string{"one"}, 3); got != beginUpdate+"\x1b[2;1H\x1b[K"+plain+"\x1b[3;1H\x1b[K"+plain+endUpdate {
		t.Errorf("fewer lines: %q", got)
	}
	p.blank = true
	if got := p.paint([]string{"one"}, 3); !strings.Contains(got, clearAll) || !strings.Contains(got, "one") {
		t.Errorf("after a resize: %q", got)
	}
}

// TestBelieved: a size that no terminal has is not believed.
func TestBelieved(t *testing.T) {
	for given, want := range map[Size]Size{{0, 0}: {80, 24}, {-1, 5}: {80, 5}, {9999, 9999}: {1000, 1000}, {132, 43}: {132, 43}} {
		if got := believed(given.Columns, given.Rows); got != want {
			t.Errorf("%v: got %v, want %v", given, got, want)
		}
	}
}
