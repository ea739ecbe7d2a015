package stepca

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

const (
	pathSign = "/1.0/sign"

	patience  = 6 * time.Second // for one certificate, all tries and pauses included; a node that waits sends no heartbeat
	tryTime   = 4 * time.Second // for one try
	firstWait = 200 * time.Millisecond
	longWait  = 2 * time.Second

	maxAnswer = 64 << 10 // bytes; a chain of P-256 certificates has about 2 KiB, one of RSA certificates 8 KiB
	// maxTokens is how many tokens step-ca may refuse before sign gives up. If step-ca has just restarted, it accepts a fresh token.
	// Otherwise it refuses all of them.
	maxTokens = 3
)

// signRequest is the body of POST /1.0/sign.
type signRequest struct {
	Request string `json:"csr"`      // PEM
	Token   string `json:"ott"`      // one-time
	Expires string `json:"notAfter"` // a duration from now by step-ca's clock, or a time
}

// sign orders a certificate. It tries again until step-ca gives one, the failure is final, or patience ends.
func (i *Issuer) sign(ctx context.Context, o order) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var floor time.Time // step-ca's clock in its last refusal: a token must not be issued before that
	refused := 0
	for try := 0; ; try++ {
		answer, err := i.signOnce(ctx, o, floor)
		var f *failure
		if err == nil || !errors.As(err, &f) || f.again == final {
			return answer, err
		}
		if f.again == freshToken {
			if refused++; refused == maxTokens {
				return nil, err
			}
			floor = f.date
		}
		if !pause(ctx, try) {
			return nil, err
		}
	}
}

// signOnce makes one try, with a token that was never sent before.
func (i *Issuer) signOnce(ctx context.Context, o order, floor time.Time) ([]byte, error) {
	c := i.credential.Current()
	now := i.config.Now()
	expires, err := lifetime(o, c, now)
	if err != nil {
		return nil, err
	}
	issued := now
	if floor.After(issued) {
		issued = floor
	}
	token, err := i.token(o, c, issued)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(signRequest{Request: encodeRequest(o.csr), Token: token, Expires: expires})
	if err != nil {
		return nil, err
	}
	return i.exchange(ctx, http.MethodPost, pathSign, body, http.StatusCreated)
}

// lifetime is the lifetime to ask for. Usually it is a duration, which step-ca counts by its own clock: so the two clocks need not
// agree. An X5C credential that ends earlier limits it, because step-ca would refuse more.
func lifetime(o order, c *credential, now time.Time) (string, error) {
	if end, ends := c.expires(); ends {
		if !now.Before(end) {
			return "", failed("the X5C certificate of the gateway expired at %s; renew it (step ca renew CERT KEY) and the gateway reads it "+
				"again by itself", end.UTC().Format(time.RFC3339))
		}
		if end.Sub(now) < o.ttl {
			return end.UTC().Format(time.RFC3339), nil
		}
	}
	return o.ttl.String(), nil
}

func encodeRequest(csr *x509.CertificateRequest) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr.Raw}))
}

// exchange sends one request, and returns the body of an answer with the wanted status. Other answers are failures.
func (i *Issuer) exchange(ctx context.Context, method, path string, body []byte, want int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, i.base.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "muster-gateway")
	client := *i.config.Client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // no other server gets a token
	response, err := client.Do(request)
	if err != nil {
		return nil, unreachable(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, unreachable(err)
	case response.StatusCode != want:
		return nil, i.refusal(response, answer)
	case len(answer) > maxAnswer:
		return nil, failed("its answer has more than %d bytes: something else than step-ca answers at this URL", maxAnswer)
	}
	return answer, nil
}

// unreachable makes a failure of a connection error. A wrong server is final; anything else may pass.
func unreachable(err error) *failure {
	var untrusted x509.UnknownAuthorityError
	var name x509.HostnameError
	switch {
	case errors.As(err, &untrusted):
		return failed("its TLS certificate does not chain to the configured root: check the root file against step ca root, and the URL: %w", err)
	case errors.As(err, &name):
		return failed("its TLS certificate is for another host: use one of dnsNames in its ca.json in the URL: %w", err)
	}
	f := failed("it cannot be reached: see that it runs and that the URL is right: %w", err)
	f.again = later
	return f
}

// refusal reads step-ca's errors: {"status":403,"message":"..."}.
func (i *Issuer) refusal(response *http.Response, body []byte) *failure {
	var said struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(body, &said) != nil || said.Message == "" {
		said.Message = "no reason given"
	}
	words := fmt.Sprintf("%d, %q", response.StatusCode, cut(said.Message, 300))
	date, _ := http.ParseTime(response.Header.Get("Date"))
	var f *failure
	switch status := response.StatusCode; {
	case status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout:
		f = failed("it is in trouble (%s); its log says more", words)
		f.again = later
	case status == http.StatusUnauthorized:
		f = failed("it refuses the gateway's token (%s): check the provisioner's name %q and key, that the URL's host is among dnsNames in "+
			"its ca.json, and the clocks%s; its log has the reason",
			words, i.config.Provisioner, i.apart(date))
		f.again = freshToken
	case status == http.StatusForbidden:
		f = failed("it refuses to sign (%s): %s", words, forbiddenHint(said.Message))
	case status == http.StatusBadRequest:
		f = failed("it does not understand the request (%s): a template of the provisioner may be wrong, or this gateway does not know its "+
			"version; its log has the reason", words)
	default:
		f = failed("it answers %s: something else than step-ca may answer at this URL", words)
	}
	f.date = date
	return f
}

// forbiddenHint says what the operator can change.
func forbiddenHint(message string) string {
	switch {
	case strings.Contains(message, "minimum certificate duration"):
		return "give muster serve a longer --cert-ttl, or lower minTLSCertDuration in the provisioner's claims"
	case strings.Contains(message, "maximum certificate duration"):
		return "give muster serve a shorter --cert-ttl, or raise maxTLSCertDuration in the provisioner's claims"
	case strings.Contains(message, "provisioning credential"):
		return "the gateway's X5C certificate does not cover that time; renew it"
	default:
		return "its policy, a template or a webhook forbids it; allow the URI spiffe://<trust-domain>/node/* for this provisioner"
	}
}

// apart says how far step-ca's clock is from ours. It is empty if the difference is too small to matter.
func (i *Issuer) apart(date time.Time) string {
	if date.IsZero() {
		return ""
	}
	by := i.config.Now().Sub(date).Round(time.Second)
	if by.Abs() < 30*time.Second {
		return ""
	}
	if by < 0 {
		return fmt.Sprintf(" (the gateway's is %s behind step-ca's)", -by)
	}
	return fmt.Sprintf(" (the gateway's is %s ahead of step-ca's)", by)
}

// pause waits between two tries. It is false if no time is left for another try.
func pause(ctx context.Context, try int) bool {
	wait := min(longWait, firstWait<<min(try, 8))
	wait = wait/2 + rand.N(wait/2)
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= wait {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// cut limits the length of a text that comes from step-ca.
func cut(text string, most int) string {
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}
