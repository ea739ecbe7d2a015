package fleet

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/internal/fleet/clash"
)

// TestProtocolPage holds what muster help protocol says of late uses, and of backdating, against what is judged here.
func TestProtocolPage(t *testing.T) {
	page, err := os.ReadFile("../cli/help/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(page)), " ")
	for _, want := range []string{
		fmt.Sprintf("more than %d seconds after the first use (on a connection from before it: %d minutes)", int(lateUse.Seconds()),
			int(clash.Straggle.Minutes())),
		fmt.Sprintf("or once more than %d minutes after it", int(clash.Straggle.Minutes())),
		fmt.Sprintf("it was issued %d minutes after its NotBefore", int(wire.Backdate.Minutes())),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say: %s", want)
		}
	}
}
