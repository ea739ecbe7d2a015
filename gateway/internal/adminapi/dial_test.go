package adminapi_test

import (
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"

	"muster/gateway/internal/adminapi"
)

// TestUnreached: what is in the way to a gateway is called by its name.
func TestUnreached(t *testing.T) {
	for want, err := range map[string]error{
		"DNS knows no gw.example; check --url":                    &net.DNSError{Name: "gw.example", Err: "no such host", IsNotFound: true},
		"DNS did not answer the question for gw.example":          &net.DNSError{Name: "gw.example", Err: "i/o timeout", IsTimeout: true},
		"the gateway's certificate is for another name":           x509.HostnameError{Host: "gw.example", Certificate: &x509.Certificate{}},
		"the gateway's certificate is not one that this machine ": x509.UnknownAuthorityError{},
		"cannot reach the gateway; check --url or MUSTER_URL":     errors.New("connection refused"),
	} {
		if got := adminapi.ExplainURL(&url.Error{Op: "Get", URL: "https://gw.example", Err: err}).Error(); !strings.HasPrefix(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
