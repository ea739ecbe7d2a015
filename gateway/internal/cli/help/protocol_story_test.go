package help_test

import (
	"bufio"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"hash/crc32"
	"io"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/reply"
)

// The one story that the page's examples tell.
const (
	storyHost   = "gw.example:7443"
	storyEpoch  = "5f0c2a9be4417d36"
	storyDomain = "muster.example"
	storyNode   = "n-6a3f09c41b7e52d8"
	storyNonce  = "AAECAwQFBgcICQoLDA0ODw=="
)

var storyTime = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func newReader(r io.Reader) *bufio.Reader { return bufio.NewReader(r) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func b64(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

func seed(name string) []byte {
	sum := sha256.Sum256([]byte("muster protocol example: " + name))
	return sum[:]
}

// endless is a reader of fixed bytes.
type endless struct {
	name string
	n    int
	left []byte
}

func (e *endless) Read(p []byte) (int, error) {
	if len(e.left) == 0 {
		e.left = seed(e.name + strconv.Itoa(e.n))
		e.n++
	}
	n := copy(p, e.left)
	e.left = e.left[n:]
	return n, nil
}

func p256(name string) *ecdsa.PrivateKey {
	return must(ecdsa.ParseRawPrivateKey(elliptic.P256(), seed(name)))
}

func edKey(name string) ed25519.PrivateKey { return ed25519.NewKeyFromSeed(seed(name)) }

func edPublic(name string) string { return b64(edKey(name).Public().(ed25519.PublicKey)) }

func mac(key []byte, text string) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return b64(h.Sum(nil))
}

func digestOf(body []byte) string {
	sum := sha256.Sum256(body)
	return "sha-256=:" + b64(sum[:]) + ":"
}

func encode(v any) []byte { return must(json.Marshal(v)) }

func pemOf(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// checksum is the page's: CRC-32 in base62.
func checksum(text string) string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	sum := crc32.ChecksumIEEE([]byte(text))
	out := ""
	for range 6 {
		out = string(digits[sum%62]) + out
		sum /= 62
	}
	return out
}

// enrollKey is the page's key of a secret.
func enrollKey(secret string) []byte {
	return must(hkdf.Key(sha256.New, []byte(secret), nil, "muster enroll v1", 32))
}

// story collects the examples.
type story struct {
	examples map[string]string
	at       time.Time // now
}

// tell computes all examples.
func tell(t *testing.T) map[string]string {
	t.Helper()
	s := story{examples: map[string]string{}, at: storyTime}
	s.credentials()
	s.register()
	s.trust()
	s.heartbeat()
	s.renewal()
	s.leave()
	s.adopt()
	s.staleNonce()
	s.task()
	s.release()
	return s.examples
}

func storyToken(kind sign.TokenKind) sign.Token {
	return must(sign.NewToken(kind, &endless{name: "token " + string(kind)}))
}

func (s story) credentials() {
	token := storyToken(sign.EnrollmentToken)
	boot := storyToken(sign.BootstrapToken)
	s.examples["token"] = credentialText(token.Reveal(), "mse_"+token.ID+"__"+token.Secret[:22], token.Secret, "mse_"+token.ID)
	before := "msb_" + boot.ID + "_" + boot.Fetch + "_" + boot.Secret[:22]
	s.examples["bootstrap-token"] = credentialText(boot.Reveal(), before, boot.Secret, "msb_"+boot.ID)
	psk := must(sign.NewPSK(&endless{name: "psk"}))
	stretched := must(pbkdf2.Key(sha256.New, psk, []byte("muster psk v1"), 600000, 32))
	id := sha256.Sum256(enrollKey(string(stretched)))
	s.examples["psk"] = pskText(psk, stretched, "psk-"+hex.EncodeToString(id[:4]))
}

func credentialText(whole, before, secret, name string) string {
	return fmt.Sprintf("token          %s\ncredential     %s\nbefore the sum %s\nCRC-32         %d\nchecksum       %s\n"+
		"secret         %s\nkey (hex)      %x",
		whole, name, before, crc32.ChecksumIEEE([]byte(before)), checksum(before), secret, enrollKey(secret))
}

func pskText(psk string, stretched []byte, id string) string {
	before := psk[:26]
	return fmt.Sprintf("PSK            %s\nbefore the sum %s\nCRC-32         %d\nchecksum       %s\nPBKDF2 (hex)   %x\n"+
		"key (hex)      %x\ncredential     %s",
		psk, before, crc32.ChecksumIEEE([]byte(before)), checksum(before), stretched, enrollKey(string(stretched)), id)
}

// rs is ECDSA with SHA-256 in the form r || s, deterministic as in RFC 6979.
func rs(key *ecdsa.PrivateKey, text string) []byte {
	sum := sha256.Sum256([]byte(text))
	var pair struct{ R, S *big.Int }
	must(asn1.Unmarshal(must(key.Sign(nil, sum[:], crypto.SHA256)), &pair))
	return append(pair.R.FillBytes(make([]byte, 32)), pair.S.FillBytes(make([]byte, 32))...)
}

// signed is one signed request and what proves its answer.
type signed struct {
	path, base, nonce string
}

// request adds a signed request under a name, with a nonce whose random part is made from that name.
func (s story) request(name, path, epoch string, id identity, body []byte) signed {
	return s.requestAs(name, "POST", path, "", requestHead(path, body), epoch, id, body)
}

// requestAs adds a signed request with another method, a query, or another head.
func (s story) requestAs(name, method, path, query, head, epoch string, id identity, body []byte) signed {
	nonce := epoch + "." + id.fingerprint() + strings.TrimRight(b64(seed("nonce " + name)[:16]), "=")
	params := fmt.Sprintf(`("@method" "@path" "@query" "content-digest");created=%d;nonce="%s";keyid="%s";tag="muster"`,
		s.at.Unix(), nonce, id.fingerprint())
	base := `"@method": ` + method + "\n" + `"@path": ` + path + "\n" + `"@query": ?` + query + "\n" +
		`"content-digest": ` + digestOf(body) + "\n" + `"@signature-params": ` + params
	s.examples[name+"-request"] = head + "Content-Digest: " + digestOf(body) +
		"\nSignature-Input: muster=" + params + "\nSignature: muster=:" + b64(rs(id.key, base)) + ":"
	return signed{path: path, base: base, nonce: nonce}
}

// requestHead is what the head of every request begins with.
func requestHead(path string, body []byte) string {
	return fmt.Sprintf("POST %s HTTP/1.1\nHost: %s\nContent-Type: application/json\nContent-Length: %d\n", path, storyHost, len(body))
}

// answer adds the proven answer to a signed request.
func (s story) answer(name string, r signed, status string, message any) (text string) {
	body := reply.JSON(message)
	text = "muster answer v1\n" + r.nonce + "\n" + status[:3] + "\n" + digestOf(body)
	proof := b64(ed25519.Sign(edKey("answer"), []byte(text)))
	s.respond(name, status, "Muster-Answer: "+proof, body)
	return text
}

func (s story) respond(name, status, proof string, body []byte) {
	s.examples[name+"-body"] = strings.TrimSuffix(string(body), "\n")
	s.examples[name] = fmt.Sprintf("HTTP/1.1 %s\nContent-Type: application/json\nContent-Length: %d\nMuster-Epoch: %s\n%s",
		status, len(body), storyEpoch, proof)
}

// refusal is one with the gateway's time.
func refusal(code, message, hint string) wire.Error {
	now := storyTime
	return wire.Error{Error: wire.ErrorDetail{Code: code, Message: message, Hint: hint}, Time: &now, Epoch: storyEpoch}
}
