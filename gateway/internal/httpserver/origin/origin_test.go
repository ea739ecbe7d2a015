package origin_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"muster/gateway/internal/httpserver/origin"
)

func resolver(t *testing.T, cidrs ...string) origin.Resolver {
	t.Helper()
	r, err := origin.NewResolver(cidrs, "")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func request(peer string, header ...string) *http.Request {
	q := &http.Request{RemoteAddr: peer, Header: http.Header{}}
	for i := 0; i < len(header); i += 2 {
		q.Header.Add(header[i], header[i+1])
	}
	return q
}

const (
	forwarded = "X-Forwarded-For"
	real      = "X-Real-IP"
	edge      = "CF-Connecting-IP"
)

// TestAddress: the address is what trusted proxies saw, whatever the client wrote.
func TestAddress(t *testing.T) {
	trusted := []string{"10.0.0.0/8", "fd00::/8", "127.0.0.1"}
	for _, c := range []struct {
		name    string
		trusted []string
		peer    string
		header  []string
		want    string
	}{
		{"a direct client", trusted, "203.0.113.9:4711", nil, "203.0.113.9"},
		{"a direct client over IPv6", trusted, "[2001:db8::9]:4711", nil, "2001:db8::9"},
		{"a direct client's zone is nobody's business", trusted, "[fe80::9%eth0]:4711", nil, "fe80::9"},
		{"a direct client that writes a forwarding header", trusted, "203.0.113.9:4711", []string{forwarded, "10.1.1.1"}, "203.0.113.9"},
		{"a direct client that writes the edge's header", trusted, "203.0.113.9:4711", []string{edge, "10.1.1.1"}, "203.0.113.9"},
		{"nobody is trusted", nil, "10.0.0.1:80", []string{forwarded, "198.51.100.7", edge, "198.51.100.8"}, "10.0.0.1"},
		{"one proxy", trusted, "10.0.0.1:80", []string{forwarded, "198.51.100.7"}, "198.51.100.7"},
		{"a proxy in the IPv4-mapped form", trusted, "[::ffff:10.0.0.1]:80", []string{forwarded, "198.51.100.7"}, "198.51.100.7"},
		{"a proxy set in the IPv4-mapped form", []string{"::ffff:10.0.0.0/104"}, "10.0.0.1:80", []string{forwarded, "198.51.100.7"},
			"198.51.100.7"},
		{"a proxy set by its address", trusted, "127.0.0.1:80", []string{forwarded, "198.51.100.7"}, "198.51.100.7"},
		{"a neighbour of a single address", trusted, "127.0.0.2:80", []string{forwarded, "198.51.100.7"}, "127.0.0.2"},
		{"two proxies", trusted, "10.0.0.1:80", []string{forwarded, "198.51.100.7, 10.0.0.2"}, "198.51.100.7"},
		{"two proxies, two headers", trusted, "10.0.0.1:80", []string{forwarded, "198.51.100.7", forwarded, "fd00::2"}, "198.51.100.7"},
		{"a client that wrote an address before", trusted, "10.0.0.1:80", []string{forwarded, "192.0.2.1, 198.51.100.7"}, "198.51.100.7"},
		{"a client that wrote a trusted address before", trusted, "10.0.0.1:80", []string{forwarded, "10.9.9.9, 198.51.100.7"}, "198.51.100.7"},
		{"a client that wrote a header of its own", trusted, "10.0.0.1:80", []string{forwarded, "192.0.2.1", forwarded, "198.51.100.7"},
			"198.51.100.7"},
		{"a client that wrote rubbish before", trusted, "10.0.0.1:80", []string{forwarded, "<script>, 198.51.100.7"}, "198.51.100.7"},
		{"rubbish from the proxy itself", trusted, "10.0.0.1:80", []string{forwarded, "192.0.2.1, unknown"}, "10.0.0.1"},
		{"rubbish beside the other header", trusted, "10.0.0.1:80", []string{forwarded, "unknown", real, "192.0.2.1"}, "10.0.0.1"},
		{"an empty chain", trusted, "10.0.0.1:80", []string{forwarded, "", real, "192.0.2.1"}, "10.0.0.1"},
		{"the proxy's one address", trusted, "10.0.0.1:80", []string{real, "198.51.100.7"}, "198.51.100.7"},
		{"the proxy's one address, over IPv6", trusted, "10.0.0.1:80", []string{real, "2001:db8::7"}, "2001:db8::7"},
		{"the proxy's one address and a chain", trusted, "10.0.0.1:80", []string{forwarded, "192.0.2.1, 198.51.100.7", real, "198.51.100.7"},
			"198.51.100.7"},
		{"one address twice", trusted, "10.0.0.1:80", []string{real, "192.0.2.1", real, "198.51.100.7"}, "10.0.0.1"},
		{"one address with another after it", trusted, "10.0.0.1:80", []string{real, "192.0.2.1, 198.51.100.7"}, "10.0.0.1"},
		{"the last proxy was asked by another one", trusted, "10.0.0.1:80", []string{forwarded, "198.51.100.7, 10.0.0.2", real, "10.0.0.2"},
			"198.51.100.7"},
		{"a client that wrote a chain to a proxy that writes one address", trusted, "10.0.0.1:80",
			[]string{forwarded, "192.0.2.1", real, "198.51.100.7"}, "10.0.0.1"},
		{"a client that wrote one address to a proxy that writes a chain", trusted, "10.0.0.1:80",
			[]string{forwarded, "198.51.100.7", real, "192.0.2.1"}, "10.0.0.1"},
		{"a client that wrote an edge's header", trusted, "10.0.0.1:80", []string{edge, "192.0.2.1"}, "10.0.0.1"},
		{"a client that wrote an edge's header beside the chain", trusted, "10.0.0.1:80", []string{forwarded, "198.51.100.7", edge, "192.0.2.1"},
			"198.51.100.7"},
		{"all of the chain is trusted", trusted, "10.0.0.1:80", []string{forwarded, "10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{"an entry with a port", trusted, "10.0.0.1:80", []string{forwarded, "198.51.100.7:5060"}, "198.51.100.7"},
		{"an IPv6 entry with a port", trusted, "10.0.0.1:80", []string{forwarded, "[2001:db8::7]:5060"}, "2001:db8::7"},
		{"a mapped entry", trusted, "10.0.0.1:80", []string{forwarded, "::ffff:198.51.100.7"}, "198.51.100.7"},
		{"a mapped trusted entry", trusted, "10.0.0.1:80", []string{forwarded, "198.51.100.7, ::ffff:10.0.0.2"}, "198.51.100.7"},
		{"a zone in an entry", trusted, "10.0.0.1:80", []string{forwarded, "fe80::7%<script>"}, "fe80::7"},
		{"the socket", trusted, "@", []string{forwarded, "198.51.100.7"}, "socket"},
		{"the socket without a name", trusted, "", nil, "socket"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := resolver(t, c.trusted...).Address(request(c.peer, c.header...)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestNamedHeader: where the operator names the header that the proxy writes, no other one counts.
func TestNamedHeader(t *testing.T) {
	for _, c := range []struct {
		name, header string
		sent         []string
		want         string
	}{
		{"an edge's", "cf-connecting-ip", []string{edge, "198.51.100.7", forwarded, "192.0.2.1", real, "192.0.2.1"}, "198.51.100.7"},
		{"it is not there", edge, []string{forwarded, "192.0.2.1", real, "192.0.2.1"}, "10.0.0.1"},
		{"it is there twice", edge, []string{edge, "198.51.100.7", edge, "192.0.2.1"}, "10.0.0.1"},
		{"it holds no address", edge, []string{edge, "nobody"}, "10.0.0.1"},
		{"one address", real, []string{real, "198.51.100.7", forwarded, "192.0.2.1"}, "198.51.100.7"},
		{"a chain", forwarded, []string{forwarded, "192.0.2.1, 198.51.100.7, 10.0.0.2", real, "192.0.2.1"}, "198.51.100.7"},
		{"one of no fame", "X-Client", []string{"X-Client", "198.51.100.7"}, "198.51.100.7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := origin.NewResolver([]string{"10.0.0.0/8"}, c.header)
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Address(request("10.0.0.1:80", c.sent...)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if got := r.Address(request("203.0.113.9:80", c.sent...)); got != "203.0.113.9" {
				t.Errorf("a direct client got %s", got)
			}
			if !r.Forwarded(request("10.0.0.1:80", c.header, "x")) {
				t.Error("a request with the named header does not count as passed on")
			}
		})
	}
	for _, header := range []string{"Forwarded", "X-Real-IP: 1", "X Real", "Ümlaut"} {
		if _, err := origin.NewResolver(nil, header); err == nil || !strings.Contains(err.Error(), "CF-Connecting-IP") {
			t.Errorf("%q: got %v, want an error that names a good one", header, err)
		}
	}
}

// TestPlace: connections are counted by address, those of one IPv6 customer together and each of a proxy by itself.
func TestPlace(t *testing.T) {
	r := resolver(t, "10.0.0.0/8")
	for _, c := range []struct {
		peer, want string
		many       bool
	}{
		{"203.0.113.9:1", "203.0.113.9", false},
		{"[::ffff:203.0.113.9]:1", "203.0.113.9", false},
		{"[2001:db8:1:2:3:4:5:6]:1", "2001:db8:1:2::", false},
		{"[2001:db8:1:2:ffff::]:1", "2001:db8:1:2::", false},
		{"[fe80::1%eth0]:1", "fe80::", false},
		{"10.2.3.4:1", "10.2.3.4", true},
		{"[::ffff:10.2.3.4]:1", "10.2.3.4", true},
	} {
		at, many := r.Place(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.peer)))
		if at.String() != c.want || many != c.many {
			t.Errorf("%s: got %s and %v, want %s and %v", c.peer, at, many, c.want, c.many)
		}
	}
	if at, many := r.Place(&net.UnixAddr{}); at.IsValid() || many {
		t.Errorf("a socket has the address %s", at)
	}
}

func TestBehind(t *testing.T) {
	r := resolver(t, "10.0.0.0/8")
	for peer, want := range map[string]bool{
		"10.2.3.4:1": true, "[::ffff:10.2.3.4]:1": true, "11.2.3.4:1": false, "[2001:db8::1]:1": false, "@": false, "": false,
	} {
		if got := r.Behind(request(peer, forwarded, "10.0.0.1")); got != want {
			t.Errorf("peer %q: got %v, want %v", peer, got, want)
		}
	}
}

func TestNewResolverRefuses(t *testing.T) {
	for _, text := range []string{"", "proxy.example", "10.0.0.0/33", "10.0.0/8", "10.0.0.1:80", "10.0.0.0/8,10.1.0.0/16"} {
		_, err := origin.NewResolver([]string{"127.0.0.1", text}, "")
		if err == nil || !strings.Contains(err.Error(), "10.0.0.0/8") {
			t.Errorf("%q: got %v, want an error that shows the form", text, err)
		}
	}
}

func FuzzAddress(f *testing.F) {
	for _, seed := range []string{"198.51.100.7", "192.0.2.1, 10.0.0.2", "[2001:db8::7]:1", "fe80::1%x", ",,", "10.0.0.1, unknown"} {
		f.Add(seed, seed)
	}
	r, err := origin.NewResolver([]string{"10.0.0.0/8"}, "")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, chain, client string) {
		got := r.Address(request("10.0.0.1:80", forwarded, chain, real, client))
		if strings.Trim(got, "0123456789abcdef:.") != "" {
			t.Errorf("%q is no address", got)
		}
	})
}

// TestForwarded: only a trusted proxy's headers say that it has read a request, and whether the request came to it over TLS.
func TestForwarded(t *testing.T) {
	r, err := origin.NewResolver([]string{"10.0.0.0/8"}, "")
	if err != nil {
		t.Fatal(err)
	}
	const scheme = "X-Forwarded-Proto"
	for _, c := range []struct {
		name                     string
		peer                     string
		header                   []string
		forwarded, open, secured bool
	}{
		{"a machine at a trusted address", "10.0.0.1:80", nil, false, false, false},
		{"a client that writes it all", "203.0.113.9:80", []string{forwarded, "10.1.1.1", scheme, "http"}, false, false, false},
		{"a proxy", "10.0.0.1:80", []string{forwarded, "198.51.100.7"}, true, false, false},
		{"an edge", "10.0.0.1:80", []string{edge, "198.51.100.7"}, true, false, false},
		{"the standard's header", "10.0.0.1:80", []string{"Forwarded", "for=198.51.100.7"}, true, false, false},
		{"a proxy over TLS", "10.0.0.1:80", []string{scheme, "HTTPS"}, true, false, true},
		{"a proxy without", "10.0.0.1:80", []string{scheme, "http"}, true, true, false},
		{"the last proxy has the word", "10.0.0.1:80", []string{scheme, "https, http"}, true, true, false},
		{"the last header has the word", "10.0.0.1:80", []string{scheme, "http", scheme, "https"}, true, false, true},
	} {
		q := request(c.peer, c.header...)
		if got := r.Forwarded(q); got != c.forwarded {
			t.Errorf("%s: forwarded %v", c.name, got)
		}
		if got := r.Open(q); got != c.open {
			t.Errorf("%s: open %v", c.name, got)
		}
		if got := r.Secured(q); got != c.secured {
			t.Errorf("%s: secured %v", c.name, got)
		}
	}
}

// TestOwn: what comes from a trusted proxy's address is the machine's own only if no sign speaks for a proxy.
func TestOwn(t *testing.T) {
	r, err := origin.NewResolver([]string{"127.0.0.0/8", "::1", "192.0.2.7", "10.0.0.0/8"}, "X-Client")
	if err != nil {
		t.Fatal(err)
	}
	v4 := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 7443}
	local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7443}
	for _, c := range []struct {
		name, peer string
		at         net.Addr
		host, sni  string
		proto      int // minor version of HTTP/1
		header     []string
		plain      bool
		want       bool
	}{
		{name: "a program on the machine", peer: "127.0.0.1:80", at: local, host: "localhost:7443", sni: "localhost", want: true},
		{name: "by the machine's name", peer: "127.0.0.1:80", at: local, host: "gw.example:7443", sni: "gw.example", want: true},
		{name: "in capitals", peer: "127.0.0.1:80", at: local, host: "GW.example.", sni: "gw.EXAMPLE", want: true},
		{name: "by another address of the machine", peer: "192.0.2.7:80", at: v4, host: "gw:7443", sni: "gw", want: true},
		{name: "over IPv6", peer: "[::1]:80", at: &net.TCPAddr{IP: net.IPv6loopback, Port: 7443}, host: "localhost", sni: "localhost",
			want: true},
		{name: "a client's address, no name in TLS", peer: "127.0.0.1:80", at: local, host: "127.0.0.1:7443"},
		{name: "the same over IPv6", peer: "[::1]:80", at: local, host: "[::1]"},
		{name: "no host, no name in TLS", peer: "127.0.0.1:80", at: local},
		{name: "forwarded", peer: "127.0.0.1:80", at: local, host: "localhost", sni: "localhost", header: []string{forwarded, "198.51.100.7"}},
		{name: "with an empty header", peer: "127.0.0.1:80", at: local, host: "localhost", sni: "localhost", header: []string{forwarded, ""}},
		{name: "with the named header", peer: "127.0.0.1:80", at: local, host: "localhost", sni: "localhost", header: []string{"X-Client", "198.51.100.7"}},
		{name: "with Via", peer: "127.0.0.1:80", at: local, host: "localhost", sni: "localhost", header: []string{"Via", "1.1 x"}},
		{name: "HTTP/1.0", peer: "127.0.0.1:80", at: local, host: "localhost", sni: "localhost", proto: -1},
		{name: "a client's host, no name in TLS", peer: "127.0.0.1:80", at: local, host: "gw.example"},
		{name: "a client's host, another name in TLS", peer: "127.0.0.1:80", at: local, host: "gw.example", sni: "backend"},
		{name: "an address, a name in TLS", peer: "127.0.0.1:80", at: local, host: "127.0.0.1:7443", sni: "backend"},
		{name: "no host", peer: "127.0.0.1:80", at: local, host: "", sni: "gw"},
		{name: "another machine", peer: "10.0.0.5:80", at: v4, host: "gw", sni: "gw"},
		{name: "not known where it came to", peer: "192.0.2.7:80", host: "gw", sni: "gw"},
		{name: "without TLS", peer: "127.0.0.1:80", at: local, host: "localhost", sni: "localhost", plain: true},
	} {
		q := request(c.peer, c.header...)
		q.Host = c.host
		q.ProtoMajor = 1
		q.ProtoMinor = 1 + c.proto
		if !c.plain {
			q.TLS = &tls.ConnectionState{ServerName: c.sni}
		}
		if c.at != nil {
			q = q.WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, c.at))
		}
		if got := r.Own(q); got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
}

// TestSiteOf: one customer's network counts as one. A text that is no address stays as it is.
func TestSiteOf(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.9": "192.0.2.9", "::ffff:192.0.2.9": "192.0.2.9", "socket": "socket", "": "",
		"2001:db8::1": "2001:db8::", "2001:db8::ffff:1": "2001:db8::", "2001:db8:0:1::1": "2001:db8:0:1::", "fe80::1%eth0": "fe80::",
	} {
		if got := origin.SiteOf(text); got != want {
			t.Errorf("SiteOf(%s) = %s, want %s", text, got, want)
		}
	}
}
