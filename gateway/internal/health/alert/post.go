package alert

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"muster/gateway/internal/httpserver/post"
)

const (
	postTime = 15 * time.Second // for one request, its answer included

	// SignatureHeader proves to a webhook that a request comes from this gateway.
	SignatureHeader = "Muster-Signature"
	keyHeader       = "Idempotency-Key"
)

func newClient(roots *x509.CertPool) *post.Client {
	return post.New(post.Config{
		What: "receiver", Takes: "alerts", Roots: roots, Time: postTime, Longest: longestPause, Hops: 3,
		Untrusted: "add that authority to the certificates of the gateway's machine, and restart the gateway",
		Moved:     "add the receiver again with the address that it moved to",
		Barred:    "check the token, or the secret part of the URL",
		Nowhere:   "check the path of the URL",
		Wait:      "wait; the gateway tries again by itself",
		Broken:    "look at the receiver's own log; the gateway tries again by itself",
	})
}

// post sends messages to a receiver. Only an Alertmanager takes more than one.
func (d *Service) post(ctx context.Context, to *sealed, messages []message, now time.Time) (status int, err error) {
	r, err := request(ctx, to, messages, now)
	if err != nil {
		return 0, err
	}
	answer, failed := d.client.Send(r)
	if failed != nil {
		return 0, failed
	}
	return answer.Status, judged(r.URL.Host, answer, now)
}

func request(ctx context.Context, to *sealed, messages []message, now time.Time) (*http.Request, error) {
	address, body, err := to.render(messages, now)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, &post.Error{Text: "the address of the receiver cannot be used", Next: "add the receiver again with a URL"}
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "muster")
	if to.Token != "" {
		r.Header.Set("Authorization", "Bearer "+to.Token)
	}
	if to.Kind == KindWebhook {
		r.Header.Set(keyHeader, messages[0].Key)
		r.Header.Set(SignatureHeader, signature(to.Secret, now, body))
	}
	return r, nil
}

// signature is such as t=1700000000,v1=<hex HMAC-SHA256 of "1700000000." and the body>.
func signature(secret string, now time.Time, body []byte) string {
	at := strconv.FormatInt(now.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(at + "."))
	mac.Write(body)
	return "t=" + at + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// judged is nil for an answer by which the receiver takes the message. A page for people comes from something else.
func judged(host string, a *post.Answer, now time.Time) error {
	switch {
	case a.Status/100 == 2 && !a.IsPage():
		return nil
	case a.Status/100 == 2:
		return &post.Error{Status: a.Status, Next: "check the URL: a login page or a proxy stands at this one",
			Text: fmt.Sprintf("%s answered with a page for people (%d, %s), so the alert did not arrive", host, a.Status, a.Type)}
	}
	if e := a.Refusal(now); e != nil {
		return e
	}
	e := a.Fails(": it does not take this message", "look at what the receiver says of its last requests")
	e.Refused = true
	return e
}
