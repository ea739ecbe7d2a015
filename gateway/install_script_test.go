package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"muster"
	"muster/gateway/internal/kit/lab"
)

func anInstaller() muster.Installer {
	return muster.Installer{Gateway: "https://gw.example:7443", RootPin: "sha256:" + strings.Repeat("ab", 32), Version: "0.4.1",
		Certificate: muster.OwnCertificate,
		PinnedKey:   "sha256//" + strings.Repeat("A", 43) + "=", SHA256AMD64: strings.Repeat("c", 64), SHA256ARM64: strings.Repeat("d", 64)}
}

func rendered(t *testing.T, i muster.Installer) string {
	t.Helper()
	script, err := i.Render()
	if err != nil {
		t.Fatal(err)
	}
	return string(script)
}

func TestInstallerRender(t *testing.T) {
	script := rendered(t, anInstaller())
	for _, want := range []string{"GATEWAY='https://gw.example:7443'", "ROOT_PIN='sha256:abab", "VERSION='0.4.1'", "CERTIFICATE='own'",
		"PINNED_KEY='sha256//AAA",
		"SHA256_AMD64='cccc", "SHA256_ARM64='dddd"} {
		if !strings.Contains(script, "\n"+want) {
			t.Errorf("lacks %s", want)
		}
	}
	if again := rendered(t, anInstaller()); again != script {
		t.Error("the same values gave another script")
	}
	for name, change := range map[string]func(*muster.Installer){
		"a quote in the host":        func(i *muster.Installer) { i.Gateway = "https://gw'example" },
		"a command in the host":      func(i *muster.Installer) { i.Gateway = "https://$(id)" },
		"a new line after the host":  func(i *muster.Installer) { i.Gateway = "https://gw.example\n" },
		"a path":                     func(i *muster.Installer) { i.Gateway = "https://gw.example/x" },
		"a user":                     func(i *muster.Installer) { i.Gateway = "https://a@gw.example" },
		"another scheme":             func(i *muster.Installer) { i.Gateway = "file://gw.example" },
		"no gateway":                 func(i *muster.Installer) { i.Gateway = "" },
		"a pin that is none":         func(i *muster.Installer) { i.RootPin = "sha256:'" },
		"a key that is none":         func(i *muster.Installer) { i.PinnedKey = "sha256//'; id;'" },
		"a digest that is none":      func(i *muster.Installer) { i.SHA256AMD64 = "abc" },
		"another digest":             func(i *muster.Installer) { i.SHA256ARM64 = strings.Repeat("'", 64) },
		"a certificate of no kind":   func(i *muster.Installer) { i.Certificate = "'" },
		"a digest with an end to it": func(i *muster.Installer) { i.SHA256AMD64 += "\n" },
	} {
		i := anInstaller()
		change(&i)
		if got, err := i.Render(); err == nil {
			t.Errorf("%s was taken: %.300s", name, got)
		}
	}
	i := anInstaller()
	i.Version = "1'; id; '\n2"
	if script := rendered(t, i); !strings.Contains(script, "\nVERSION='1id2'\n") {
		t.Error("the version stands in the script as it came")
	}
}

// TestInstallerHost: without a public URL the plain listener's script names the address that it was asked at; nothing but
// an address gets in that way.
func TestInstallerHost(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "--plain-listen", "127.0.0.1:0")
	address := strings.TrimPrefix(h.gateway.await("without TLS: "), "without TLS: ")
	for host, want := range map[string]string{
		address:              "http://" + address,
		"gw.example:7480":    "http://gw.example:7480",
		"[::1]:7480":         "http://[::1]:7480",
		"gw'example":         h.url,
		"a$(id)":             h.url,
		"a/b":                h.url,
		"gw.example:7480000": h.url,
		"":                   h.url,
	} {
		answer := ask(t, address, host)
		if strings.HasPrefix(answer, "HTTP/1.1 400") && want == h.url {
			continue // net/http refuses it by itself
		}
		if got := gatewayIn(answer); got != want {
			t.Errorf("Host %q: the script names %s, want %s", host, got, want)
		}
	}
	given := newHouse(t, "--plain-listen", "127.0.0.1:0", "--public-url", "https://gw.example")
	address = strings.TrimPrefix(given.gateway.await("without TLS: "), "without TLS: ")
	if got := gatewayIn(ask(t, address, address)); got != "https://gw.example" {
		t.Errorf("with a public URL: the script names %s", got)
	}
	proxied := newHouse(t, "--plain-listen", "127.0.0.1:0", "--public-url", "https://gw.example", "--trusted-proxy", "127.0.0.1")
	if command, _ := proxied.command(); !strings.HasSuffix(command,
		` sh -c 's=$(unset MUSTER_TOKEN; curl -qfsSL https://gw.example/install.sh) && eval "${s:?the download is empty}"' --`) {
		t.Errorf("behind a proxy that ends TLS: %s", command)
	}
	beside := newHouse(t, "--plain-listen", "127.0.0.1:0", "--trusted-proxy", "127.0.0.1")
	if command, _ := beside.command(); !strings.Contains(command, " sh -c 's=$(unset MUSTER_TOKEN; curl -fsSLk --pinnedpubkey ") {
		t.Errorf("with a proxy beside the gateway's own port: %s", command)
	}
}

func gatewayIn(script string) string {
	_, rest, _ := strings.Cut(script, "\nGATEWAY='")
	value, _, _ := strings.Cut(rest, "'")
	return value
}

// ask sends a Host header as it is, which http.Client would not.
func ask(t *testing.T, address, host string) string {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET /install.sh HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", host)
	raw, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestInstallerAnswer(t *testing.T) {
	t.Parallel()
	h := newHouse(t, "--plain-listen", "127.0.0.1:0")
	address := strings.TrimPrefix(h.gateway.await("without TLS: "), "without TLS: ")
	answer, err := http.Get("http://" + address + "/install.sh")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	for name, want := range map[string]string{"Cache-Control": "no-store, no-transform", "Content-Type": "text/plain; charset=utf-8",
		"X-Content-Type-Options": "nosniff"} {
		if got := answer.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestInstallTruncated cuts the script wherever a download could break off: nothing may run.
func TestInstallTruncated(t *testing.T) {
	t.Parallel()
	script := rendered(t, anInstaller())
	for _, s := range shells(t) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			b.bin, _, _ = strings.Cut(b.bin, ":")
			for _, name := range []string{"uname", "id", "curl", "wget", "mktemp", "mv", "rm", "df", "sed", "tr", "head", "chmod", "sleep",
				"sha256sum", "install", "join", "muster"} {
				b.tool(name, "echo "+name+` "$@" >>"$RECORD/called"`)
			}
			for _, at := range cuts(script) {
				code, out := b.script(s, script[:at])
				if called := b.record("called"); called != "" || strings.Contains(out, "fetching") || strings.Contains(out, "install.sh:") {
					t.Fatalf("cut after %d bytes (%q): exit %d, called %s\n%s", at, script[max(0, at-30):at], code, called, out)
				}
			}
			if b.script(s, script); b.record("called") == "" {
				t.Error("the whole script called nothing either: the test would keep nothing")
			}
		})
	}
}

// cuts are every line's end, all of the constants and of the last line, and a few in between.
func cuts(script string) []int {
	var all []int
	first := strings.Index(script, "GATEWAY=")
	body := strings.Index(script, "main()")
	last := strings.LastIndex(script, "\n{")
	for at := range script[:len(script)-1] { // a script without its last line end is whole
		if script[at] == '\n' || at > first && at < body+12 && at%5 == 0 || at > last || at%211 == 0 {
			all = append(all, at)
			if script[at] == '\n' {
				all = append(all, at+1)
			}
		}
	}
	return all
}

// TestShellcheck reads the script as it is and as it is served.
func TestShellcheck(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("shellcheck"); err != nil {
		lab.Lacking(t, "not run: shellcheck is not installed here; make tools as root installs it")
	}
	plain := anInstaller()
	plain.Certificate = muster.NoCertificate
	plain.PinnedKey = ""
	plain.SHA256ARM64 = ""
	for name, script := range map[string]string{"own certificate": rendered(t, anInstaller()), "plain": rendered(t, plain)} {
		check := exec.Command("shellcheck", "-s", "sh", "-")
		check.Stdin = strings.NewReader(script)
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
