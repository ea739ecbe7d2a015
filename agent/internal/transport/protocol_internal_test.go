package transport

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestProtocolPage compares what muster help protocol says about trying again with what this agent does.
func TestProtocolPage(t *testing.T) {
	page, err := os.ReadFile("../../../gateway/internal/cli/help/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(page)), " ")
	for _, want := range []string{
		fmt.Sprintf("between %g seconds and a bound: %g seconds, doubled with every further failure, at most %g minutes",
			leastWait.Seconds(), firstWait.Seconds(), MaxWait.Minutes()),
		fmt.Sprintf("when it happens %d times in a row, wait", maxAttempts),
		fmt.Sprintf("One exchange should take %g seconds at most", DefaultTimeout.Seconds()),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say: %s", want)
		}
	}
}
