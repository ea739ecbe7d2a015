// Package origin tells where a request comes from. Forwarding headers count only when the peer that sent them is a proxy
// that the operator trusts: anyone can write them.
package origin

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Headers in which proxies say for whom they ask. Every proxy adds to the first one. The last proxy writes the other.
const (
	chainHeader = "X-Forwarded-For"
	realHeader  = "X-Real-Ip"
)

// Resolver knows the trusted proxies. The zero value trusts none. It is safe for concurrent use.
type Resolver struct {
	trusted []netip.Prefix
	header  string // the one that counts; "": chainHeader and realHeader
}

// NewResolver reads CIDRs, or single addresses, of trusted proxies, and the name of the one header in which they give the client's
// address. Without a name X-Forwarded-For and X-Real-IP count.
func NewResolver(cidrs []string, header string) (Resolver, error) {
	r := Resolver{header: http.CanonicalHeaderKey(header)}
	if header != "" && (strings.ContainsFunc(header, outsideName) || r.header == "Forwarded") {
		return Resolver{}, fmt.Errorf("%q is no header with an address in it: name one such as X-Real-IP or CF-Connecting-IP", header)
	}
	for _, text := range cidrs {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			address, single := netip.ParseAddr(text)
			if single != nil {
				return Resolver{}, fmt.Errorf("trusted proxy %q is neither an address nor a CIDR such as 10.0.0.0/8", text)
			}
			prefix = netip.PrefixFrom(address, address.BitLen())
		}
		r.trusted = append(r.trusted, unmapped(prefix).Masked())
	}
	return r, nil
}

// outsideName tells whether a header's name has no such character.
func outsideName(c rune) bool {
	return c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
}

// unmapped turns ::ffff:10.0.0.0/104 into 10.0.0.0/8: peers are compared in the short form.
func unmapped(p netip.Prefix) netip.Prefix {
	const mapped = 96 // bits before the IPv4 address (RFC 4291 section 2.5.5.2)
	if !p.Addr().Is4In6() || p.Bits() < mapped {
		return p
	}
	return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
}

// Behind reports whether the request came through a trusted proxy.
func (r Resolver) Behind(q *http.Request) bool { return r.trusts(peer(q)) }

// Forwarded reports whether a trusted proxy has read the request and passed it on. Such a proxy adds a header that says for whom. Without
// that header, the request comes from the machine at the trusted address itself, or through a proxy that passes connections on as
// they are.
func (r Resolver) Forwarded(q *http.Request) bool {
	if !r.Behind(q) {
		return false
	}
	for _, name := range [...]string{chainHeader, "X-Forwarded-Proto", "X-Forwarded-Host", realHeader, "Cf-Connecting-Ip", "True-Client-Ip",
		"Forwarded", "Via", r.header} {
		if len(q.Header[name]) > 0 {
			return true
		}
	}
	return false
}

// Own reports whether a request over TLS comes straight from a program on the gateway's own machine, though that machine's address is
// that of a trusted proxy. A proxy on the same machine may write no forwarding header at all. So two more signs of a proxy count, which
// are of the proxy's own connection: HTTP/1.0, and a TLS handshake that does not name the host of the request. From another machine no
// request is its own: there, a proxy that writes no header looks as a program does.
func (r Resolver) Own(q *http.Request) bool {
	return q.TLS != nil && !r.Forwarded(q) && q.ProtoAtLeast(1, 1) && sameMachine(q) && namesItsHost(q)
}

// sameMachine tells whether both ends of a connection are on one machine.
func sameMachine(q *http.Request) bool {
	local, ok := q.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	at, err := netip.ParseAddrPort(local.String())
	if err != nil {
		return false
	}
	from := peer(q)
	return from.IsLoopback() || from.IsValid() && from == at.Addr().Unmap().WithZone("")
}

// namesItsHost tells whether the TLS handshake names the host that the request is for. A handshake never names an address. So a request
// for an address is not proven: a proxy that names nothing looks the same, and its client chooses the host of the request.
func namesItsHost(q *http.Request) bool {
	host := q.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return q.TLS.ServerName != "" && strings.EqualFold(strings.TrimSuffix(host, "."), q.TLS.ServerName)
}

// Place returns the address under which the requests of a peer are counted, and whether the peer is a trusted proxy, which carries many
// clients.
func (r Resolver) Place(peer net.Addr) (address netip.Addr, many bool) {
	with, err := netip.ParseAddrPort(peer.String())
	if err != nil {
		return netip.Addr{}, false
	}
	at := with.Addr().Unmap().WithZone("")
	return Site(at), r.trusts(at)
}

// Site groups addresses for counting: IPv6 by the /64 that one customer usually has, all others by themselves.
func Site(address netip.Addr) netip.Addr {
	const site = 64 // bits
	if address = address.Unmap(); !address.Is6() {
		return address
	}
	return netip.PrefixFrom(address.WithZone(""), site).Masked().Addr()
}

// SiteOf does what Site does, for an address in text, as Address returns it. A text that is no address stays unchanged.
func SiteOf(text string) string {
	address, err := netip.ParseAddr(text)
	if err != nil {
		return text
	}
	return Site(address).String()
}

// Open reports whether a trusted proxy says that the request came to it without TLS.
func (r Resolver) Open(q *http.Request) bool {
	return r.Behind(q) && strings.EqualFold(scheme(q), "http")
}

// Secured reports whether a trusted proxy says that the request came to it over TLS.
func (r Resolver) Secured(q *http.Request) bool {
	return r.Behind(q) && strings.EqualFold(scheme(q), "https")
}

// scheme is the scheme that the last proxy wrote.
func scheme(q *http.Request) string {
	hops := strings.Split(strings.Join(q.Header["X-Forwarded-Proto"], ","), ",")
	return strings.TrimSpace(hops[len(hops)-1])
}

// Address returns the client's address: the peer's own, or what a trusted proxy says. A proxy writes one header, and passes others on as
// the client wrote them. So if no header was named to NewResolver and two headers name different clients, neither is believed: then it
// returns the proxy's address, and nobody can pose as another. Over a Unix socket it is "socket".
func (r Resolver) Address(q *http.Request) string {
	at := peer(q)
	if !at.IsValid() {
		return "socket"
	}
	if !r.trusts(at) {
		return at.String()
	}
	switch r.header {
	case "":
		return r.agreed(at, q.Header).String()
	case chainHeader:
		return r.chain(at, q.Header[chainHeader]).String()
	}
	return single(at, q.Header[r.header]).String()
}

// agreed is the address that both usual headers give. If only one header is there, it is that one's.
func (r Resolver) agreed(peer netip.Addr, h http.Header) netip.Addr {
	if len(h[chainHeader]) == 0 {
		return single(peer, h[realHeader])
	}
	client := r.chain(peer, h[chainHeader])
	if len(h[realHeader]) == 0 {
		return client
	}
	told := single(peer, h[realHeader])
	betweenProxies := r.trusts(told) && told != peer // the last of several proxies was asked by another one
	if told == client || betweenProxies {
		return client
	}
	return peer
}

// chain is the last entry that is not a trusted proxy. The client may have written what stands left of it.
func (r Resolver) chain(peer netip.Addr, values []string) netip.Addr {
	at := peer
	for _, entry := range slices.Backward(strings.Split(strings.Join(values, ","), ",")) {
		address, ok := forwardedAddress(strings.TrimSpace(entry))
		if !ok {
			break // whoever wrote it, nothing left of it can be believed
		}
		if at = address; !r.trusts(at) {
			break
		}
	}
	return at
}

// single reads a header that holds one address. A proxy that adds its own beside the client's has it twice.
func single(peer netip.Addr, values []string) netip.Addr {
	if len(values) != 1 {
		return peer
	}
	if address, ok := forwardedAddress(strings.TrimSpace(values[0])); ok {
		return address
	}
	return peer
}

// forwardedAddress reads one entry: an address, or as some proxies write it, an address with a port. A zone means nothing
// here and may be any text, so it is dropped.
func forwardedAddress(entry string) (netip.Addr, bool) {
	address, err := netip.ParseAddr(entry)
	if err != nil {
		with, err := netip.ParseAddrPort(entry)
		if err != nil {
			return netip.Addr{}, false
		}
		address = with.Addr()
	}
	return address.Unmap().WithZone(""), true
}

func (r Resolver) trusts(address netip.Addr) bool {
	return slices.ContainsFunc(r.trusted, func(p netip.Prefix) bool { return p.Contains(address) })
}

func peer(q *http.Request) netip.Addr {
	host, _, err := net.SplitHostPort(q.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	return address.Unmap().WithZone("")
}
