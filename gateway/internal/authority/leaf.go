package authority

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"math/big"
	"strings"
	"time"
)

// nodeLeaf is a node's certificate (RFC 5280 section 4.1), put together here byte by byte: crypto/x509 encodes by reflection
// and then verifies the signature that it has just made, which takes four times as long as the signature itself, and a fleet
// asks for thousands at once. That the key belongs to the intermediate was checked when they were read. The bytes that are
// signed are those that x509.CreateCertificate would sign.
type nodeLeaf struct {
	serial              *big.Int
	notBefore, notAfter time.Time
	id, uri             string
	key                 []byte // SubjectPublicKeyInfo, DER
	keyID               []byte
}

// DER tags.
const (
	tagInteger         = 0x02
	tagBitString       = 0x03
	tagOctetString     = 0x04
	tagUTF8String      = 0x0c
	tagPrintableString = 0x13
	tagUTCTime         = 0x17
	tagGeneralizedTime = 0x18
	tagSequence        = 0x30
	tagSet             = 0x31
	tagContext         = 0x80 // plus the number
	tagContextNested   = 0xa0
)

const (
	ecdsaWithSHA256 = "\x30\x0a\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x02" // AlgorithmIdentifier, RFC 5758 section 3.2
	oidCommonName   = "\x06\x03\x55\x04\x03"
	oidKeyID        = "\x06\x03\x55\x1d\x0e"
	oidAlternative  = "\x06\x03\x55\x1d\x11"
	oidAuthorityID  = "\x06\x03\x55\x1d\x23"

	// What all have in common: key usage digitalSignature (critical), extended key usage clientAuth, and no CA (critical).
	nodeUsage = "\x30\x0e\x06\x03\x55\x1d\x0f\x01\x01\xff\x04\x04\x03\x02\x07\x80" +
		"\x30\x13\x06\x03\x55\x1d\x25\x04\x0c\x30\x0a\x06\x08\x2b\x06\x01\x05\x05\x07\x03\x02" +
		"\x30\x0c\x06\x03\x55\x1d\x13\x01\x01\xff\x04\x02\x30\x00"
)

// sign makes the certificate, in DER. Its parts are an id that was checked, dates, a number, and a key whose encoding was
// compared, so nothing malformed can leave.
func (l nodeLeaf) sign(parent *x509.Certificate, by *ecdsa.PrivateKey) ([]byte, error) {
	tbs := l.encode(parent)
	sum := sha256.Sum256(tbs)
	signature, err := ecdsa.SignASN1(rand.Reader, by, sum[:])
	if err != nil {
		return nil, err
	}
	return der(tagSequence, tbs, []byte(ecdsaWithSHA256), der(tagBitString, []byte{0}, signature)), nil
}

// encode gives the TBSCertificate.
func (l nodeLeaf) encode(parent *x509.Certificate) []byte {
	extensions := der(tagSequence, []byte(nodeUsage),
		der(tagSequence, []byte(oidKeyID), der(tagOctetString, der(tagOctetString, l.keyID))),
		der(tagSequence, []byte(oidAuthorityID), der(tagOctetString, der(tagSequence, der(tagContext, parent.SubjectKeyId)))),
		der(tagSequence, []byte(oidAlternative), der(tagOctetString, der(tagSequence, der(tagContext+6, []byte(l.uri))))))
	return der(tagSequence,
		der(tagContextNested, der(tagInteger, []byte{2})), // version 3
		derInteger(l.serial),
		[]byte(ecdsaWithSHA256),
		parent.RawSubject,
		der(tagSequence, derTime(l.notBefore), derTime(l.notAfter)),
		der(tagSequence, der(tagSet, der(tagSequence, []byte(oidCommonName), derName(l.id)))),
		l.key,
		der(tagContextNested+3, extensions))
}

// der is one value: its tag, its length in the shortest form, its content.
func der(tag byte, content ...[]byte) []byte {
	length := 0
	for _, part := range content {
		length += len(part)
	}
	out := make([]byte, 0, 4+length)
	switch out = append(out, tag); {
	case length < 0x80:
		out = append(out, byte(length))
	case length < 0x100:
		out = append(out, 0x81, byte(length))
	default: // no certificate of a node comes near 64 KiB
		out = append(out, 0x82, byte(length>>8), byte(length))
	}
	for _, part := range content {
		out = append(out, part...)
	}
	return out
}

// derInteger is a number that is not negative: its first bit is none of the number.
func derInteger(n *big.Int) []byte {
	bytes := n.Bytes()
	if len(bytes) == 0 || bytes[0]&0x80 != 0 {
		return der(tagInteger, []byte{0}, bytes)
	}
	return der(tagInteger, bytes)
}

// derTime takes the form that RFC 5280 section 4.1.2.5 asks for: from 2050 on with the century.
func derTime(t time.Time) []byte {
	if t = t.UTC(); t.Year() >= 2050 {
		return der(tagGeneralizedTime, t.AppendFormat(nil, "20060102150405Z"))
	}
	return der(tagUTCTime, t.AppendFormat(nil, "060102150405Z"))
}

// derName is a node id as text: PrintableString has no underscore.
func derName(id string) []byte {
	if strings.Contains(id, "_") {
		return der(tagUTF8String, []byte(id))
	}
	return der(tagPrintableString, []byte(id))
}
