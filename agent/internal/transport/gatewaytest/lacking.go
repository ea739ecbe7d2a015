package gatewaytest

import (
	"os"
	"testing"
)

// Lacking skips a test that this machine cannot run. If the variable CI is set it fails the test, because there nothing may be missing.
func Lacking(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}
