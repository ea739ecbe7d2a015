package artifact

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"hash"
	"regexp"
	"strings"
)

// MaxName is how many characters the name of a repository may have. Clients put a host before the name, and both together have 255 at most.
const MaxName = 255

// Algorithms of digests that this registry keeps blobs and manifests by.
const (
	SHA256 = "sha256" // of what is pushed by a tag
	SHA512 = "sha512"
)

// The grammar of the OCI distribution specification. A compiled expression is safe for concurrent use and never changes.
var (
	namePattern = regexp.MustCompile(`^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*$`)
	tagPattern  = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$`)
)

// CheckName refuses a text that cannot be the name of a repository: NAME_INVALID.
func CheckName(repository string) error {
	if len(repository) > MaxName || !namePattern.MatchString(repository) {
		return refuse(CodeNameInvalid, "the name of a repository is lower-case words, split by single slashes, such as team/agent", repository)
	}
	return nil
}

// IsTag reports whether a text is a tag. No digest is one, because a digest has a colon.
func IsTag(text string) bool { return tagPattern.MatchString(text) }

// Digest names content by its hash.
type Digest struct {
	Algorithm string // SHA256 or SHA512
	Hex       string // lower case
}

// String returns the digest as it is written in manifests and paths, such as sha256:<64 hex>.
func (d Digest) String() string { return d.Algorithm + ":" + d.Hex }

// number is the same for the same digest, and any number from 0 for others.
func (d Digest) number() int { return int(d.Hex[0])*16 + int(d.Hex[1]) }

// ParseDigest reads a digest. It refuses every other algorithm and every other form: DIGEST_INVALID.
func ParseDigest(text string) (Digest, error) {
	algorithm, digits, _ := strings.Cut(text, ":")
	size := map[string]int{SHA256: sha256.Size, SHA512: sha512.Size}[algorithm]
	if size == 0 || len(digits) != 2*size || strings.Trim(digits, "0123456789abcdef") != "" {
		return Digest{}, refuse(CodeDigestInvalid, "a digest is sha256: and 64, or sha512: and 128, lower-case hexadecimal digits", text)
	}
	return Digest{algorithm, digits}, nil
}

// IsDigest reports whether ParseDigest takes a text.
func IsDigest(text string) bool {
	_, err := ParseDigest(text)
	return err == nil
}

// DigestOf returns the digest of some bytes by SHA-256.
func DigestOf(content []byte) string { return digestBy(SHA256, content).String() }

func digestBy(algorithm string, content []byte) Digest {
	sum := newHash(algorithm)
	sum.Write(content)
	return sumOf(algorithm, sum)
}

func newHash(algorithm string) hash.Hash {
	if algorithm == SHA512 {
		return sha512.New()
	}
	return sha256.New()
}

func sumOf(algorithm string, sum hash.Hash) Digest {
	return Digest{algorithm, hex.EncodeToString(sum.Sum(nil))}
}
