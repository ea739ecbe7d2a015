package region

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"muster/agent/wire"
)

// key is an API key of MAAS.
type key struct{ consumer, token, secret string }

// keyPart has the characters that OAuth writes as they are (RFC 5849, section 3.6).
var keyPart = regexp.MustCompile(`^[A-Za-z0-9._~-]{4,256}$`)

// readKey reads CONSUMER:TOKEN:SECRET. Its error has nothing of the text.
func readKey(text string) (key, error) {
	parts := strings.Split(strings.TrimSpace(text), ":")
	if len(parts) != 3 || !keyPart.MatchString(parts[0]) || !keyPart.MatchString(parts[1]) || !keyPart.MatchString(parts[2]) {
		return key{}, errors.New("the API key of MAAS is not CONSUMER:TOKEN:SECRET, as its page of API keys shows it")
	}
	return key{parts[0], parts[1], parts[2]}, nil
}

// header is the Authorization header of one attempt (RFC 5849, PLAINTEXT). MAAS takes a nonce once, so each attempt has its own.
func (k key) header(now time.Time) string {
	var nonce [16]byte
	rand.Read(nonce[:])
	return fmt.Sprintf(`OAuth realm="MAAS API", oauth_consumer_key="%s", oauth_token="%s", oauth_signature_method="PLAINTEXT", `+
		`oauth_signature="%%26%s", oauth_timestamp="%d", oauth_nonce="%s", oauth_version="1.0"`,
		k.consumer, k.token, k.secret, now.Unix(), hex.EncodeToString(nonce[:]))
}

const longestText = 300 // bytes of what MAAS says

// likeSecret is what looks like a secret, wherever it stands: a credential of muster, and user data in base64.
var likeSecret = regexp.MustCompile(`ms[abek]_[A-Za-z0-9_.]+|[A-Za-z0-9_+/=]{48,}`)

// plain makes a short line of MAAS's text, without the key and without what looks like a secret.
func (k key) plain(text string) string {
	hide := strings.NewReplacer(k.secret, "***", k.token, "***", k.consumer, "***")
	text = likeSecret.ReplaceAllString(hide.Replace(wire.Plain(hide.Replace(text), 4*longestText)), "***")
	return wire.Cut(text, longestText)
}
