package main

import (
	"io"
	"strings"
	"testing"
	"testing/fstest"
)

// TestHoldsAgents: a gateway does not start with bounds below the agents that it carries, and says which flag to change.
func TestHoldsAgents(t *testing.T) {
	agents := fstest.MapFS{"linux-amd64/muster-agent": {Data: make([]byte, 600)}, "linux-arm64/muster-agent": {Data: make([]byte, 500)}}
	for _, c := range []struct{ flag, value, want string }{
		{"--registry-max-blob", "1", "linux-amd64 that this gateway carries has 600"},
		{"--registry-max-blob", "599", "--registry-max-blob allows a blob 599 bytes"},
		{"--registry-max-blob", "600", ""},
		{"--registry-max-blob", "0", ""},
		{"--registry-quota", "1099", "--registry-quota allows all blobs 1099 bytes"},
		{"--registry-quota", "1100", ""},
		{"--registry-quota", "0", ""},
	} {
		s, err := parseSettings([]string{"--data", t.TempDir(), c.flag, c.value}, func(string) string { return "" }, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		err = s.holdsAgents(agents)
		if (err != nil) != (c.want != "") || err != nil && !(strings.Contains(err.Error(), c.want) && strings.Contains(err.Error(), "leave it out")) {
			t.Errorf("%s %s: %v, want %q", c.flag, c.value, err, c.want)
		}
		if err := s.holdsAgents(nil); err != nil {
			t.Errorf("no agents: %v", err)
		}
	}
}
