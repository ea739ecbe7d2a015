package transport

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"time"

	"muster/agent/wire"
)

// Certificate is what the gateway's TLS showed to a client without an identity.
type Certificate string

// What it may have shown.
const (
	CertificateNone      Certificate = "plain"  // no TLS: every exchange is signed
	CertificateSystem    Certificate = "system" // one that this system trusts for the host
	CertificatePinned    Certificate = "pinned" // one that chains to a root with a given pin
	CertificateUnpinned  Certificate = "own"    // another one, and no pin was given; a token's handshake proves the gateway by itself
	CertificateForeigner Certificate = "wrong"  // one that chains to no root with a given pin, and that this system does not trust
)

// Sight is the result of a first look at the gateway. Nothing in it is proven. It tells a person what is there.
type Sight struct {
	Certificate Certificate    // empty: not seen, as where curl asked
	Through     Way            // Direct or Curl: what got the answer
	Ahead       *time.Duration // by how much the other side's clock is ahead of this machine's; nil: it does not say
	Between     *Unproven      // what answered, where that does not look like a gateway; nil: it does
	Proxy       string         // the host of the proxy that the request went through, empty: none
	Edge        string         // what forwarded the answer, as it says itself; empty: nothing said so
}

// Look asks whether a gateway is there, without any secret. The error says that nothing could be reached.
func (c *Client) Look(ctx context.Context) (Sight, error) {
	sight := Sight{Certificate: CertificateNone, Proxy: c.proxy()}
	var chain []*x509.Certificate
	d := newDirect(c, c.endpoint, nil, func(shown []*x509.Certificate) (bool, error) { chain = shown; return false, nil })
	defer d.close()
	answer, err := c.carry(ctx, nil, func(at *endpoint, via Way) (attempt, error) {
		through := exchanger(d)
		if via == Curl {
			through = at.over(Curl, anyone)
		}
		answer, err := through.exchange(ctx, c.get(wire.PathHealth))
		return attempt{Answer: answer, via: via}, err
	})
	if err != nil {
		return sight, err
	}
	sight.Through = Direct
	if answer.via == Curl {
		sight.Through = Curl
		chain = nil
	}
	if sight.Through == Curl && c.base.Scheme == "https" {
		sight.Certificate = ""
	}
	if date, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
		ahead := date.Add(500 * time.Millisecond).Sub(c.cfg.Now()) // the date has whole seconds: assume the middle
		sight.Ahead = &ahead
	}
	var health struct{ Status string }
	if answer.Status != http.StatusOK || json.Unmarshal(answer.Body, &health) != nil || health.Status == "" {
		sight.Between = answer.Unproven()
	}
	sight.Edge = wire.Plain(answer.Header.Get("Via"), 60)
	if answer.Header.Get("Cf-Ray") != "" {
		sight.Edge = "Cloudflare"
	}
	if chain != nil {
		sight.Certificate = c.judgeCertificate(ctx, chain)
	}
	return sight, nil
}

// judgeCertificate compares a chain with the pins, or with the system's roots where no pin was given.
func (c *Client) judgeCertificate(ctx context.Context, chain []*x509.Certificate) Certificate {
	switch {
	case c.chainsToPin(chain), c.fetchPinned(ctx, Direct) && c.chainsToPin(chain):
		return CertificatePinned
	case verifyChain(chain, c.cfg.SystemRoots, c.base.Hostname(), c.Now(), true) == nil:
		return CertificateSystem // with a pin, an edge's or a public one: the welcome has to carry the pinned root
	case c.cfg.First.Pins == nil:
		return CertificateUnpinned
	}
	return CertificateForeigner
}

// proxy is the host of the proxy that the environment names for this gateway.
func (c *Client) proxy() string {
	r, err := http.NewRequest(http.MethodGet, c.base.String(), nil)
	if err != nil {
		return ""
	}
	through, err := http.ProxyFromEnvironment(r)
	if err != nil || through == nil {
		return ""
	}
	return through.Host
}
