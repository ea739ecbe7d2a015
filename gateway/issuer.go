package main

import (
	"flag"
	"fmt"

	"muster/gateway/internal/authority/stepca"
)

// Values of --issuer: who signs the nodes' certificates. The gateway's own serving certificate is never affected.
const (
	issuerBuiltIn = "builtin"
	issuerStepCA  = "step-ca"
)

// stepCASettings are the flags of --issuer step-ca.
type stepCASettings struct {
	url, root, provisioner, key, cert string
}

func (s *settings) issuerFlags(f *flag.FlagSet) {
	f.StringVar(&s.issuer, "issuer", issuerBuiltIn, "who signs the nodes' certificates: builtin or step-ca")
	f.StringVar(&s.stepCA.url, "step-ca-url", "", "`URL` of step-ca, with a host from dnsNames in its ca.json")
	f.StringVar(&s.stepCA.root, "step-ca-root", "", "PEM `FILE` with step-ca's root certificate")
	f.StringVar(&s.stepCA.provisioner, "step-ca-provisioner", "", "`NAME` of a JWK provisioner, or with --step-ca-cert of an X5C one")
	f.StringVar(&s.stepCA.key, "step-ca-key", "", "`FILE` with the provisioner's private key: P-256, plain JWK or PEM")
	f.StringVar(&s.stepCA.cert, "step-ca-cert", "", "PEM `FILE` with the certificate of that key: an X5C provisioner")
}

func (s *settings) checkIssuer() error {
	c := s.stepCA
	switch s.issuer {
	case issuerBuiltIn, "":
		if c != (stepCASettings{}) {
			return fmt.Errorf("the --step-ca flags need --issuer step-ca")
		}
		return nil
	case issuerStepCA:
		if c.url == "" || c.root == "" || c.provisioner == "" || c.key == "" {
			return fmt.Errorf("--issuer step-ca needs --step-ca-url, --step-ca-root, --step-ca-provisioner and --step-ca-key")
		}
		return nil
	}
	return fmt.Errorf("--issuer %q: write builtin or step-ca", s.issuer)
}

// openIssuer chooses who signs the nodes' certificates. The built-in CA goes on signing the gateway's own and the trust sets:
// nodes believe a gateway by its root alone, which step-ca's other customers cannot use.
func (g *gateway) openIssuer() error {
	if g.settings.issuer != issuerStepCA {
		g.issuer = g.authority
		return nil
	}
	c := g.settings.stepCA
	var err error
	g.stepCA, err = stepca.New(stepca.Config{
		URL: c.url, RootFile: c.root, Provisioner: c.provisioner, KeyFile: c.key, CertFile: c.cert,
		TrustDomain: g.authority.TrustDomain(), CertTTL: g.settings.certTTL, Logger: g.log,
	})
	g.issuer = g.stepCA
	return err
}
