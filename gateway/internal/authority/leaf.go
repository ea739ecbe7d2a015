package authority

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"time"
)

// nodeLeaf is the part of a node's certificate that is signed (TBSCertificate, RFC 5280 section 4.1). x509.CreateCertificate makes the
// same bytes. But it also verifies each signature that it has made, in case the signer failed, and this takes longer than all the
// rest. A fleet asks for thousands of certificates at once. Here crypto/ecdsa itself signs, with a key that was compared with the
// intermediate's, and the agent verifies the chain before it uses it.
type nodeLeaf struct {
	Version    int `asn1:"explicit,tag:0"`
	Serial     *big.Int
	Algorithm  pkix.AlgorithmIdentifier
	Issuer     asn1.RawValue
	Validity   validity
	Subject    pkix.RDNSequence
	Key        asn1.RawValue
	Extensions []pkix.Extension `asn1:"explicit,tag:3"`
}

type validity struct {
	NotBefore, NotAfter time.Time
}

// signedLeaf is the whole certificate.
type signedLeaf struct {
	Leaf      asn1.RawValue
	Algorithm pkix.AlgorithmIdentifier
	Signature asn1.BitString
}

type authorityKey struct {
	ID []byte `asn1:"optional,tag:0"`
}

const version3 = 2 // RFC 5280 section 4.1.2.1: the first version is 0

// sign fills in what all nodes' certificates have in common, and returns the certificate in DER.
func (l nodeLeaf) sign(parent *x509.Certificate, by *ecdsa.PrivateKey) ([]byte, error) {
	l.Version = version3
	l.Algorithm = pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, 2}} // ECDSA with SHA-256, RFC 5758
	l.Issuer = asn1.RawValue{FullBytes: parent.RawSubject}
	der, err := asn1.Marshal(l)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(der)
	signature, err := ecdsa.SignASN1(rand.Reader, by, sum[:])
	if err != nil {
		return nil, err
	}
	return asn1.Marshal(signedLeaf{
		Leaf:      asn1.RawValue{FullBytes: der},
		Algorithm: l.Algorithm,
		Signature: asn1.BitString{Bytes: signature, BitLength: 8 * len(signature)},
	})
}

// nodeExtensions are the extensions of a node's certificate (RFC 5280 section 4.2.1), in the order of crypto/x509.
func nodeExtensions(keyID, parentKeyID []byte, uri string) ([]pkix.Extension, error) {
	const tagURI = 6
	name := asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: tagURI, Bytes: []byte(uri)}
	clientAuth := asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 2}
	var out []pkix.Extension
	for _, e := range []struct {
		number   int // after 2.5.29
		critical bool
		value    any
	}{
		{15, true, asn1.BitString{Bytes: []byte{0x80}, BitLength: 1}}, // key usage: the first bit is digitalSignature
		{37, false, []asn1.ObjectIdentifier{clientAuth}},              // extended key usage
		{19, true, struct{}{}},                                        // basic constraints: no CA
		{14, false, keyID},                                            // subject key identifier
		{35, false, authorityKey{parentKeyID}},                        // authority key identifier
		{17, false, []asn1.RawValue{name}},                            // alternative names
	} {
		value, err := asn1.Marshal(e.value)
		if err != nil {
			return nil, err
		}
		out = append(out, pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, e.number}, Critical: e.critical, Value: value})
	}
	return out, nil
}
