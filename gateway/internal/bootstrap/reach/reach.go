// Package reach says under which URLs machines reach this gateway, and what they meet there.
package reach

import (
	"net"
	"net/url"

	"muster"
)

// Reach is how the gateway was set up to be reached.
type Reach struct {
	PublicURL      string
	PublicGiven    bool   // by the operator, not made up from Listen
	Listen         string // address of the TLS listener
	PlainListen    string // address of the listener without TLS; empty: there is none
	OwnCertificate bool   // the TLS listener's certificate is of the gateway's own CA
	Proxied        bool   // there are trusted proxies
}

// CertificateAt says what a machine meets at a URL. Behind a trusted proxy that is the proxy's certificate, unless the URL names the
// gateway's own port.
func (r Reach) CertificateAt(gatewayURL string) muster.Certificate {
	u, err := url.Parse(gatewayURL)
	switch {
	case err != nil || u.Scheme != "https":
		return muster.NoCertificate
	case !r.OwnCertificate:
		return muster.SystemCertificate
	case r.PublicGiven && r.Proxied && !r.ownPort(u):
		return muster.SystemCertificate
	}
	return muster.OwnCertificate
}

// EndsTLS reports whether nobody stands between a machine and this gateway at a URL. That is certain if the certificate comes from the
// gateway's own root. Elsewhere it is certain only if no proxy is trusted and only the gateway's own TLS port can be behind the URL.
func (r Reach) EndsTLS(gatewayURL string) bool {
	switch r.CertificateAt(gatewayURL) {
	case muster.OwnCertificate:
		return true
	case muster.NoCertificate:
		return false
	}
	u, err := url.Parse(gatewayURL)
	return err == nil && !r.Proxied && (r.PlainListen == "" || r.ownPort(u))
}

// NodeURL returns the URL at which nodes reach this gateway over TLS: the public URL or, if that is plain HTTP, the gateway's TLS port on
// its host.
func (r Reach) NodeURL() string {
	u, err := url.Parse(r.PublicURL)
	if err != nil || u.Scheme == "https" {
		return r.PublicURL
	}
	_, tlsPort, _ := net.SplitHostPort(r.Listen)
	return "https://" + net.JoinHostPort(u.Hostname(), tlsPort)
}

// FirstHop returns the URL at which a machine that trusts nothing yet fetches its script, and the certificate that it meets there. address
// is the address of NodeURL's host, for machines that cannot resolve its name; empty: they can. With an address, the listener without TLS
// comes first: the digest in the command vouches for the script there.
func (r Reach) FirstHop(address string) (string, muster.Certificate) {
	if address == "" {
		return r.PublicURL, r.CertificateAt(r.PublicURL)
	}
	node := r.NodeURL()
	if host, plain, err := net.SplitHostPort(r.PlainListen); err == nil && serves(host, address) {
		return "http://" + net.JoinHostPort(address, plain), muster.NoCertificate
	}
	if r.CertificateAt(node) == muster.OwnCertificate {
		u, _ := url.Parse(node)
		return "https://" + net.JoinHostPort(address, portOf(u)), muster.OwnCertificate
	}
	return node, muster.SystemCertificate
}

func (r Reach) ownPort(u *url.URL) bool { return portOf(u) == portOf(&url.URL{Host: r.Listen}) }

func portOf(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	return "443"
}

// serves tells whether a listener on host answers at address.
func serves(host, address string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && (ip.IsUnspecified() || ip.Equal(net.ParseIP(address)))
}
