package wire_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"muster/agent/wire"
)

// TestGateways: nodes go to https URLs of a host alone, each once, and to a bounded number of them.
func TestGateways(t *testing.T) {
	given := []string{"https://gw1.example:7443", "http://gw2.example:7443", "https://GW1.example:7443/", "https://[fd00::1]:7443", "https://10.0.0.1",
		"https://user@gw", "https://gw/path", "https://gw?a=b", "https://gw#a", "https://", "https://:7443", "https://gw:0", "https://gw:70000",
		"https://g w", "https://gw\n", "https://gw%41", "gw", "", "https://" + strings.Repeat("a", wire.MaxGatewayURL)}
	want := []string{"https://gw1.example:7443", "https://[fd00::1]:7443", "https://10.0.0.1"}
	if got := wire.Gateways(given); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	var many []string
	for i := range 2 * wire.MaxGateways {
		many = append(many, fmt.Sprintf("https://gw%d", i))
	}
	if got := wire.Gateways(many); !slices.Equal(got, many[:wire.MaxGateways]) {
		t.Errorf("got %q", got)
	}
	if got := wire.Gateways(nil); got != nil {
		t.Errorf("of nothing: %q", got)
	}
}

func FuzzGateways(f *testing.F) {
	f.Add("https://gw1.example:7443", "https://[fd00::1]")
	f.Add("http://gw", "https://user:password@gw/x?y#z")
	f.Add("https://gw:0x1", "https://[::1%25eth0]:1")
	f.Fuzz(func(t *testing.T, one, other string) {
		got := wire.Gateways([]string{one, other})
		if !slices.Equal(wire.Gateways(got), got) {
			t.Errorf("%q is not taken again as it is: %q", got, wire.Gateways(got))
		}
		for _, text := range got {
			u, err := url.Parse(text)
			if err != nil || u.Scheme != "https" || u.Hostname() == "" || text != "https://"+u.Host || strings.ContainsAny(text, "@?#% \n\"'$`\\") {
				t.Errorf("%q was taken", text)
			}
		}
	})
}
