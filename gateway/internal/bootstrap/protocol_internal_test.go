package bootstrap

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestProtocolPage holds what muster help protocol says of credentials against what is allowed here.
func TestProtocolPage(t *testing.T) {
	page, err := os.ReadFile("../cli/help/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(page)), " ")
	for _, want := range []string{
		fmt.Sprintf("%d wrong MACs of one address in a minute", failsAllowed),
		fmt.Sprintf("A nonce of a register request is remembered for %d minutes", int(nonceMemory.Minutes())),
		fmt.Sprintf("any UTF-8 text of at least %d characters", minPSK),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say: %s", want)
		}
	}
}
