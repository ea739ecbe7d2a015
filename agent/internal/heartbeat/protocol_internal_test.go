package heartbeat

import (
	"os"
	"regexp"
	"testing"
)

// TestProtocolPage compares what muster help protocol says about refusals after enrolment with what this agent does: final, or not.
func TestProtocolPage(t *testing.T) {
	page, err := os.ReadFile("../../../gateway/internal/cli/help/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	codes := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| [0-9]{3} \\| [a-z -]+? \\| ([a-z -]+?) \\|").FindAllSubmatch(page, -1)
	if len(codes) < 30 {
		t.Errorf("the page has %d codes", len(codes))
	}
	for _, code := range codes {
		if name, enrolled := string(code[1]), string(code[2]); forGood(name) != (enrolled == "final") {
			t.Errorf("the page says of %s %q, for good is %t", name, enrolled, forGood(name))
		}
	}
}
