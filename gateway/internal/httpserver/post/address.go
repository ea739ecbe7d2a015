package post

import (
	"net"
	"net/url"
	"strings"

	"muster/agent/wire"
)

const longestURL = 2048

// CheckURL reads the URL of a receiver or a sink. It refuses a URL to which no request could go, one with a user in it, and one over which
// a secret would go in plain text. next says how people give the URL and its secret. No error holds the URL: it may be a secret.
func CheckURL(address, next string, hasSecret bool) (*url.URL, error) {
	refuse := func(why, next string) error { return wire.Refuse(wire.CodeBadRequest, why, next) }
	u, err := url.Parse(address)
	switch {
	case address == "":
		return nil, refuse("there is no URL", next)
	case err != nil || len(address) > longestURL || u.Hostname() == "" || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" ||
		strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, refuse("this is no URL to which requests can go", "write it as https://HOST/PATH")
	case u.User != nil:
		return nil, refuse("the URL has a user in it", next)
	case u.Scheme == "http" && hasSecret && !IsLoopback(u.Hostname()):
		return nil, refuse("a secret would go over plain HTTP", "use https")
	}
	return u, nil
}

// IsLoopback reports whether a host is the gateway's own machine, by its name or number.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || strings.HasSuffix(strings.ToLower(host), ".localhost") ||
		ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}
