package sign

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Tag marks muster's signatures among others that a request may carry (RFC 9421 section 2.3).
const Tag = "muster"

// label names our signature in the two header dictionaries.
const label = "muster"

const (
	minRandom = 16  // characters of a nonce after its epoch
	maxNonce  = 128 // characters of a nonce
)

// covered are the components that a request signature covers, all of them, in the order in which we write them.
var covered = [...]string{"@method", "@path", "@query", "content-digest"}

// ErrUnsigned is returned for a request without a signature of ours.
var ErrUnsigned = errors.New("the request carries no muster signature")

// Signer signs requests for one identity. Fingerprint is the certificate's SHA-256 in lower-case hex.
type Signer struct {
	Key         *ecdsa.PrivateKey
	Fingerprint string
}

// Sign signs a request as SignDigest does, for a body that is in memory.
func (s Signer) Sign(r *http.Request, body []byte, epoch string, created time.Time) (nonce string, err error) {
	return s.SignDigest(r, ContentDigest(body), epoch, created)
}

// SignDigest adds Content-Digest, Signature-Input and Signature (RFC 9421, ecdsa-p256-sha256; RFC 9530) to a request that is
// about to be sent. digest is the ContentDigest of its body. It returns the nonce, which the proof of the answer covers.
//
// The nonce is the gateway's epoch, a dot, the fingerprint and 16 random bytes. The fingerprint ties the proven answer to this
// identity. Without it, somebody who sees a nonce on its way could send it in a request of their own, and pass the proven answer to
// that request off as the answer to this one.
func (s Signer) SignDigest(r *http.Request, digest, epoch string, created time.Time) (nonce string, err error) {
	var random [16]byte
	rand.Read(random[:])
	nonce = epoch + "." + s.Fingerprint + strings.TrimRight(encode64(random[:]), "=")
	switch {
	case r.URL == nil || r.URL.Opaque != "": // net/http would send another path than the signed @path
		return "", fmt.Errorf("the request's URL cannot be signed: %w", ErrMalformed)
	case !every(epoch, isNonce) || len(nonce) > maxNonce:
		return "", fmt.Errorf("the epoch cannot stand in a nonce: %w", ErrMalformed)
	case !lowerHex(s.Fingerprint, 2*sha256.Size):
		return "", fmt.Errorf("the signer's fingerprint is not 64 hexadecimal digits: %w", ErrMalformed)
	}
	params := `("@method" "@path" "@query" "content-digest");created=` + strconv.FormatInt(created.Unix(), 10) +
		`;nonce="` + nonce + `";keyid="` + s.Fingerprint + `";tag="` + Tag + `"`
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header.Set("Content-Digest", digest)
	base, err := requestBase(r, covered[:], params)
	if err != nil {
		return "", err
	}
	signature, err := signP256(s.Key, base)
	if err != nil {
		return "", err
	}
	r.Header.Set("Signature-Input", label+"="+params)
	r.Header.Set("Signature", label+"=:"+encode64(signature)+":")
	return nonce, nil
}

// Signature is what a request's headers say about its signature. Only its form is checked.
type Signature struct {
	Fingerprint string // keyid
	Nonce       string
	Epoch       string // the part of the nonce before the last dot
	Created     time.Time
	components  [len(covered)]string
	params      string
	signature   []byte
}

// ParseRequest finds muster's signature in the request's headers. Other signatures may stand beside it. Ours must cover @method, @path,
// @query and content-digest, and must carry created, nonce, keyid and tag: each once, and nothing else. The error is ErrUnsigned if there
// is no signature of ours, and wraps ErrMalformed if it has another form.
func ParseRequest(r *http.Request) (*Signature, error) {
	inputs := r.Header["Signature-Input"]
	if len(inputs) == 0 {
		return nil, ErrUnsigned
	}
	member, input, err := findTagged(strings.Join(inputs, ", "))
	if err != nil {
		return nil, err
	}
	if len(r.Header["Content-Digest"]) != 1 {
		return nil, fmt.Errorf("a signed request carries one Content-Digest: %w", ErrMalformed)
	}
	raw, err := dictionaryBytes(strings.Join(r.Header["Signature"], ", "), member)
	if err != nil {
		return nil, err
	}
	return newSignature(input, raw)
}

func newSignature(in signatureInput, raw []byte) (*Signature, error) {
	if in.alien || in.count != len(covered) || !coversAll(in.components) || len(raw) != 2*p256Size {
		return nil, fmt.Errorf("the signature does not cover what muster asks for: %w", ErrMalformed)
	}
	created, err := strconv.ParseInt(in.created.text, 10, 64)
	if err != nil || in.created.kind != integerItem || created > 1<<40 {
		return nil, fmt.Errorf("the signature's created is no time: %w", ErrMalformed)
	}
	nonce := in.nonce.text
	keyID := in.keyID.text
	dot := strings.LastIndexByte(nonce, '.')
	if dot < 0 || len(nonce)-dot-1 < minRandom || len(nonce) > maxNonce || in.nonce.kind != stringItem || !every(nonce, isNonce) {
		return nil, fmt.Errorf("the signature's nonce has not muster's form: %w", ErrMalformed)
	}
	if in.keyID.kind != stringItem || !lowerHex(keyID, 2*sha256.Size) {
		return nil, fmt.Errorf("the signature's keyid is no fingerprint: %w", ErrMalformed)
	}
	if !ownNonce(nonce[dot+1:], keyID) {
		return nil, fmt.Errorf("the signature's nonce belongs to another identity: %w", ErrMalformed)
	}
	return &Signature{
		Fingerprint: keyID, Nonce: nonce, Epoch: nonce[:dot], Created: time.Unix(created, 0),
		components: in.components, params: in.text, signature: raw,
	}, nil
}

// ownNonce reports whether the part of a nonce behind the epoch may come from this identity. If it begins with a fingerprint, that must
// be the identity's. Another program that signs may leave the fingerprint out. Then its answers are its own only as long as nobody
// else sees its nonces.
func ownNonce(random, keyID string) bool {
	const digits = 2 * sha256.Size
	if len(random) < digits || !lowerHex(random[:digits], digits) {
		return true
	}
	return random[:digits] == keyID && len(random) >= digits+minRandom
}

// Verify checks the signature. It needs the request as it arrived, before anything (such as http.StripPrefix) changes its URL. It does
// not look at the body: VerifyDigest does. The error is ErrBadProof.
func (s *Signature) Verify(r *http.Request, key *ecdsa.PublicKey) error {
	base, err := requestBase(r, s.components[:], s.params)
	if err != nil || !verifyP256(key, base, s.signature) {
		return ErrBadProof
	}
	return nil
}

// ContentDigest returns the Content-Digest header for these bytes (RFC 9530 section 2), sha-256.
func ContentDigest(body []byte) string {
	sum := sha256.Sum256(body)
	return SumDigest(sum[:])
}

// SumDigest returns the ContentDigest of a body whose SHA-256 is known.
func SumDigest(sum []byte) string { return "sha-256=:" + encode64(sum) + ":" }

// VerifyDigest checks a Content-Digest header against a body. Other algorithms may stand beside sha-256. The error is
// ErrBadProof.
func VerifyDigest(header string, body []byte) error {
	if header == ContentDigest(body) {
		return nil
	}
	raw, err := dictionaryBytes(header, "sha-256")
	sum := sha256.Sum256(body)
	if err != nil || string(raw) != string(sum[:]) {
		return ErrBadProof
	}
	return nil
}

// requestBase is the signature base of a request on either end.
func requestBase(r *http.Request, components []string, params string) ([]byte, error) {
	return signatureBase(components, params, func(name string) (string, bool) { return requestComponent(r, name) })
}

// requestComponent gives the derived components of RFC 9421 section 2.2 for a request on either end, and header fields (2.1).
func requestComponent(r *http.Request, name string) (string, bool) {
	switch name {
	case "@method":
		if r.Method == "" { // net/http sends GET
			return http.MethodGet, true
		}
		return r.Method, true
	case "@path":
		if path := r.URL.EscapedPath(); path != "" {
			return path, true
		}
		return "/", true
	case "@query":
		if r.URL.RawQuery == "" { // also for a URL that has no query at all (2.2.7)
			return "?", true
		}
		return "?" + r.URL.RawQuery, true
	}
	values := r.Header.Values(name)
	if len(values) != 1 {
		return "", false
	}
	return strings.Trim(values[0], " \t"), true
}

// signatureBase builds the text that is signed (RFC 9421 section 2.5). params is the exact text of the inner list.
func signatureBase(components []string, params string, value func(string) (string, bool)) ([]byte, error) {
	b := make([]byte, 0, 512)
	for _, name := range components {
		text, ok := value(name)
		if !ok || strings.IndexByte(text, '\n') >= 0 || strings.IndexByte(text, '\r') >= 0 {
			return nil, fmt.Errorf("the request has no usable %s: %w", name, ErrMalformed)
		}
		b = append(b, '"')
		b = append(b, name...)
		b = append(b, `": `...)
		b = append(b, text...)
		b = append(b, '\n')
	}
	b = append(b, `"@signature-params": `...)
	return append(b, params...), nil
}

func coversAll(components [len(covered)]string) bool {
	for _, want := range covered {
		if !slices.Contains(components[:], want) {
			return false
		}
	}
	return true
}
