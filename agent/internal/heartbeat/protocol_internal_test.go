package heartbeat

import (
	"os"
	"regexp"
	"testing"
)

// TestProtocolPage holds what muster help protocol says of refusals after enrolment against what this agent does: final, or not.
func TestProtocolPage(t *testing.T) {
	page, err := os.ReadFile("../../../gateway/internal/cli/help/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| [0-9]{3} \\| [a-z -]+ \\| ([a-z -]+?) \\|").FindAllSubmatch(page, -1)
	if len(rows) < 30 {
		t.Fatalf("the page has %d codes", len(rows))
	}
	for _, row := range rows {
		code, does := string(row[1]), string(row[2])
		if forGood(code) != (does == "final") {
			t.Errorf("the page says of %s %q, for good is %t", code, does, forGood(code))
		}
	}
}
