package reach_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/internal/bootstrap/reach"
)

var (
	pin   = "sha256:" + strings.Repeat("0a", 32)
	key   = "sha256//" + strings.Repeat("A", 43) + "="
	amd64 = strings.Repeat("0b", 32)
)

func example(public string, given bool) reach.Installer {
	return reach.Installer{
		Version: "1.0", RootPin: pin, PinnedKey: key, Logger: slog.New(slog.DiscardHandler),
		Reach:     reach.Reach{PublicURL: public, PublicGiven: given, Listen: ":7443", PlainListen: ":80", OwnCertificate: true},
		Platforms: []wire.Platform{{OS: "linux", Arch: "amd64", SHA256: amd64}, {OS: "linux", Arch: "riscv64", SHA256: "x"}},
		Behind:    func(r *http.Request) bool { return r.RemoteAddr == "proxy" },
	}
}

// TestAnswer: the script names the public URL, or, if nobody gave one, the address that a request without TLS was made to.
func TestAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		given        bool
		tls          bool
		from, host   string
		gateway, key string
	}{
		"public URL":          {true, false, "", "10.0.0.1:80", "https://gw:7443", key},
		"made up, plain":      {false, false, "", "10.0.0.1:80", "http://10.0.0.1:80", ""},
		"made up, TLS":        {false, true, "", "10.0.0.1:7443", "https://gw:7443", key},
		"made up, by a proxy": {false, false, "proxy", "10.0.0.1:80", "https://gw:7443", key},
		"made up, no address": {false, false, "", "a'b", "https://gw:7443", key},
	} {
		r := httptest.NewRequest("GET", "/install.sh", nil)
		r.RemoteAddr = c.from
		r.Host = c.host
		if c.tls {
			r.TLS = &tls.ConnectionState{}
		}
		script, err := example("https://gw:7443", c.given).Answer(r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, want := range []string{
			"\nGATEWAY='" + c.gateway + "'\n", "\nROOT_PIN='" + pin + "'\n", "\nPINNED_KEY='" + c.key + "'\n", "\nSHA256_AMD64='" + amd64 + "'\n",
			"\nSHA256_ARM64=''\n",
		} {
			if !bytes.Contains(script, []byte(want)) {
				t.Errorf("%s: the script has no %q", name, want)
			}
		}
	}
}

// TestCommand: what is downloaded is checked by the pinned key, by the script's digest, or by a certificate that the system trusts.
func TestCommand(t *testing.T) {
	plain := example("http://gw", true)
	script, err := plain.Answer(httptest.NewRequest("GET", "/install.sh", nil))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(script)
	public := example("https://gw", true)
	public.Reach.OwnCertificate = false
	for want, i := range map[string]reach.Installer{
		"--pinnedpubkey \"" + key + "\" https://gw:7443/install.sh": example("https://gw:7443", true),
		hex.EncodeToString(sum[:]):                                  plain,
		"curl -qfsSL https://gw/install.sh":                         public,
	} {
		if got := i.Command("mse_x"); !strings.Contains(got, want) || !strings.HasPrefix(got, "MUSTER_TOKEN=mse_x ") {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	plain.RootPin = "nonsense"
	if got := plain.Command("mse_x"); got != "" {
		t.Errorf("of a script that cannot be made: %s", got)
	}
}
