package stepca

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"muster/gateway/internal/authority"
	"muster/store"
)

// slack is how far step-ca's clock may be from ours. step-ca allows the same difference for tokens.
const slack = time.Minute

// believe reads the answer to an order, and checks every part of the certificate. step-ca's templates can change each of them.
func (i *Issuer) believe(o order, answer []byte) (store.Certificate, error) {
	sent, err := parseAnswer(answer)
	if err != nil {
		return store.Certificate{}, failed("its answer: %w", err)
	}
	leaf := sent[0]
	now := i.config.Now()
	for _, check := range []func() error{
		func() error { return checkNames(leaf, o) },
		func() error { return checkUse(leaf) },
		func() error { return checkDates(leaf, o, now) },
	} {
		if err := check(); err != nil {
			return store.Certificate{}, failed("the certificate that it gave cannot be used: %w", err)
		}
	}
	chain, err := i.verify(sent, now)
	if err != nil {
		return store.Certificate{}, failed("the certificate that it gave does not chain to the configured root: %w", err)
	}
	if slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageServerAuth) {
		i.serverAuth.Do(func() {
			i.config.Logger.Warn("step-ca's certificates for nodes are good for servers too; give the provisioner a template with extKeyUsage "+
				"clientAuth alone", "provisioner", i.config.Provisioner)
		})
	}
	var text strings.Builder
	for _, certificate := range chain {
		text.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw}))
	}
	return store.NewCertificate(leaf.Raw, leaf.RawSubjectPublicKeyInfo, leaf.NotBefore, leaf.NotAfter, text.String()), nil
}

// parseAnswer reads the answer to /sign: the leaf first.
func parseAnswer(answer []byte) ([]*x509.Certificate, error) {
	var said struct {
		Leaf   string   `json:"crt"`
		Issuer string   `json:"ca"`
		Chain  []string `json:"certChain"`
	}
	if json.Unmarshal(answer, &said) != nil {
		return nil, errors.New("it is not JSON; something else than step-ca may answer at this URL")
	}
	if len(said.Chain) == 0 {
		said.Chain = []string{said.Leaf, said.Issuer}
	}
	return parseCertificates([]byte(strings.Join(said.Chain, "\n")))
}

// checkNames refuses a certificate unless it has exactly the node's key, id and URI. The subject must be byte for byte the one that the
// built-in CA gives, because a node's subject never changes.
func checkNames(leaf *x509.Certificate, o order) error {
	key, err := x509.MarshalPKIXPublicKey(o.csr.PublicKey)
	if err != nil || !bytes.Equal(key, leaf.RawSubjectPublicKeyInfo) {
		return errors.New("it is for another key")
	}
	subject, err := asn1.Marshal(pkix.Name{CommonName: o.nodeID}.ToRDNSequence())
	if err != nil || !bytes.Equal(subject, leaf.RawSubject) {
		return fmt.Errorf("its subject is %.200q, want the node's id as the common name and nothing else: see the provisioner's template, "+
			"and authority.template in ca.json", leaf.Subject)
	}
	const tagURI = 6
	names, err := asn1.Marshal([]asn1.RawValue{{Class: asn1.ClassContextSpecific, Tag: tagURI, Bytes: []byte(o.uri)}})
	if err != nil {
		return err
	}
	for _, extension := range leaf.Extensions {
		if extension.Id.Equal(asn1.ObjectIdentifier{2, 5, 29, 17}) && bytes.Equal(extension.Value, names) {
			return nil
		}
	}
	return fmt.Errorf("its alternative names are not %s alone: the provisioner's template must hold \"sans\": {{ toJson .SANs }}", o.uri)
}

// checkUse refuses a certificate that is good for too much (a CA), or not good for a node as a TLS client.
func checkUse(leaf *x509.Certificate) error {
	switch {
	case leaf.IsCA || leaf.KeyUsage&x509.KeyUsageCertSign != 0:
		return errors.New("it is a CA's: see the provisioner's template")
	case leaf.KeyUsage&x509.KeyUsageDigitalSignature == 0:
		return errors.New("it is not for digital signatures: see keyUsage in the provisioner's template")
	case !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth):
		return errors.New("it is not for clients: see extKeyUsage in the provisioner's template, which needs clientAuth")
	}
	return nil
}

// checkDates refuses a longer life than was ordered. A shorter one is accepted: templates and X5C credentials can cause that.
func checkDates(leaf *x509.Certificate, o order, now time.Time) error {
	span := leaf.NotBefore.UTC().Format(time.RFC3339) + " to " + leaf.NotAfter.UTC().Format(time.RFC3339)
	switch {
	case leaf.NotBefore.After(now.Add(slack)), !leaf.NotAfter.After(now):
		return fmt.Errorf("it is good from %s, and the gateway's clock says %s: set the clocks: %w", span, now.UTC().Format(time.RFC3339),
			authority.ErrClock)
	case leaf.NotAfter.After(now.Add(o.ttl + slack)):
		return fmt.Errorf("it is good from %s, longer than the %s that were asked for: see the provisioner's template, and the clocks", span,
			o.ttl)
	}
	return nil
}

// verify returns the chain from the leaf to the configured root.
func (i *Issuer) verify(sent []*x509.Certificate, now time.Time) ([]*x509.Certificate, error) {
	if now.Before(sent[0].NotBefore) { // within the slack
		now = sent[0].NotBefore
	}
	options := x509.VerifyOptions{
		Roots: i.pool, Intermediates: x509.NewCertPool(), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, certificate := range sent[1:] {
		options.Intermediates.AddCert(certificate)
	}
	chains, err := sent[0].Verify(options)
	if err != nil {
		return nil, err
	}
	return chains[0], nil
}
