package post

import (
	"errors"
	"net/netip"
	"syscall"
)

// errForbidden is an address to which nothing goes.
var errForbidden = errors.New("nothing is sent to this address")

// Guard refuses addresses that only the gateway's own machine, or its cloud's, can mean. Names may lead there, so the address counts.
func Guard(tenant bool) func(network, address string, _ syscall.RawConn) error {
	return refuse(func(ip netip.Addr) bool { return isOwn(ip) || tenant && ip.IsLoopback() })
}

// GuardPublic refuses private networks as well: for requests whose answer tells a tenant what is at an address that it has chosen.
func GuardPublic() func(network, address string, _ syscall.RawConn) error {
	return refuse(func(ip netip.Addr) bool { return isOwn(ip) || ip.IsLoopback() || ip.IsPrivate() || shared.Contains(ip) })
}

// IsForbidden reports whether a request failed because a guard refused its address.
func IsForbidden(err error) bool { return errors.Is(err, errForbidden) }

func refuse(bad func(netip.Addr) bool) func(network, address string, _ syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return errForbidden
		}
		ip := at.Addr().Unmap()
		if translated.Contains(ip) {
			whole := ip.As16()
			ip = netip.AddrFrom4([4]byte(whole[12:]))
		}
		if bad(ip) {
			return errForbidden
		}
		return nil
	}
}

// isOwn are the addresses that nobody may name.
func isOwn(ip netip.Addr) bool {
	return ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() || isCloud(ip)
}

// shared are addresses of networks behind a carrier or an overlay (RFC 6598).
var shared = netip.MustParsePrefix("100.64.0.0/10")

// translated are IPv4 addresses behind NAT64 (RFC 6052, section 2.1).
var translated = netip.MustParsePrefix("64:ff9b::/96")

// isCloud reports whether an address is where a cloud tells its machines their secrets, beside the link-local ones.
func isCloud(ip netip.Addr) bool {
	switch ip.String() {
	case "fd00:ec2::254", // Amazon
		"fd20:ce::254",    // Google
		"168.63.129.16",   // Azure
		"100.100.100.200", // Alibaba
		"192.0.0.192":     // Oracle
		return true
	}
	return false
}
