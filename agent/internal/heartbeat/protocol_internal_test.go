package heartbeat

import (
	"testing"

	"muster/agent/internal/protocolpage"
)

// TestProtocolPage compares what muster help protocol says about refusals after enrolment with what this agent does: final, or not.
func TestProtocolPage(t *testing.T) {
	for _, code := range protocolpage.Codes(t) {
		if forGood(code.Name) != (code.Enrolled == "final") {
			t.Errorf("the page says of %s %q, for good is %t", code.Name, code.Enrolled, forGood(code.Name))
		}
	}
}
