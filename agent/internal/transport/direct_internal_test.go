package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"testing"
)

// TestLeafOfALongCall: the gateway's certificate changes while a call is under way. The answer to that call counts as one from muster's
// root where its own leaf chains to that, and only then.
func TestLeafOfALongCall(t *testing.T) {
	old, current, foreign, bad := &x509.Certificate{}, &x509.Certificate{}, &x509.Certificate{}, &x509.Certificate{}
	d := &direct{last: verdict{leaf: current, chained: true}, verify: func(chain []*x509.Certificate) (bool, error) {
		if chain[0] == bad {
			return true, errors.New("a bad one")
		}
		return chain[0] == old, nil
	}}
	for leaf, want := range map[*x509.Certificate]bool{old: true, current: true, foreign: false, bad: false} {
		if got := d.chainedTo(&tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}); got != want {
			t.Errorf("%t, want %t", got, want)
		}
	}
	if d.chainedTo(nil) || d.chainedTo(&tls.ConnectionState{}) {
		t.Error("a connection without a certificate chains to muster's root")
	}
}
