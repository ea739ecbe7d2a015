package alert

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	postTime      = 15 * time.Second // for one request, its answer included
	longestAnswer = 64 << 10         // bytes of an answer that are read
	longestHeader = 64 << 10
	mostHops      = 3

	// SignatureHeader proves to a webhook that a request comes from this gateway.
	SignatureHeader = "Muster-Signature"
	keyHeader       = "Idempotency-Key"
)

// postError says why a receiver did not take a message, in words that hold nothing of its address but the host.
type postError struct {
	text      string
	next      string        // what to do
	ofMessage bool          // the receiver refuses this message: others may be taken
	after     time.Duration // it asked to wait so long; 0: it did not
}

func (e *postError) Error() string { return e.text }

// poster makes requests to receivers.
type poster struct{ client *http.Client }

func newPoster(roots *x509.CertPool) *poster {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true, MaxIdleConns: 50, IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: longestHeader,
		TLSHandshakeTimeout: 10 * time.Second,
	}
	return &poster{&http.Client{Transport: transport, Timeout: postTime, CheckRedirect: stays}}
}

// stays lets a request follow a redirect that keeps its body, to another path of the same host. Another host must not get it.
func stays(r *http.Request, via []*http.Request) error {
	first := via[0].URL
	status := r.Response.StatusCode
	keeps := status == http.StatusTemporaryRedirect || status == http.StatusPermanentRedirect
	if !keeps || len(via) > mostHops || r.URL.Host != first.Host || r.URL.Scheme != first.Scheme {
		return http.ErrUseLastResponse
	}
	return nil
}

// post sends messages to a receiver. Only an Alertmanager takes more than one.
func (p *poster) post(ctx context.Context, to target, messages []message, now time.Time) (status int, err error) {
	r, err := request(ctx, to, messages, now)
	if err != nil {
		return 0, err
	}
	answer, err := p.client.Do(r)
	if err != nil {
		return 0, unreached(r.URL.Host, err)
	}
	defer answer.Body.Close()
	// What is left of a longer answer is not read: closing ends the connection.
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, longestAnswer))
	return answer.StatusCode, judged(r.URL.Host, answer, now)
}

func request(ctx context.Context, to target, messages []message, now time.Time) (*http.Request, error) {
	address, body, err := to.render(messages, now)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, &postError{text: "the address of the receiver cannot be used", next: "add the receiver again with a URL"}
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
func judged(host string, answer *http.Response, now time.Time) error {
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	status := answer.StatusCode
	e := &postError{text: fmt.Sprintf("%s answered with status %d", host, status),
		next: "look at what the receiver says of its last requests"}
	switch {
	case status/100 == 2 && kind != "text/html" && kind != "application/xhtml+xml":
		return nil
	case status/100 == 2:
		e.text = fmt.Sprintf("%s answered with a page for people (%d, %s), so the alert did not arrive", host, status, kind)
		e.next = "check the URL: a login page or a proxy stands at this one"
	case status/100 == 3:
		e.text += ": it sends callers to another place"
		e.next = "add the receiver again with the address that it moved to"
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		e.text += ": it does not let the gateway in"
		e.next = "check the token, or the secret part of the URL"
	case status == http.StatusNotFound || status == http.StatusGone:
		e.text += ": nothing takes alerts there"
		e.next = "check the path of the URL"
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		e.text += ": it asks to wait"
		e.next = "wait; the gateway tries again by itself"
		e.after = retryAfter(answer.Header.Get("Retry-After"), now)
	case status/100 == 5:
		e.text += ": it is broken"
		e.next = "look at the receiver's own log; the gateway tries again by itself"
	default:
		e.ofMessage = true
		e.text += ": it does not take this message"
	}
	return e
}

// retryAfter reads seconds or a date; 0: neither.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(strings.TrimSpace(text), 10, 31); err == nil {
		return min(time.Duration(seconds)*time.Second, longestPause)
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return max(0, min(at.Sub(now), longestPause))
}

// unreached says why no answer came. The errors of net/http hold the whole URL, which may be a secret, so none of their text is used.
func unreached(host string, err error) error {
	e := &postError{text: "no connection to " + host, next: "check the URL, and that this machine reaches it"}
	var name *net.DNSError
	var unknown x509.UnknownAuthorityError
	var wrongName x509.HostnameError
	var invalid x509.CertificateInvalidError
	var timeout net.Error
	switch {
	case errors.As(err, &name):
		e.text = "the name of " + host + " is not known"
		e.next = "check the host in the URL, and the DNS of the gateway's machine"
	case errors.As(err, &unknown):
		e.text = "the certificate of " + host + " is not of an authority that this machine trusts"
		e.next = "add that authority to the certificates of the gateway's machine, and restart the gateway"
	case errors.As(err, &wrongName):
		e.text = "the certificate of " + host + " is for another name"
		e.next = "use the name in the certificate"
	case errors.As(err, &invalid):
		e.text = "the certificate of " + host + " is not good, or not any more"
		e.next = "renew it there; check the clocks"
	case errors.As(err, &timeout) && timeout.Timeout():
		e.text = fmt.Sprintf("%s gave no answer within %s", host, postTime)
	case errors.Is(err, syscall.ECONNREFUSED):
		e.text = "nothing listens at " + host
		e.next = "check the port in the URL, and that the receiver runs"
	}
	return e
}
