//go:build real

package nodeapi_test

import "testing"

// TestLongCallsForMinutes goes on for longer than a certificate may be used after its successor without being taken for a copy's.
func TestLongCallsForMinutes(t *testing.T) {
	longCalls(t, 20)
}
