package join

import (
	"fmt"
	"strings"
	"testing"
)

// TestNotesBounded: of one box only so many notes are kept. The others are shown as they come, and those of other boxes are kept.
func TestNotesBounded(t *testing.T) {
	var out strings.Builder
	s := &terminal{to: &out}
	one, two := s.of("one", false), s.of("two", false)
	for n := range mostNotes + 2 {
		fmt.Fprintf(one, "note: %d\n", n)
	}
	fmt.Fprintln(two, "note: 0")
	if got := out.String(); got != "one: note: 20\none: note: 21\n" || len(s.notes) != mostNotes {
		t.Errorf("%d kept, shown at once: %s", len(s.notes), got)
	}
	s.tellNotes()
	if !strings.Contains(out.String(), "note: 0 (one, two)\n") {
		t.Errorf("got %s", out.String())
	}
}
