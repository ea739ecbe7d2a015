package gateway_test

import (
	"strings"
	"testing"

	"muster/gateway/internal/cli/gateway"
	"muster/gateway/internal/datadir"
)

// FuzzSettings: a setting that was written is read back, and what others wrote stays.
func FuzzSettings(f *testing.F) {
	for _, s := range []string{"", "MUSTER_LISTEN=:1", "# MUSTER_LISTEN=:1\n", " MUSTER_LISTEN = ':1' \nX",
		"MUSTER_LISTEN=\"a\\\"b\"\n\n\nY=\"", "\x00=\r\n", "MUSTER_LISTEN=1\nMUSTER_LISTEN=2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		before := datadir.ParseEnv(text)
		after := gateway.WithSettings(text, map[string]string{"data": "/var/lib/muster"}, nil)
		if got := datadir.ParseEnv(after)["MUSTER_DATA"]; got != "/var/lib/muster" && strings.Count(text, "MUSTER_DATA") == 0 {
			t.Errorf("%q: read back as %q", after, got)
		}
		for key, want := range before {
			if got := datadir.ParseEnv(after)[key]; key != "MUSTER_DATA" && got != want {
				t.Errorf("%q: %s was %q and is %q", text, key, want, got)
			}
		}
		if again := gateway.WithSettings(after, map[string]string{"data": "/var/lib/muster"}, nil); again != after {
			t.Errorf("%q becomes %q becomes %q", text, after, again)
		}
	})
}
