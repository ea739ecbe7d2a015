package transport_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/agent/internal/transport"
	"muster/agent/internal/transport/gatewaytest"
)

// TestCurlFolder: where only the gateway's own root counts, an authority in the system's folder of certificates does not.
func TestCurlFolder(t *testing.T) {
	now := time.Now()
	public := gatewaytest.NewCA(t, now)
	wrapper := amid(t, public)
	for _, c := range []struct {
		host string
		good bool
	}{{"127.0.0.1", true}, {"localhost", false}} { // the second is a name that only a certificate of muster's own may have here
		g := gatewaytest.New(t)
		certificate := public.Server(t, now.AddDate(0, 0, -1), now.AddDate(0, 0, 1), c.host)
		client := curlClient(t, gatewaytest.Listen(t, g, &certificate), nil, func(cfg *transport.Config) {
			cfg.Curl = wrapper
			cfg.Environ = []string{"PATH=" + os.Getenv("PATH")}
		})
		client.Use(g.Identity(t))
		if _, err := call(client); (err == nil) != c.good || err != nil && !errors.Is(err, transport.ErrUntrusted) {
			t.Errorf("%s: %v", c.host, err)
		}
	}
}

// amid is a curl on a machine whose folder of certificates holds this authority.
func amid(t *testing.T, ca *gatewaytest.CA) string {
	t.Helper()
	dir := t.TempDir()
	bin := t.TempDir()
	pem := filepath.Join(dir, "ca-certificates.crt")
	if err := os.WriteFile(pem, []byte(ca.RootPEM()), 0o600); err != nil {
		t.Fatal(err)
	}
	hash, err := exec.Command("openssl", "x509", "-hash", "-noout", "-in", pem).Output()
	if err != nil {
		gatewaytest.Lacking(t, fmt.Sprintf("not run: openssl, which names certificates as curl looks for them, is not here: %v", err))
	}
	if err := os.Symlink(pem, filepath.Join(dir, strings.TrimSpace(string(hash))+".0")); err != nil {
		t.Fatal(err)
	}
	flags := "-m"
	if os.Getuid() != 0 {
		flags = "-Urm"
	}
	mount := fmt.Sprintf("mount --bind %s /etc/ssl/certs", dir)
	if out, err := exec.Command("unshare", flags, "sh", "-c", mount).CombinedOutput(); err != nil {
		gatewaytest.Lacking(t, fmt.Sprintf("not run: no mount namespaces here: %v %s", err, out))
	}
	wrapper := filepath.Join(bin, "curl")
	text := fmt.Sprintf("#!/bin/sh\nexec unshare %s sh -c '%s && exec curl \"$@\"' curl \"$@\"\n", flags, mount)
	if err := os.WriteFile(wrapper, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return wrapper
}
