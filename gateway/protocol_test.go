package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"muster/gateway/internal/httpserver"
)

// TestProtocolPage compares what muster help protocol says about connections with what the listeners do.
func TestProtocolPage(t *testing.T) {
	page, err := os.ReadFile("internal/cli/help/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(page)), " ")
	for _, want := range []string{
		fmt.Sprintf("idle for %d seconds, any after %d minutes without a request", int(httpserver.LimitsFor(1024).Quiet.Seconds()),
			int(idleTime.Minutes())),
		fmt.Sprintf("whose headers take longer than %d seconds; headers have at most %d bytes", int(headerTime.Seconds()), maxHeader),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say: %s", want)
		}
	}
}
