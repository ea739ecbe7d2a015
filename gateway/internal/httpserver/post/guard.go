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
		if ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() || tenant && ip.IsLoopback() || isCloud(ip) {
			return errForbidden
		}
		return nil
	}
}

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
