package transport

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
)

// TestLeafOfALongCall: the gateway's certificate changes while a call is under way, and more connections are opened than verdicts are
// kept. The answer to that call still counts as one from muster's root.
func TestLeafOfALongCall(t *testing.T) {
	d := &direct{}
	old, current := &x509.Certificate{}, &x509.Certificate{}
	d.remember(verdict{leaf: old, chained: true})
	for range 2 * len(d.verdicts) {
		d.remember(verdict{leaf: current, chained: true})
	}
	for _, leaf := range []*x509.Certificate{old, current} {
		if !d.chainedTo(&tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}) {
			t.Error("a leaf was forgotten")
		}
	}
	d.remember(verdict{leaf: current, chained: false})
	if d.chainedTo(&tls.ConnectionState{PeerCertificates: []*x509.Certificate{current}}) {
		t.Error("an earlier verdict stands beside the newer one")
	}
	for range d.verdicts {
		d.remember(verdict{leaf: &x509.Certificate{}, chained: true})
	}
	if d.chainedTo(&tls.ConnectionState{PeerCertificates: []*x509.Certificate{old}}) {
		t.Error("the oldest leaf is kept for ever")
	}
}
