package main

import (
	"context"
	"crypto/tls"
	"log/slog"

	"muster/gateway/internal/authority"
	"muster/gateway/internal/authority/stepca"
	"muster/store"
)

// trust is the keys and certificates of the gateway. It is the third phase.
type trust struct {
	authority *authority.Authority
	issuer    authority.Issuer // of the nodes' certificates
	stepCA    *stepca.Issuer   // nil: the built-in CA issues
	serving   certificates
}

// certificates gives the TLS listener its certificate, made by the gateway's own CA or read from files.
type certificates interface {
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	PinnedPublicKey() string
	Cover(hosts []string) error // which it should be for too
}

// openTrust opens the CA, the issuer of the nodes' certificates and the gateway's own serving certificate. The last two need the CA.
func openTrust(ctx context.Context, s settings, log *slog.Logger, d *storage, n *network) (*trust, error) {
	t, err := openAuthority(ctx, s, log, d.store)
	if err != nil {
		return nil, err
	}
	if s.TLSCert != "" {
		t.serving, err = authority.OpenFiles(s.TLSCert, s.TLSKey, nil, log)
	} else {
		t.serving, err = authority.NewServing(ctx, t.authority, n.reach.Hosts())
	}
	return t, err
}

// openAuthority opens the CA and chooses who signs the nodes' certificates. The built-in CA goes on signing the gateway's own certificate
// and the trust sets. Nodes believe a gateway by the root of that CA alone, so no other customer of the step-ca can pose as the gateway.
func openAuthority(ctx context.Context, s settings, log *slog.Logger, db *store.Store) (*trust, error) {
	own, err := authority.Open(ctx, authority.Config{Store: db, TrustDomain: s.TrustDomain, CertTTL: s.CertTTL})
	if err != nil || s.Issuer != issuerStepCA {
		return &trust{authority: own, issuer: own}, err
	}
	other, err := stepca.New(stepca.Config{Settings: s.StepCA, TrustDomain: own.TrustDomain(), CertTTL: s.CertTTL, Logger: log})
	return &trust{authority: own, issuer: other, stepCA: other}, err
}
