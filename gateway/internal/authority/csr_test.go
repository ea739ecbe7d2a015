package authority_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"

	"muster/gateway/internal/authority"
)

const (
	nodeURI = "spiffe://muster.test/node/n1"
	sanID   = 17
)

func allowed() authority.Subject {
	return authority.Subject{Names: []string{"n1", "vast-h100"}, URI: nodeURI}
}

func parseURL(t testing.TB, text string) []*url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return []*url.URL{u}
}

func createCSR(t testing.TB, key crypto.Signer, template x509.CertificateRequest) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &template, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// der encodes one ASN.1 value around its content.
func der(t testing.TB, class, tag int, content ...[]byte) []byte {
	t.Helper()
	var all []byte
	for _, part := range content {
		all = append(all, part...)
	}
	out, err := asn1.Marshal(asn1.RawValue{Class: class, Tag: tag, IsCompound: true, Bytes: all})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func mustMarshal(t testing.TB, v any) []byte {
	t.Helper()
	out, err := asn1.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// rawCSR builds and signs a request from parts that crypto/x509 would not write. more goes behind the attributes.
func rawCSR(t testing.TB, attributes, more []byte) []byte {
	t.Helper()
	return rawRequest{attributes: attributes, inner: more, algorithm: 2}.sign(t)
}

// rawRequest is a request with a part too many in one place or another.
type rawRequest struct {
	attributes           []byte
	inner, outer, keyAlg []byte // behind the attributes, the signature, the parameters of the key's algorithm
	algorithm            int    // last number of ecdsa-with-SHA2: 2 SHA-256; 1 SHA-224
}

func (r rawRequest) sign(t testing.TB) []byte {
	t.Helper()
	key := newKey(t)
	point, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	algorithm := der(t, 0, asn1.TagSequence, mustMarshal(t, asn1.ObjectIdentifier{1, 2, 840, 10045, 2, 1}),
		mustMarshal(t, asn1.ObjectIdentifier{1, 2, 840, 10045, 3, 1, 7}), r.keyAlg)
	spki := der(t, 0, asn1.TagSequence, algorithm, mustMarshal(t, asn1.BitString{Bytes: point, BitLength: 8 * len(point)}))
	info := der(t, 0, asn1.TagSequence, mustMarshal(t, 0), der(t, 0, asn1.TagSequence), spki,
		der(t, asn1.ClassContextSpecific, 0, r.attributes), r.inner)
	sum := sha256.Sum256(info)
	signature, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	signed := mustMarshal(t, pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, r.algorithm}})
	return der(t, 0, asn1.TagSequence, info, signed, mustMarshal(t, asn1.BitString{Bytes: signature, BitLength: 8 * len(signature)}), r.outer)
}

func attribute(t testing.TB, id asn1.ObjectIdentifier, values ...[]byte) []byte {
	t.Helper()
	return der(t, 0, asn1.TagSequence, mustMarshal(t, id), der(t, 0, asn1.TagSet, values...))
}

func extensionRequest(t testing.TB, last int, value []byte) []byte {
	t.Helper()
	list := mustMarshal(t, []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, last}, Value: value}})
	return attribute(t, asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 14}, list)
}

func uriName(text string) []byte {
	return append([]byte{0x86, byte(len(text))}, text...)
}

func TestCheckCSRAccepts(t *testing.T) {
	key := newKey(t)
	cases := map[string]struct {
		der   []byte
		allow authority.Subject
	}{
		"nothing but a key":   {createCSR(t, key, x509.CertificateRequest{}), authority.Subject{}},
		"the node's id":       {createCSR(t, key, x509.CertificateRequest{Subject: pkix.Name{CommonName: "n1"}}), allowed()},
		"the node's name":     {createCSR(t, key, x509.CertificateRequest{Subject: pkix.Name{CommonName: "vast-h100"}}), allowed()},
		"the node's URI":      {createCSR(t, key, x509.CertificateRequest{URIs: parseURL(t, nodeURI)}), allowed()},
		"signed with SHA-384": {createCSR(t, key, x509.CertificateRequest{SignatureAlgorithm: x509.ECDSAWithSHA384}), allowed()},
		"parts put together":  {rawCSR(t, nil, nil), allowed()},
		"parts with the URI":  {rawCSR(t, extensionRequest(t, sanID, der(t, 0, asn1.TagSequence, uriName(nodeURI))), nil), allowed()},
		"an empty extensions list": {rawCSR(t, attribute(t, asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 14}, der(t, 0, asn1.TagSequence)),
			nil), allowed()},
	}
	for name, c := range cases {
		for _, text := range []string{csrPEM(c.der), "\n " + csrPEM(c.der) + "\r\n", strings.ReplaceAll(csrPEM(c.der), "\n", "\r\n")} {
			csr, err := authority.CheckCSR(text, c.allow)
			if err != nil || csr == nil {
				t.Errorf("%s: got %v", name, err)
			}
		}
	}
}

func TestCheckCSRRefuses(t *testing.T) {
	key := newKey(t)
	p384, _ := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	_, edKey, _ := ed25519.GenerateKey(nil)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	with := func(template x509.CertificateRequest) string { return csrPEM(createCSR(t, key, template)) }
	extension := func(last int, value []byte) string {
		return with(x509.CertificateRequest{ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, last}, Value: value}}})
	}
	good := createCSR(t, key, x509.CertificateRequest{})
	forged := append([]byte(nil), good...)
	forged[len(forged)-1] ^= 1
	san := func(names ...[]byte) []byte { return extensionRequest(t, sanID, der(t, 0, asn1.TagSequence, names...)) }
	challenge := attribute(t, asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 7}, mustMarshal(t, "secret"))
	uri := uriName(nodeURI)

	cases := map[string]struct{ text, want string }{
		"nothing":               {"", "does not begin with a PEM block"},
		"not PEM":               {"hello", "does not begin with a PEM block"},
		"another block":         {strings.ReplaceAll(csrPEM(good), "CERTIFICATE REQUEST", "CERTIFICATE"), "does not begin with a PEM block"},
		"text before":           {"hello\n" + csrPEM(good), "does not begin with a PEM block"},
		"text after":            {csrPEM(good) + "hello", "data after"},
		"two blocks":            {csrPEM(good) + csrPEM(good), "not one well-formed PEM block"},
		"a broken block before": {"-----BEGIN CERTIFICATE REQUEST-----\n!\n" + csrPEM(good), "not one well-formed PEM block"},
		"cut off":               {csrPEM(good)[:200], "not one well-formed PEM block"},
		"headers":               {strings.Replace(csrPEM(good), "-----\n", "-----\nA: b\n\n", 1), "not one well-formed PEM block"},
		"too long":              {csrPEM(good) + strings.Repeat("\n", 8<<10), "more than 8192 bytes"},
		"not DER":               {csrPEM([]byte("hello")), "not PKCS #10"},
		"data after the DER":    {csrPEM(append(good[:len(good):len(good)], 0)), "not PKCS #10"},
		"P-384":                 {csrPEM(createCSR(t, p384, x509.CertificateRequest{})), "its key is ECDSA P-384, not ECDSA P-256"},
		"RSA":                   {csrPEM(createCSR(t, rsaKey, x509.CertificateRequest{})), "its key is RSA, not"},
		"Ed25519":               {csrPEM(createCSR(t, edKey, x509.CertificateRequest{})), "its key is Ed25519, not"},
		"forged":                {csrPEM(forged), "not signed by its own key"},
		"another name":          {with(x509.CertificateRequest{Subject: pkix.Name{CommonName: "n2"}}), `common name "n2" is not this node's`},
		"a name with control":   {with(x509.CertificateRequest{Subject: pkix.Name{CommonName: "n1\x00\n"}}), `common name "n1\x00\n"`},
		"an organization": {with(x509.CertificateRequest{Subject: pkix.Name{CommonName: "n1", Organization: []string{"x"}}}),
			"more than a common name"},
		"only an organization": {with(x509.CertificateRequest{Subject: pkix.Name{Organization: []string{"n1"}}}), "more than a common name"},
		"two names": {with(x509.CertificateRequest{Subject: pkix.Name{CommonName: "n1",
			ExtraNames: []pkix.AttributeTypeAndValue{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "n1"},
				{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "n1"}}}}), "more than a common name"},
		"a CA flag":             {extension(19, mustMarshal(t, []bool{true})), "basic constraints (a CA flag)"},
		"a key usage":           {extension(15, mustMarshal(t, asn1.BitString{Bytes: []byte{6}, BitLength: 7})), "a key usage"},
		"an extended key usage": {extension(37, mustMarshal(t, []asn1.ObjectIdentifier{{2, 5, 29, 37, 0}})), "an extended key usage"},
		"an unknown extension":  {extension(99, []byte{5, 0}), "the extension 2.5.29.99"},
		"a DNS name":            {with(x509.CertificateRequest{DNSNames: []string{"n1"}}), "other alternative names than one URI"},
		"an IP address": {with(x509.CertificateRequest{IPAddresses: []net.IP{{127, 0, 0, 1}}}),
			"other alternative names than one URI"},
		"a mail address": {with(x509.CertificateRequest{EmailAddresses: []string{"a@b"}}), "other alternative names than one URI"},
		"the URI and a DNS name": {with(x509.CertificateRequest{URIs: parseURL(t, nodeURI), DNSNames: []string{"n1"}}),
			"other alternative names than one URI"},
		"another node's URI": {with(x509.CertificateRequest{URIs: parseURL(t, "spiffe://muster.test/node/n2")}),
			`"spiffe://muster.test/node/n2", which is not this node's`},
		"the URI twice": {csrPEM(rawCSR(t, san(uri, uri), nil)), "other alternative names than one URI"},
		"the URI and another one": {csrPEM(rawCSR(t,
			san(uri, der(t, asn1.ClassContextSpecific, 0, mustMarshal(t, asn1.ObjectIdentifier{1, 2, 3}))), nil)),
			"other alternative names than one URI"},
		"no alternative name":  {csrPEM(rawCSR(t, san(), nil)), "other alternative names than one URI"},
		"a challenge password": {csrPEM(rawCSR(t, challenge, nil)), "the attribute 1.2.840.113549.1.9.7"},
		"an attribute beside":  {csrPEM(rawCSR(t, append(san(uri), challenge...), nil)), "the attribute 1.2.840.113549.1.9.7"},
		"two extension requests": {csrPEM(rawCSR(t,
			append(san(uri), attribute(t, asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 14}, der(t, 0, asn1.TagSequence))...), nil)),
			"more than one list of extensions"},
		"two lists in one": {csrPEM(rawCSR(t,
			attribute(t, asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 14}, der(t, 0, asn1.TagSequence), der(t, 0, asn1.TagSequence)), nil)),
			"more than one list of extensions"},
		"a malformed attribute":       {csrPEM(rawCSR(t, der(t, 0, asn1.TagSequence, mustMarshal(t, 1)), nil)), "attributes are malformed"},
		"malformed alternative names": {csrPEM(rawCSR(t, extensionRequest(t, sanID, []byte{4, 0}), nil)), "PKCS #10"},
		"signed with SHA-224":         {csrPEM(rawRequest{algorithm: 1}.sign(t)), "signed with"},
		"a key in another encoding":   {csrPEM(rawRequest{algorithm: 2, keyAlg: mustMarshal(t, 1)}.sign(t)), "not in the usual encoding"},
		"a part behind the signature": {csrPEM(rawRequest{algorithm: 2, outer: mustMarshal(t, 1)}.sign(t)),
			"more than a request, an algorithm and a signature"},
		"a part too many": {csrPEM(rawCSR(t, nil, mustMarshal(t, 1))), "more than a version, a subject, a key and attributes"},
	}
	for name, c := range cases {
		csr, err := authority.CheckCSR(c.text, allowed())
		if !errors.Is(err, authority.ErrBadCSR) || csr != nil {
			t.Errorf("%s: got %v, %v; want ErrBadCSR", name, csr, err)
			continue
		}
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %q, want %q in it", name, err, c.want)
		}
	}
	if _, err := authority.CheckCSR(with(x509.CertificateRequest{URIs: parseURL(t, nodeURI)}), authority.Subject{}); !errors.Is(err,
		authority.ErrBadCSR) {
		t.Errorf("a URI where none is allowed: got %v", err)
	}
	if _, err := authority.CheckCSR(with(x509.CertificateRequest{Subject: pkix.Name{CommonName: "n1"}}),
		authority.Subject{}); !errors.Is(err, authority.ErrBadCSR) {
		t.Errorf("a name where none is allowed: got %v", err)
	}
}

func TestKeyHash(t *testing.T) {
	key := newKey(t)
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(der)
	if got, want := authority.KeyHash(der), hex.EncodeToString(sum[:]); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func FuzzCheckCSR(f *testing.F) {
	key := newKey(f)
	for _, template := range []x509.CertificateRequest{
		{},
		{Subject: pkix.Name{CommonName: "n1"}, URIs: parseURL(f, nodeURI)},
		{Subject: pkix.Name{CommonName: "n2"}, DNSNames: []string{"n1"}},
	} {
		f.Add(csrPEM(createCSR(f, key, template)))
	}
	f.Add(csrPEM(rawCSR(f, extensionRequest(f, sanID, der(f, 0, asn1.TagSequence, uriName(nodeURI))), nil)))
	f.Add(csrPEM(rawCSR(f, attribute(f, asn1.ObjectIdentifier{1, 2, 3}), nil)))
	f.Add("-----BEGIN CERTIFICATE REQUEST-----\nMAA=\n-----END CERTIFICATE REQUEST-----\n")
	f.Add("-----BEGIN CERTIFICATE REQUEST-----")
	f.Fuzz(func(t *testing.T, text string) {
		csr, err := authority.CheckCSR(text, allowed())
		if err != nil {
			if !errors.Is(err, authority.ErrBadCSR) || csr != nil {
				t.Fatalf("got %v, %v", csr, err)
			}
			return
		}
		if len(authority.KeyHash(csr.RawSubjectPublicKeyInfo)) != 64 || csr.CheckSignature() != nil ||
			len(csr.DNSNames)+len(csr.IPAddresses)+len(csr.EmailAddresses) != 0 {
			t.Fatalf("accepted what it should not: %q", text)
		}
		if name := csr.Subject.CommonName; name != "" && name != "n1" && name != "vast-h100" {
			t.Fatalf("accepted the name %q", name)
		}
		if _, err := authority.CheckCSR(csrPEM(csr.Raw), allowed()); err != nil {
			t.Fatalf("its own encoding is refused: %v", err)
		}
	})
}
