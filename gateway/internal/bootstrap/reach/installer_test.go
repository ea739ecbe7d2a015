package reach_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"log/slog"
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
	}
}

// TestAnswer: the script names the public URL, or, if nobody gave one, the address that a request without TLS was made to.
func TestAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		given        bool
		tls          bool
		proxied      bool
		host         string
		gateway, key string
	}{
		"public URL":          {true, false, false, "10.0.0.1:80", "https://gw:7443", key},
		"made up, plain":      {false, false, false, "10.0.0.1:80", "http://10.0.0.1:80", ""},
		"made up, TLS":        {false, true, false, "10.0.0.1:7443", "https://gw:7443", key},
		"made up, by a proxy": {false, false, true, "10.0.0.1:80", "https://gw:7443", key},
		"made up, no address": {false, false, false, "a'b", "https://gw:7443", key},
	} {
		r := httptest.NewRequest("GET", "/install.sh", nil)
		r.Host = c.host
		if c.tls {
			r.TLS = &tls.ConnectionState{}
		}
		i := example("https://gw:7443", c.given)
		i.Reach.Proxied = c.proxied
		script, err := i.Answer(r)
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
		if got := i.Command("mse_x", ""); !strings.Contains(got, want) || !strings.HasPrefix(got, "MUSTER_TOKEN=mse_x ") {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	plain.RootPin = "nonsense"
	if got := plain.Command("mse_x", ""); got != "" {
		t.Errorf("of a script that cannot be made: %s", got)
	}
}

// TestCommandElsewhere: a given URL stands in the whole command, and what vouches for the download is what a machine meets there.
func TestCommandElsewhere(t *testing.T) {
	own := example("https://gw:7443", true)
	behind := example("https://gw.example", true)
	behind.Reach.Proxied = true
	bare := example("https://gw:7443", false)
	trusting := example("https://gw:7443", false)
	trusting.Reach.Proxied = true
	for _, c := range []struct {
		name  string
		i     reach.Installer
		given string
		want  []string
	}{
		{"its own TLS by another address", own, "https://10.0.0.5:7443/",
			[]string{"--pinnedpubkey \"" + key + "\" https://10.0.0.5:7443/install.sh", " -- --gateway https://10.0.0.5:7443"}},
		{"its own port, past the proxy", behind, "https://10.0.0.5:7443",
			[]string{"--pinnedpubkey \"" + key + "\" https://10.0.0.5:7443/install.sh", " -- --gateway https://10.0.0.5:7443 --pinned-key " + key}},
		{"another proxy", behind, "https://other.example",
			[]string{"curl -qfsSL https://other.example/install.sh", " -- --gateway https://other.example"}},
		{"IPv6", own, "https://[fd00::5]:7443", []string{"\"https://[fd00::5]:7443/install.sh\"", " -- --gateway 'https://[fd00::5]:7443'"}},
		{"the public one", own, "https://gw:7443", []string{" https://gw:7443/install.sh", "' --"}},
		{"without TLS", bare, "http://10.0.0.5",
			[]string{"http://10.0.0.5/install.sh", digest(t, bare, "10.0.0.5"), " -- --gateway http://10.0.0.5"}},
		{"without TLS, the port written", bare, "http://10.0.0.5:80",
			[]string{"http://10.0.0.5/install.sh", digest(t, bare, "10.0.0.5"), " -- --gateway http://10.0.0.5"}},
		{"without TLS, beside a proxy", trusting, "http://10.0.0.5", []string{digest(t, trusting, "10.0.0.5")}},
		{"without TLS, public URL given", own, "http://10.0.0.5", []string{digest(t, own, "10.0.0.5"), " -- --gateway http://10.0.0.5"}},
	} {
		got := c.i.Command("mse_x", c.given)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: got %s, want %s", c.name, got, want)
			}
		}
		if c.given == "https://gw:7443" && strings.Contains(got, "--gateway") {
			t.Errorf("%s: got %s", c.name, got)
		}
	}
}

// digest is that of the script which a machine gets without TLS from an address.
func digest(t *testing.T, i reach.Installer, host string) string {
	t.Helper()
	r := httptest.NewRequest("GET", "/install.sh", nil)
	r.Host = host
	script, err := i.Answer(r)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(script)
	return hex.EncodeToString(sum[:])
}

// TestGiven: nothing but the URL of a gateway passes.
func TestGiven(t *testing.T) {
	for text, want := range map[string]string{"https://gw": "https://gw", "http://gw:80/": "http://gw:80",
		"https://[fd00::5]:7443": "https://[fd00::5]:7443"} {
		if u, err := reach.Given(text); err != nil || u.String() != want {
			t.Errorf("%s: %v, %v", text, u, err)
		}
	}
	for _, text := range []string{"", "gw", "ftp://gw", "https://", "https://u:p@gw", "https://gw/x", "https://gw?x=1", "https://gw:0",
		"https://gw:70000", "https://g'w", "https://gw$(reboot)", "https://gw\nx", "https://gw#';x"} {
		if u, err := reach.Given(text); err == nil {
			t.Errorf("%q passes as %s", text, u)
		}
	}
}

// TestCheck: a URL without TLS is of use only where something of the gateway may answer without TLS.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		at   reach.Reach
		text string
		good bool
	}{
		{reach.Reach{}, "https://gw:7443", true},
		{reach.Reach{}, "gw", false},
		{reach.Reach{}, "http://gw", false},
		{reach.Reach{PlainListen: ":80"}, "http://gw", true},
		{reach.Reach{Proxied: true}, "http://gw:8080", true},
	} {
		err := c.at.Check(c.text)
		if (err == nil) != c.good {
			t.Errorf("%+v, %s: %v", c.at, c.text, err)
		}
		if err != nil && c.text != "gw" && !strings.HasSuffix(err.Error(), "or add --plain-listen :80") {
			t.Error(err)
		}
	}
}
