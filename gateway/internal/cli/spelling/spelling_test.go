package spelling_test

import (
	"strings"
	"testing"

	"muster/gateway/internal/cli/spelling"
)

// TestNearest: only a slip of the hand is a misspelling. Two names that are equally near are both named.
func TestNearest(t *testing.T) {
	names := []string{"ls", "login", "logs", "psk set", "node create", "node ls", "events", "backup", "key ls", "key rotate", "psk rotate"}
	for typed, want := range map[string]string{
		"lgos": "logs", "evnets": "events", "evnts": "events", "bakcup": "backup", "lss": "ls", "sl": "", "l": "", "price set": "",
		"node delete": "", "nod ls": "node ls", "node lss": "node ls", "node xy": "", "logging": "login", "backup now": "backup",
		"pskk rotate": "psk rotate", "lo": "", "logi": "logs or login", "": "", "kay rotat": "key rotate", strings.Repeat("x", 1<<20): "",
	} {
		near := spelling.Nearest(strings.Fields(typed), names)
		if typed == "logi" && len(near) == 2 {
			continue
		}
		if got := strings.Join(near, " or "); got != want {
			t.Errorf("%.40q: got %q, want %q", typed, got, want)
		}
	}
}
