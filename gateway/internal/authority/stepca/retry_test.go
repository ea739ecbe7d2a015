package stepca_test

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"muster/gateway/internal/authority"
)

// TestFreshTokens: after every failure that passes, a later try gets the certificate. Each try has a new token.
func TestFreshTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		ahead := time.Now().Add(40 * time.Second).Truncate(time.Second)
		tries := 0
		f.trip = func(*http.Request) (*http.Response, error) {
			if tries++; tries == 1 {
				return nil, syscall.ECONNREFUSED
			}
			return nil, nil
		}
		f.answer = func(w http.ResponseWriter, o order) {
			switch f.count() {
			case 1:
				w.Header().Set("Date", ahead.UTC().Format(http.TimeFormat))
				refuse(w, 401, "The request lacked necessary authorization to be completed.")
			case 2:
				refuse(w, 500, "database is closed")
			case 3:
				w.WriteHeader(502)
				_, _ = io.WriteString(w, "<html>bad gateway</html>")
			case 4:
				refuse(w, 429, "slow down")
			default:
				f.sign(w, o)
			}
		}
		if _, err := f.issue(); err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for i, o := range f.orders {
			if seen[o.claims.JTI] {
				t.Errorf("order %d: the token id was used before", i)
			}
			seen[o.claims.JTI] = true
			if i > 0 && o.claims.Iat < ahead.Unix() {
				t.Errorf("order %d: issued %d, before step-ca's clock %d", i, o.claims.Iat, ahead.Unix())
			}
		}
		if len(f.orders) != 5 || tries != 6 || f.log.count("did not certify") != 0 {
			t.Errorf("%d orders, %d tries", len(f.orders), tries)
		}
	})
}

// TestGivesUp: if a failure does not pass, Issue gives up early enough for the agent that waits.
func TestGivesUp(t *testing.T) {
	for _, test := range []struct {
		name     string
		answer   func(http.ResponseWriter, order)
		trip     func(*http.Request) (*http.Response, error)
		least    int // orders or tries
		most     int
		from, to time.Duration
		want     string
	}{
		{"always in trouble", func(w http.ResponseWriter, _ order) { refuse(w, 503, "no") }, nil, 4, 30, 4 * time.Second, 6 * time.Second,
			"it is in trouble (503"},
		{"always refused", func(w http.ResponseWriter, _ order) { refuse(w, 401, "no") }, nil, 3, 3, 0, 3 * time.Second,
			"refuses the gateway's token (401"},
		{"nobody there", nil, func(*http.Request) (*http.Response, error) { return nil, syscall.ECONNREFUSED }, 4, 30, 4 * time.Second,
			6 * time.Second, "cannot be reached"},
		{"silent", nil, func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}, 2, 3, 5 * time.Second, 6 * time.Second, "cannot be reached"},
		{"breaks off", nil, func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 201, Body: io.NopCloser(io.MultiReader(strings.NewReader("{"), broken{})), Request: r}, nil
		}, 4, 30, 4 * time.Second, 6 * time.Second, "cannot be reached"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				tries := 0
				f.answer = test.answer
				f.trip = func(r *http.Request) (*http.Response, error) {
					tries++
					if test.trip == nil {
						return nil, nil
					}
					return test.trip(r)
				}
				start := time.Now()
				_, err := f.issue()
				took := time.Since(start)
				wantError(t, err, "step-ca at "+caURL, test.want)
				checkUnavailable(t, err)
				if tries < test.least || tries > test.most || took < test.from || took > test.to {
					t.Errorf("%d tries in %s", tries, took)
				}
				if f.log.count("did not certify") != 1 || f.log.count(nodeID) != 1 || f.log.count("eyJ") != 0 {
					t.Errorf("log: %s", f.log.text.String())
				}
			})
		})
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestCallerLeaves ends with the caller's context, in a try as well as in a pause, and says nothing in the log.
func TestCallerLeaves(t *testing.T) {
	for name, trip := range map[string]func(*http.Request) (*http.Response, error){
		"in a try":   func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() },
		"in a pause": func(*http.Request) (*http.Response, error) { return nil, syscall.ECONNREFUSED },
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t)
			f.trip = trip
			ctx, cancel := context.WithTimeout(t.Context(), 1300*time.Millisecond)
			defer cancel()
			start := time.Now()
			_, err := f.open().Issue(ctx, authority.Request{NodeID: nodeID, CSR: newCSR(t, x509.CertificateRequest{})})
			if took := time.Since(start); err == nil || took > 1300*time.Millisecond {
				t.Errorf("%s: %v after %s", name, err, took)
			}
			checkUnavailable(t, err)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		ctx, cancel := context.WithCancel(t.Context())
		f.trip = func(*http.Request) (*http.Response, error) { cancel(); return nil, syscall.ECONNREFUSED }
		if _, err := f.open().Issue(ctx, authority.Request{NodeID: nodeID, CSR: newCSR(t, x509.CertificateRequest{})}); err == nil ||
			f.log.count("did not certify") != 0 {
			t.Errorf("%v, log %s", err, f.log.text.String())
		}
	})
}

// TestRefusals are final at once and say what to do.
func TestRefusals(t *testing.T) {
	say := func(status int, message string) func(http.ResponseWriter, order) {
		return func(w http.ResponseWriter, _ order) { refuse(w, status, message) }
	}
	text := func(status int, body string) func(http.ResponseWriter, order) {
		return func(w http.ResponseWriter, _ order) { w.WriteHeader(status); _, _ = io.WriteString(w, body) }
	}
	const shorter = "requested duration of 2m0s is less than the authorized minimum certificate duration of 5m0s"
	const longer = "requested duration of 48h1m0s is more than the authorized maximum certificate duration of 24h1m0s"
	for _, test := range []struct {
		answer func(http.ResponseWriter, order)
		want   []string
	}{
		{say(403, shorter), []string{"403", shorter, "longer --cert-ttl", "minTLSCertDuration"}},
		{say(403, longer), []string{"403", longer, "shorter --cert-ttl", "maxTLSCertDuration"}},
		{say(403, "notAfter is after the expiration of the provisioning credential"), []string{"X5C certificate"}},
		{say(403, "uri not allowed"), []string{"uri not allowed", "policy", "spiffe://"}},
		{say(403, strings.Repeat("x", 400)), []string{strings.Repeat("x", 300) + "..."}},
		{say(400, "error unmarshaling certificate"), []string{"template", "its log"}},
		{text(404, "<html>not found</html>"), []string{"404", "no reason given", "something else than step-ca"}},
		{text(200, "{}"), []string{"200", "something else than step-ca"}},
		{func(w http.ResponseWriter, _ order) {
			w.Header().Set("Location", "https://elsewhere.example/1.0/sign")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}, []string{"307", "something else than step-ca"}},
		{text(201, strings.Repeat(" ", 70000)), []string{"more than 65536 bytes"}},
		{text(201, "<html>"), []string{"not JSON"}},
		{text(201, "{}"), []string{"no certificate in PEM"}},
		{text(201, `{"certChain":["-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]}`), []string{"a certificate in it"}},
		{text(201, `{"certChain":["-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]}`),
			[]string{"PRIVATE KEY", "certificates alone"}},
	} {
		f := newFake(t)
		f.answer = test.answer
		_, err := f.issue()
		wantError(t, err, append(test.want, "step-ca at "+caURL)...)
		checkUnavailable(t, err)
		if f.count() != 1 || strings.Contains(err.Error(), "eyJ") {
			t.Errorf("%d orders: %v", f.count(), err)
		}
	}
}

// TestClocksApart names the difference where a token was refused.
func TestClocksApart(t *testing.T) {
	for by, want := range map[time.Duration]string{-time.Hour: "1h0m0s ahead of", time.Hour: "1h0m0s behind"} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t)
			start := time.Now()
			f.config.Now = func() time.Time { return start }
			f.answer = func(w http.ResponseWriter, _ order) {
				w.Header().Set("Date", start.Add(by).UTC().Format(http.TimeFormat))
				refuse(w, 401, "no")
			}
			_, err := f.issue()
			wantError(t, err, want, provider, "dnsNames")
		})
	}
}

// TestOlderAnswer reads an answer without certChain.
func TestOlderAnswer(t *testing.T) {
	f := newFake(t)
	f.answer = func(w http.ResponseWriter, o order) {
		give(w, 201, map[string]string{"crt": certificatePEM(f.leaf(o)), "ca": certificatePEM(f.issuer.certificate)})
	}
	if issued, err := f.issue(); err != nil || strings.Count(issued.Chain, "BEGIN CERTIFICATE") != 3 {
		t.Errorf("%v, chain %s", err, issued.Chain)
	}
}

func TestNoRandomness(t *testing.T) {
	f := newFake(t)
	f.config.Rand = broken{}
	if _, err := f.issue(); !errors.Is(err, io.ErrUnexpectedEOF) || f.count() != 0 {
		t.Errorf("%v, %d orders", err, f.count())
	}
}
