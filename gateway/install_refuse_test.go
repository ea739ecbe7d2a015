package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"muster"
)

// TestInstallRefuses is every way in which the script ends without the agent: it says which, and what to do.
func TestInstallRefuses(t *testing.T) {
	t.Parallel()
	agents := recorder(t)
	h := agentsHouse(t, agents)
	script := h.served()
	one := func(change func(*muster.Installer)) string {
		i := anInstaller()
		i.Gateway = h.url
		i.Certificate = muster.NoCertificate
		change(&i)
		return rendered(t, i)
	}
	edge := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		w.Write([]byte("<html>Just a moment...</html>"))
	}))
	t.Cleanup(edge.Close)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("<html>log in</html>")) }))
	t.Cleanup(page.Close)
	otherKey := one(func(i *muster.Installer) { i.Certificate = muster.OwnCertificate })
	for _, c := range []struct {
		name, script string
		tools        map[string]string
		only         string
		args         []string
		code         int
		want         []string
	}{
		{"another system", script, map[string]string{"uname": "echo Darwin"}, "", nil, 1, []string{"runs on Linux", "this is Darwin"}},
		{"another machine", script, map[string]string{"uname": `[ "$1" = -s ] && echo Linux || echo riscv64`}, "", nil, 1,
			[]string{"no agent for riscv64", "x86_64 and aarch64"}},
		{"no agent for it", one(func(i *muster.Installer) { i.SHA256AMD64 = ""; i.SHA256ARM64 = "" }), nil, "", nil, 1,
			[]string{"carries no agent for linux/", "make build"}},
		{"404", one(func(i *muster.Installer) { i.Gateway = h.url }), map[string]string{"curl": "printf 404; exit 22"}, "", nil, 1,
			[]string{"carries no agent for linux/"}},
		{"neither curl nor wget", script, nil, "none", nil, 1,
			[]string{"neither curl nor wget", "apt-get install curl", "./muster-agent join --gateway " + h.url}},
		{"nothing computes SHA-256", script, map[string]string{"sha256sum": "exit 1", "shasum": "exit 1", "openssl": "exit 1",
			"busybox": "exit 1"}, "", nil, 1, []string{"computes SHA-256", "coreutils"}},
		{"another agent", one(func(*muster.Installer) {}), nil, "", nil, 1, []string{"not the one to be expected", "nothing was installed"}},
		{"another agent, wget", one(func(*muster.Installer) {}), nil, "wget", nil, 1, []string{"not the one to be expected"}},
		{"a web page", one(func(i *muster.Installer) { i.Gateway = page.URL }), nil, "", nil, 1,
			[]string{"a web page came", "a proxy or an edge"}},
		{"403", one(func(i *muster.Installer) { i.Gateway = edge.URL }), nil, "", nil, 1, []string{"HTTP 403", "a proxy or an edge"}},
		{"403, wget", one(func(i *muster.Installer) { i.Gateway = edge.URL }), nil, "wget", nil, 1, []string{"HTTP 403", "a proxy or an edge"}},
		{"no room", script, map[string]string{"curl": "exit 23"}, "", nil, 1, []string{"cannot be written", "KiB free", "--state DIR"}},
		{"another key", otherKey, nil, "", nil, 1, []string{"does not have the key", "token create"}},
		{"a certificate that nobody knows", one(func(i *muster.Installer) { i.Certificate = muster.SystemCertificate }), nil, "", nil, 1,
			[]string{"not one that this system trusts", "date"}},
		{"the same, wget", one(func(i *muster.Installer) { i.Certificate = muster.SystemCertificate }), nil, "wget", nil, 1,
			[]string{"not one that this system trusts"}},
		{"nobody there", one(func(i *muster.Installer) { i.Gateway = "https://" + freeAddress(t) }), nil, "", nil, 1,
			[]string{"cannot be fetched", "https_proxy"}},
		{"nobody there, wget", one(func(i *muster.Installer) { i.Gateway = "https://" + freeAddress(t) }), nil, "wget", nil, 1,
			[]string{"cannot be fetched"}},
		{"two tokens", script, nil, "", []string{"--token", "mse_x", "--token-file", "f"}, 2, []string{"exclude each other"}},
		{"half a flag", script, nil, "", []string{"--token"}, 2, []string{"--token needs a value"}},
		{"an odd gateway", script, nil, "", []string{"--gateway", "https://gw$(id)"}, 2, []string{"not a URL", "https://HOST"}},
		{"an odd pin", script, nil, "", []string{"--pinned-key", "abc"}, 2, []string{"sha256//BASE64"}},
		{"an odd digest", script, nil, "", []string{"--digest", "sha256:abc"}, 2, []string{"64 digits"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			switch c.only {
			case "none":
				b = newBox(t, "true")
			case "wget":
				b = newBox(t, "wget")
			}
			b.tool("sleep", "exit 0")
			for name, text := range c.tools {
				b.tool(name, text)
			}
			b.env = append(b.env, "MUSTER_TOKEN=mse_secret")
			code, out := b.script(dash, c.script, append([]string{"--state", b.state}, c.args...)...)
			if code != c.code || b.record("argv") != "" {
				t.Errorf("exit %d, want %d; the agent was called with %q", code, c.code, b.record("argv"))
			}
			for _, want := range append(c.want, "next:") {
				if !strings.Contains(out, want) {
					t.Errorf("lacks %q:\n%s", want, out)
				}
			}
			if strings.Contains(out, "mse_") {
				t.Errorf("says the token:\n%s", out)
			}
			b.clean("mse_secret")
			if left, _ := os.ReadDir(b.home); len(left) > 0 {
				t.Errorf("left in the home: %v", left)
			}
		})
	}
}

// TestInstallRetries: trouble that passes by itself is waited for.
func TestInstallRetries(t *testing.T) {
	t.Parallel()
	h := agentsHouse(t, recorder(t))
	b := newBox(t, "curl")
	real, err := exec.LookPath("curl")
	if err != nil {
		t.Fatal(err)
	}
	b.tool("sleep", `echo "$1" >>"$RECORD/slept"`)
	b.tool("curl", `if [ ! -e "$RECORD/first" ]; then : >"$RECORD/first"; exit 7; fi
if [ ! -e "$RECORD/second" ]; then : >"$RECORD/second"; printf 503; exit 22; fi
exec `+real+` "$@"`)
	code, out := b.script(dash, h.served(), "--state", b.state)
	if slept := b.record("slept"); code != 0 || slept != "1\n2\n" {
		t.Errorf("exit %d, slept %q\n%s", code, slept, out)
	}
	b.joined("")
}

// TestInstallOldCurl: a curl that cannot pin still brings what the digest vouches for.
func TestInstallOldCurl(t *testing.T) {
	t.Parallel()
	h := agentsHouse(t, recorder(t))
	b := newBox(t, "curl")
	real, err := exec.LookPath("curl")
	if err != nil {
		t.Fatal(err)
	}
	b.tool("curl", `case "$*" in *--pinnedpubkey*) exit 2 ;; esac; exec `+real+` "$@"`)
	if code, out := b.script(dash, h.served(), "--state", b.state); code != 0 {
		t.Errorf("exit %d\n%s", code, out)
	}
	b.joined("")
}

// TestInstallCopy is install.sh as it stands in the repository: something has to vouch for what it fetches.
func TestInstallCopy(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../install.sh")
	if err != nil {
		t.Fatal(err)
	}
	script := string(raw)
	public, roots := publicCertificate(t)
	trusted := agentsHouse(t, recorder(t), public...)
	own := agentsHouse(t, recorder(t), "--plain-listen", "127.0.0.1:0")
	plain := "http://" + strings.TrimPrefix(own.gateway.await("without TLS: "), "without TLS: ")
	digest := "sha256:" + fieldOf(own.served(), "SHA256_AMD64") // the stand-ins for both platforms are the same
	key := fieldOf(own.served(), "PINNED_KEY")
	bare := agentsHouse(t, t.TempDir(), public...)
	for _, c := range []struct {
		name, tool string
		args       []string
		code       int
		want       string
	}{
		{"a certificate that the system trusts", "curl", []string{"--gateway", trusted.url}, 0, "as it should be"},
		{"a slash at its end", "curl", []string{"--gateway=" + trusted.url + "/"}, 0, "as it should be"},
		{"one that it does not", "curl", []string{"--gateway", own.url}, 1, "not one that this system trusts"},
		{"with its key", "curl", []string{"--gateway", own.url, "--pinned-key", key}, 0, "as it should be"},
		{"with its key, wget", "wget", []string{"--gateway", own.url, "--pinned-key", key}, 1, "wget cannot check a pinned key"},
		{"with the digest", "curl", []string{"--gateway", own.url, "--digest", digest}, 0, "as it should be"},
		{"with the digest, wget", "wget", []string{"--gateway", own.url, "--digest", digest}, 0, "as it should be"},
		{"with another digest", "curl", []string{"--gateway", own.url, "--digest", strings.Repeat("0", 64)}, 1, "not the one to be expected"},
		{"plain", "curl", []string{"--gateway", plain}, 1, "give --digest"},
		{"plain with the digest", "curl", []string{"--gateway", plain, "--digest", digest}, 0, "as it should be"},
		{"a gateway without agents", "curl", []string{"--gateway", bare.url}, 1, "carries no agent"},
		{"no gateway", "curl", nil, 2, "give --gateway"},
		{"help", "curl", []string{"--help"}, 0, "Usage:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t, c.tool)
			b.env = append(b.env, "CURL_CA_BUNDLE="+roots)
			code, out := b.script(dash, script, append([]string{"--state", b.state}, c.args...)...)
			if code != c.code || !strings.Contains(out, c.want) {
				t.Fatalf("exit %d, want %d and %q\n%s", code, c.code, c.want, out)
			}
			if joined := b.record("argv"); (joined != "") != (c.code == 0 && c.name != "help") || strings.Contains(joined, "--digest") ||
				strings.Contains(joined, "--pinned") {
				t.Errorf("the agent was called with %q", joined)
			}
		})
	}
}

func fieldOf(script, name string) string {
	_, rest, _ := strings.Cut(script, "\n"+name+"='")
	value, _, _ := strings.Cut(rest, "'")
	return value
}

// TestInstallList: an answer that is no list of agents is not taken for one.
func TestInstallList(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../install.sh")
	if err != nil {
		t.Fatal(err)
	}
	sum := strings.Repeat("a", 64)
	for body, want := range map[string]string{
		`{"version":"1","platforms":[{"os":"plan9","arch":"amd64","sha256":"` + sum + `"}]}`: "carries no agent",
		`{"version":"1","platforms":[{"os":"linux","arch":"amd64","sha256":"$(id)"},
		  {"os":"linux","arch":"arm64","sha256":"short"}]}`: "no list of agents|carries no agent",
		`{"platforms":[{"os":"linux","arch":"amd64","sha256":"` + sum + `"},{"os":"linux","arch":"amd64","sha256":"` + sum + `"},
		  {"os":"linux","arch":"arm64","sha256":"` + sum + `"},{"os":"linux","arch":"arm64","sha256":"` + sum + `"}]}`: "no list of agents",
		`<html>log in</html>`: "no list of agents",
		``:                    "no list of agents",
	} {
		page := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(body)) }))
		defer page.Close()
		b := newBox(t, "curl")
		roots := filepath.Join(b.records, "roots.pem")
		writePEM(t, roots, page.Certificate().Raw)
		b.env = append(b.env, "CURL_CA_BUNDLE="+roots)
		code, out := b.script(dash, string(raw), "--state", b.state, "--gateway", page.URL)
		one, other, _ := strings.Cut(want, "|")
		if code != 1 || !strings.Contains(out, one) && (other == "" || !strings.Contains(out, other)) {
			t.Errorf("%s: exit %d, want %q\n%s", body, code, want, out)
		}
		b.clean("")
	}
}

// TestInstallCareless: a configuration file of curl or wget that turns the checking of certificates off is not read.
func TestInstallCareless(t *testing.T) {
	t.Parallel()
	h := agentsHouse(t, recorder(t))
	i := anInstaller()
	i.Gateway = h.url
	i.Certificate = muster.SystemCertificate
	for _, tool := range []string{"curl", "wget"} {
		b := newBox(t, tool)
		b.tool("sleep", "exit 0")
		write(t, filepath.Join(b.home, ".curlrc"), "insecure\n")
		write(t, filepath.Join(b.home, ".wgetrc"), "check_certificate = off\n")
		if code, out := b.script(dash, rendered(t, i), "--state", b.state); code != 1 ||
			!strings.Contains(out, "not one that this system trusts") {
			t.Errorf("%s: exit %d\n%s", tool, code, out)
		}
	}
}
