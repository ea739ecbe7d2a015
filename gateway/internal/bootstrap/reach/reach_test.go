package reach_test

import (
	"net"
	"slices"
	"strings"
	"testing"

	"muster"
	"muster/gateway/internal/bootstrap/reach"
)

// TestFirstHop: where a machine that trusts nothing yet fetches its script, and where it goes from there.
func TestFirstHop(t *testing.T) {
	for _, c := range []struct {
		name, public, plain, resolve string
		own                          bool
		node, hop                    string
		meets                        muster.Certificate
	}{
		{"own certificate", "https://gw:7443", "", "", true, "https://gw:7443", "https://gw:7443", muster.OwnCertificate},
		{"public certificate", "https://gw", "", "", false, "https://gw", "https://gw", muster.SystemCertificate},
		{"plain", "http://gw:80", ":80", "", true, "https://gw:7443", "http://gw:80", muster.NoCertificate},
		{"no name, plain", "https://gw:7443", ":7480", "192.0.2.1", true,
			"https://gw:7443", "http://192.0.2.1:7480", muster.NoCertificate},
		{"no name, plain at the address", "https://gw:7443", "192.0.2.1:7480", "192.0.2.1", true,
			"https://gw:7443", "http://192.0.2.1:7480", muster.NoCertificate},
		{"no name, plain for a tunnel alone", "https://gw:7443", "127.0.0.1:7480", "192.0.2.1", true,
			"https://gw:7443", "https://192.0.2.1:7443", muster.OwnCertificate},
		{"no name, IPv6", "https://gw:7443", "", "2001:db8::1", true,
			"https://gw:7443", "https://[2001:db8::1]:7443", muster.OwnCertificate},
		{"no name, public certificate", "https://gw", "", "192.0.2.1", false, "https://gw", "https://gw", muster.SystemCertificate},
	} {
		r := reach.Reach{Listen: ":7443", PlainListen: c.plain, PublicURL: c.public, PublicGiven: true, OwnCertificate: c.own}
		hop, meets := r.FirstHop(c.resolve)
		if node := r.NodeURL(); node != c.node || hop != c.hop || meets != c.meets {
			t.Errorf("%s: got %s, %s by %s; want %s, %s by %s", c.name, node, hop, meets, c.node, c.hop, c.meets)
		}
	}
}

// TestEndsTLS: a token goes into a URL only if nobody between the machine and the gateway reads it.
func TestEndsTLS(t *testing.T) {
	for _, c := range []struct {
		name, public, plain string
		files, proxied      bool // the certificate is of files; a proxy is trusted
		want                bool
	}{
		{"own certificate", "https://gw:7443", "", false, false, true},
		{"own certificate, another port outside", "https://gw", ":80", false, false, true},
		{"own certificate behind a proxy on the same port", "https://gw:7443", "", false, true, true}, // the root vouches for it
		{"behind a proxy", "https://gw", "127.0.0.1:7480", false, true, false},
		{"behind a proxy, with a certificate of its own behind", "https://gw:7443", "", true, true, false},
		{"public certificate", "https://gw:7443", "", true, false, true},
		{"public certificate, another port outside", "https://gw", "", true, false, true},
		{"public certificate, first hop without TLS", "https://gw:7443", ":80", true, false, true},
		{"perhaps a tunnel to the plain port", "https://gw", "127.0.0.1:7480", true, false, false},
		{"no TLS", "http://gw", ":80", false, false, false},
	} {
		r := reach.Reach{
			Listen: ":7443", PlainListen: c.plain, PublicURL: c.public, PublicGiven: true, OwnCertificate: !c.files, Proxied: c.proxied,
		}
		if got := r.EndsTLS(c.public); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestComplete(t *testing.T) {
	for _, c := range []struct {
		public, listen, plain string
		proxied               bool
		want, err             string
	}{
		{"https://gw.example/", ":7443", "", false, "https://gw.example", ""},
		{"", "192.0.2.1:7443", "", false, "https://192.0.2.1:7443", ""},
		{"", "127.0.0.1:0", "", false, "https://127.0.0.1:0", ""},
		{"http://gw", ":7443", ":80", false, "http://gw", ""},
		{"http://gw", ":7443", "", true, "http://gw", ""},
		{"http://gw:81", ":7443", "", false, "", "add --plain-listen :81"},
		{"http://gw", ":7443", "", false, "", "add --plain-listen :80"},
		{"https://gw:0", ":7443", "", false, "", "a port is a number from 1 to 65535"},
		{"https://gw/path", ":7443", "", false, "", "write https://host"},
		{"gw", ":7443", "", false, "", "write https://host"},
		{"https://user@gw", ":7443", "", false, "", "write https://host"},
		{"https://g'w", ":7443", "", false, "", "is not https://HOST"},
	} {
		r, err := reach.Reach{PublicURL: c.public, Listen: c.listen, PlainListen: c.plain, Proxied: c.proxied}.Complete("--public-url")
		if c.err == "" && (err != nil || r.PublicURL != c.want || r.PublicGiven != (c.public != "")) {
			t.Errorf("%q at %s: %+v, %v", c.public, c.listen, r, err)
		}
		if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err) || !strings.HasPrefix(err.Error(), "--public-url")) {
			t.Errorf("%q at %s: %v, want %q", c.public, c.listen, err, c.err)
		}
	}
}

func TestHosts(t *testing.T) {
	r := reach.Reach{PublicURL: "https://gw.example:443", Listen: "192.0.2.1:7443"}
	if got := r.Hosts(); len(got) < 2 || !slices.Equal(got[:2], []string{"gw.example", "192.0.2.1"}) {
		t.Errorf("got %q", got)
	}
	r.Listen = "0.0.0.0:7443"
	if got := r.Hosts(); slices.Contains(got, "0.0.0.0") {
		t.Errorf("every address is a name: %q", got)
	}
}

func TestRealPorts(t *testing.T) {
	a := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4711}
	for asked, want := range map[string]string{"127.0.0.1:0": "127.0.0.1:4711", ":0": ":4711", ":7443": ":7443", "x": "x"} {
		if got := reach.RealAddress(asked, a); got != want {
			t.Errorf("%s: %s, want %s", asked, got, want)
		}
	}
	for asked, want := range map[string]string{"https://gw:0": "https://gw:4711", "https://gw": "https://gw", "https://gw:1": "https://gw:1"} {
		if got := reach.RealURL(asked, a); got != want {
			t.Errorf("%s: %s, want %s", asked, got, want)
		}
	}
}
