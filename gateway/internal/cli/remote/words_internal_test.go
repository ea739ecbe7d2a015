package remote

import (
	"net"
	"strconv"
	"testing"
)

func TestReadOpening(t *testing.T) {
	for text, want := range map[string]opening{
		"22": {"127.0.0.1:22", 22}, "8022:22": {"127.0.0.1:8022", 22}, "0:22": {"127.0.0.1:0", 22},
		"0.0.0.0:8080:80": {"0.0.0.0:8080", 80}, "[::1]:8080:80": {"[::1]:8080", 80}, "localhost:1:2": {"localhost:1", 2},
	} {
		if got, err := readOpening(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0", ":22", "65536", "-1", "x", "80:", "80:x", "x:80", ":80:80", "[::1]", "[::1]:80", "80:0",
		"[]:80:80"} {
		if got, err := readOpening(text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func FuzzReadOpening(f *testing.F) {
	for _, text := range []string{"22", "8022:22", "[::1]:8080:80", ":::", "]:", "a:0:1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o, err := readOpening(text)
		if err != nil {
			return
		}
		host, port, err := net.SplitHostPort(o.local)
		n, bad := strconv.Atoi(port)
		if err != nil || bad != nil || host == "" || n < 0 || n > 65535 || o.port < 1 || o.port > 65535 {
			t.Errorf("%q is read as %+v", text, o)
		}
	})
}
