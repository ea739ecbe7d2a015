package bootstrap

import (
	"strings"
	"testing"
)

func TestHostPort(t *testing.T) {
	for text, want := range map[string]bool{"r": true, "r.example": true, "r.example:5000": true, "192.0.2.1:5000": true,
		"[2001:db8::1]": true, "[2001:db8::1]:5000": true,
		"": false, "a:99999": false, "x:0": false, "a:": false, "a..b": false, ".a": false, "-a": false, "a-": false, "a:b:1": false,
		"[a]": false, "[2001:db8::1": false, "2001:db8::1": false,
		"[192.0.2.1]": false, "https://r": false, "a_b": false, "a:+1": false, "999.1.1.1": false, "1.2.3": false, "7": false, "a.7": false,
		"0.1.2.3:5000": false, "7.a": true, strings.Repeat("a.", 127) + "a": false} {
		if got := hostPort(text); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}
