package authority

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	"muster/agent/wire"
)

// ErrBadCSR is wrapped by every refusal of a certificate request; the text before it names what is wrong.
var ErrBadCSR = errors.New("unusable certificate request")

// keyP256 begins every P-256 key as SubjectPublicKeyInfo (RFC 5480 section 2). It is the algorithm, the curve, and the mark of an
// uncompressed point. The two coordinates follow, with 32 bytes each.
const keyP256 = "\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00\x04"

const blockCSR = "CERTIFICATE REQUEST"

// Subject is what a certificate request may say about its node. A request that says something else is refused. Nothing of this
// becomes part of the certificate.
type Subject struct {
	Names []string // the common names that are allowed; a request may have none
	URI   string   // the one URI that is allowed as subject alternative name; empty: none
}

// CheckCSR reads a certificate request (PKCS #10, RFC 2986, in PEM: one block and nothing else). The key must be ECDSA P-256 and must
// sign the request. The subject must be empty or a common name from allow. The only attribute may be a request for the one URI from
// allow. Errors wrap ErrBadCSR.
func CheckCSR(pemText string, allow Subject) (*x509.CertificateRequest, error) {
	der, err := oneBlock(pemText)
	if err != nil {
		return nil, err
	}
	csr, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, badCSR("it is not PKCS #10")
	}
	if err := checkKey(csr); err != nil {
		return nil, err
	}
	if err := checkNames(csr, allow); err != nil {
		return nil, err
	}
	if err := checkExtensions(csr, allow); err != nil {
		return nil, err
	}
	return csr, nil
}

// KeyHash returns the hex SHA-256 of a public key (SubjectPublicKeyInfo, DER). It is the same in every certificate for the key.
func KeyHash(key []byte) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:])
}

func badCSR(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, ErrBadCSR)...)
}

// oneBlock refuses text beside the block, because encoding/pem skips what it does not understand.
func oneBlock(pemText string) ([]byte, error) {
	if len(pemText) > wire.MaxCSR {
		return nil, badCSR("it has more than %d bytes", wire.MaxCSR)
	}
	text := strings.TrimSpace(pemText)
	if !strings.HasPrefix(text, "-----BEGIN "+blockCSR+"-----") {
		return nil, badCSR("it does not begin with a PEM block of type %s", blockCSR)
	}
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != blockCSR || len(block.Headers) != 0 || strings.Count(text, "-----BEGIN ") != 1 {
		return nil, badCSR("it is not one well-formed PEM block")
	}
	if len(bytes.TrimSpace(rest)) != 0 {
		return nil, badCSR("there is data after the PEM block")
	}
	return block.Bytes, nil
}

// checkKey refuses a key that is not P-256, and a request that is not signed with its key.
func checkKey(csr *x509.CertificateRequest) error {
	key, ok := csr.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return badCSR("its key is %s, not ECDSA P-256", keyKind(csr, key))
	}
	// Every key has one encoding. With two, the same key could be on record under two hashes.
	if !usualKey(csr) {
		return badCSR("its key is not in the usual encoding")
	}
	switch csr.SignatureAlgorithm {
	case x509.ECDSAWithSHA256, x509.ECDSAWithSHA384, x509.ECDSAWithSHA512:
	default:
		return badCSR("it is signed with %v, not ECDSA with SHA-256", csr.SignatureAlgorithm)
	}
	if csr.CheckSignature() != nil {
		return badCSR("it is not signed by its own key")
	}
	return nil
}

// usualKey is true for a key that is encoded as crypto/x509 does it.
func usualKey(csr *x509.CertificateRequest) bool {
	raw := csr.RawSubjectPublicKeyInfo
	return len(raw) == len(keyP256)+64 && string(raw[:len(keyP256)]) == keyP256
}

func keyKind(csr *x509.CertificateRequest, key *ecdsa.PublicKey) string {
	switch {
	case key != nil:
		return "ECDSA " + key.Curve.Params().Name
	case csr.PublicKeyAlgorithm == x509.UnknownPublicKeyAlgorithm:
		return "of an unknown kind"
	}
	return csr.PublicKeyAlgorithm.String()
}

// checkNames accepts an empty subject, or one with an allowed common name and nothing else.
func checkNames(csr *x509.CertificateRequest, allow Subject) error {
	names := csr.Subject.Names
	if len(names) == 0 {
		return nil
	}
	name, ok := names[0].Value.(string)
	if len(names) > 1 || !ok || !names[0].Type.Equal(asn1.ObjectIdentifier{2, 5, 4, 3}) {
		return badCSR("its subject holds more than a common name")
	}
	if !slices.Contains(allow.Names, name) {
		return badCSR("its common name %.80q is not this node's", name)
	}
	return nil
}

// checkExtensions reads the bytes themselves, because crypto/x509 ignores attributes and alternative names of a kind that it does not
// know.
func checkExtensions(csr *x509.CertificateRequest, allow Subject) error {
	attributes, err := attributes(csr)
	if err != nil {
		return err
	}
	for i, attribute := range attributes {
		parts, err := elements(attribute.Bytes)
		var id asn1.ObjectIdentifier
		if err != nil || len(parts) != 2 || unmarshal(parts[0], &id) != nil {
			return badCSR("its attributes are malformed")
		}
		if !id.Equal(asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 14}) {
			return badCSR("it carries the attribute %.80s", id)
		}
		if values, err := elements(parts[1].Bytes); err != nil || len(values) != 1 || i > 0 {
			return badCSR("it carries more than one list of extensions")
		}
	}
	for _, extension := range csr.Extensions {
		if !extension.Id.Equal(asn1.ObjectIdentifier{2, 5, 29, 17}) {
			return badCSR("it asks for %s", extensionName(extension.Id))
		}
		if err := checkAlternative(extension.Value, allow.URI); err != nil {
			return err
		}
	}
	return nil
}

// attributes returns the request's attributes. It refuses elements after them, because encoding/asn1 accepts more elements at the end
// of a structure.
func attributes(csr *x509.CertificateRequest) ([]asn1.RawValue, error) {
	var whole asn1.RawValue
	if unmarshal(asn1.RawValue{FullBytes: csr.Raw}, &whole) != nil {
		return nil, badCSR("it is not PKCS #10")
	}
	outer, err := elements(whole.Bytes)
	if err != nil || len(outer) != 3 {
		return nil, badCSR("it holds more than a request, an algorithm and a signature")
	}
	inner, err := elements(outer[0].Bytes)
	if err != nil || len(inner) != 4 {
		return nil, badCSR("it holds more than a version, a subject, a key and attributes")
	}
	list, err := elements(inner[3].Bytes)
	if err != nil {
		return nil, badCSR("its attributes are malformed")
	}
	return list, nil
}

// checkAlternative refuses a subject alternative name (RFC 5280 section 4.2.1.6) that is not this one URI.
func checkAlternative(value []byte, uri string) error {
	const tagURI = 6
	var sequence asn1.RawValue
	if unmarshal(asn1.RawValue{FullBytes: value}, &sequence) != nil || sequence.Tag != asn1.TagSequence ||
		sequence.Class != asn1.ClassUniversal {
		return badCSR("its alternative names are malformed")
	}
	names, err := elements(sequence.Bytes)
	if err != nil || len(names) != 1 || names[0].Class != asn1.ClassContextSpecific || names[0].Tag != tagURI {
		return badCSR("it asks for other alternative names than one URI")
	}
	if got := string(names[0].Bytes); uri == "" || got != uri {
		return badCSR("it asks for the alternative name %.120q, which is not this node's", got)
	}
	return nil
}

func extensionName(id asn1.ObjectIdentifier) string {
	switch text := id.String(); text {
	case "2.5.29.19":
		return "basic constraints (a CA flag)"
	case "2.5.29.15":
		return "a key usage"
	case "2.5.29.37":
		return "an extended key usage"
	default:
		return fmt.Sprintf("the extension %.80s", text)
	}
}

// elements splits the content of a constructed value.
func elements(content []byte) ([]asn1.RawValue, error) {
	var out []asn1.RawValue
	for len(content) > 0 {
		var one asn1.RawValue
		rest, err := asn1.Unmarshal(content, &one)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
		content = rest
	}
	return out, nil
}

// unmarshal reads one value and nothing after it.
func unmarshal(raw asn1.RawValue, into any) error {
	rest, err := asn1.Unmarshal(raw.FullBytes, into)
	if err == nil && len(rest) != 0 {
		err = errors.New("trailing data")
	}
	return err
}
