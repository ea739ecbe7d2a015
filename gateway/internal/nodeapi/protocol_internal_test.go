package nodeapi

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestProtocolPage compares what muster help protocol says about the pace of renewals with what this API allows.
func TestProtocolPage(t *testing.T) {
	page, err := os.ReadFile("../cli/help/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(page)), " ")
	for _, want := range []string{
		fmt.Sprintf("A node may ask %d times in a row, then once in a hundredth", paceBurst),
		fmt.Sprintf("| time for a body to arrive | %d s |", int(usualBodyTime.Seconds())),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say: %s", want)
		}
	}
}
