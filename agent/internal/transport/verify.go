package transport

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ErrUntrusted is wrapped by errors about a gateway whose certificate proves nothing to this node.
var ErrUntrusted = errors.New("the gateway's certificate is not trusted")

// errDates means that only the dates of a certificate are wrong, by this node's clock.
var errDates = errors.New("the gateway's certificate is not valid at this time: one of the two clocks is wrong, or it has expired")

// Pin is the SHA-256 of a root's public key (its SubjectPublicKeyInfo in DER).
type Pin [sha256.Size]byte

// ParsePin reads sha256:<64 hex digits>, as --root-pin takes it.
func ParsePin(text string) (*Pin, error) {
	digits, ok := strings.CutPrefix(strings.TrimSpace(text), "sha256:")
	raw, err := hex.DecodeString(digits)
	if !ok || err != nil || len(raw) != sha256.Size {
		return nil, errors.New("a root pin is sha256: and 64 hexadecimal digits, as the gateway prints it")
	}
	return (*Pin)(raw), nil
}

// String returns the form that ParsePin reads.
func (p Pin) String() string { return "sha256:" + hex.EncodeToString(p[:]) }

// Fits reports whether the certificate carries the pinned key.
func (p Pin) Fits(certificate *x509.Certificate) bool {
	return sha256.Sum256(certificate.RawSubjectPublicKeyInfo) == p
}

// Pins name roots. A gateway must have one of them. With no pins, any gateway will do.
type Pins []Pin

// PinsOf returns the pins of the roots in a PEM bundle. Text that is not a bundle has none.
func PinsOf(bundle string) (pins Pins) {
	for _, certificate := range certificatesIn([]byte(bundle)) {
		pins = append(pins, sha256.Sum256(certificate.RawSubjectPublicKeyInfo))
	}
	return pins
}

// Fits reports whether the certificate carries one of the pinned keys.
func (p Pins) Fits(certificate *x509.Certificate) bool {
	return slices.ContainsFunc(p, func(pin Pin) bool { return pin.Fits(certificate) })
}

// String lists them, for a person.
func (p Pins) String() string {
	texts := make([]string, 0, len(p))
	for _, pin := range p {
		texts = append(texts, pin.String())
	}
	return strings.Join(texts, " or ")
}

// verifyNode judges the gateway's chain after enrolment. A chain to muster's root is good for every host name, and chained says so. A
// chain to one of the system's roots must be for the host that was dialled, and then each answer needs a signature.
func (c *Client) verifyNode(host string, id Identity, ignoreDates bool) func([]*x509.Certificate) (bool, error) {
	return func(chain []*x509.Certificate) (bool, error) {
		own := verifyChain(chain, id.Roots, "", c.Now(), ignoreDates)
		if own == nil {
			return true, nil
		}
		system := verifyChain(chain, c.cfg.SystemRoots, host, c.Now(), ignoreDates)
		switch {
		case system == nil:
			return false, nil
		case errors.Is(own, errDates) || errors.Is(system, errDates):
			return false, errDates
		}
		return false, fmt.Errorf("%w: it chains neither to the root that this node was enrolled with nor to one that this system trusts "+
			"for %s; if a proxy before the gateway has a certificate of your own CA, set SSL_CERT_FILE to the file of that "+
			"CA in the agent's environment; if the gateway was set up anew, join it again with a new token and --force (%w)",
			ErrUntrusted, host, system)
	}
}

// verifyFirst judges the chain before enrolment. It ignores the dates, because this machine's clock may be wrong until the answer brings
// the time.
func (c *Client) verifyFirst(chain []*x509.Certificate) (bool, error) {
	if !c.cfg.First.NeedTrust {
		return false, nil
	}
	err := verifyChain(chain, c.cfg.SystemRoots, c.base.Hostname(), c.Now(), true)
	if err == nil || c.chainsToPin(chain) {
		return false, nil
	}
	if c.cfg.First.Pins != nil {
		return false, fmt.Errorf("%w: it does not chain to the root %s, nor to one that this system trusts for %s; %s",
			ErrUntrusted, c.cfg.First.Pins, c.base.Hostname(), comparePins)
	}
	return false, fmt.Errorf("%w by this system, and every node has a pre-shared key, so that it does not prove the gateway: "+
		"add --root-pin sha256:... (muster psk set prints it on the gateway), or join with an enrollment token (%w)", ErrUntrusted, err)
}

// comparePins is the next step where a gateway has another root than it should.
const comparePins = "compare that with what muster ca show prints on the gateway: another pin is given with --root-pin"

// chainsToPin looks for a pinned key among the certificates that were sent and the roots that were fetched.
func (c *Client) chainsToPin(chain []*x509.Certificate) bool {
	c.mu.Lock()
	candidates := slices.Clone(c.pinned)
	c.mu.Unlock()
	for _, root := range append(candidates, chain...) {
		if !c.cfg.First.Pins.Fits(root) {
			continue
		}
		pool := x509.NewCertPool()
		pool.AddCert(root)
		if verifyChain(chain, pool, "", c.Now(), true) == nil {
			return true
		}
	}
	return false
}

// verifyChain verifies a server's chain. The error is errDates where only the time is wrong. With ignoreDates the first or the last moment
// of the leaf's own life is good enough.
func verifyChain(chain []*x509.Certificate, roots *x509.CertPool, host string, now time.Time, ignoreDates bool) error {
	if len(chain) == 0 {
		return errors.New("the gateway sent no certificate")
	}
	options := x509.VerifyOptions{
		Roots: roots, Intermediates: x509.NewCertPool(), DNSName: host, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, certificate := range chain[1:] {
		options.Intermediates.AddCert(certificate)
	}
	_, err := chain[0].Verify(options)
	if err == nil {
		return nil
	}
	for _, moment := range []time.Time{chain[0].NotBefore.Add(time.Second), chain[0].NotAfter.Add(-time.Second)} {
		options.CurrentTime = moment
		if _, again := chain[0].Verify(options); again != nil {
			continue
		}
		if ignoreDates {
			return nil
		}
		return errDates
	}
	return err
}

// certificatesIn are the certificates of a PEM bundle. Other blocks are left out.
func certificatesIn(bundle []byte) (all []*x509.Certificate) {
	for {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			return all
		}
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
			all = append(all, certificate)
		}
	}
}

// rootsPEM is the PEM bundle of certificates.
func rootsPEM(roots []*x509.Certificate) string {
	var out strings.Builder
	for _, root := range roots {
		out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Raw}))
	}
	return out.String()
}
