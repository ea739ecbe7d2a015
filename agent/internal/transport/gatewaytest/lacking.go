package gatewaytest

import (
	"os"
	"testing"
)

// Lacking skips a test that this machine cannot run, with the reason, or fails it when CI is set: there nothing may be missing.
func Lacking(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}
