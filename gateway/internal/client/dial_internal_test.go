package client

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
)

// TestUnreached: an error on the way to a gateway says what is wrong, and what to check.
func TestUnreached(t *testing.T) {
	for want, err := range map[string]error{
		"DNS knows no gw.example; check --url":                    &net.DNSError{Name: "gw.example", Err: "no such host", IsNotFound: true},
		"DNS did not answer the question for gw.example":          &net.DNSError{Name: "gw.example", Err: "i/o timeout", IsTimeout: true},
		"the gateway's certificate is for another name":           x509.HostnameError{Host: "gw.example", Certificate: &x509.Certificate{}},
		"the gateway's certificate is not one that this machine ": x509.UnknownAuthorityError{},
		"cannot reach the gateway; check --url or MUSTER_URL":     errors.New("connection refused"),
	} {
		if got := explainTLS(&url.Error{Op: "Get", URL: "https://gw.example", Err: err}).Error(); !strings.HasPrefix(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestSocketOfAnotherUser asks about the error alone: the tests may run as root, whom no mode keeps out.
func TestSocketOfAnotherUser(t *testing.T) {
	dir := t.TempDir()
	owner, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, filepath.Join(dir, "gone", "muster.sock")} {
		err := newSocketError(fmt.Errorf("dial: %w", fs.ErrPermission), path)
		if want := "may not open " + path + ", which belongs to user " + owner.Username; err.Error() != "this user "+want ||
			!err.Refused() || err.Nobody() {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
