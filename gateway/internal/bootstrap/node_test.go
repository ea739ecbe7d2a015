package bootstrap_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/bootstrap"
	"muster/gateway/internal/kit"
	"muster/gateway/internal/kit/lab"
	"muster/store"
)

// site is a gateway as scripts speak of it.
func site() bootstrap.Site {
	return bootstrap.Site{
		NodeURL: "https://gw.example:7443", OwnCertificate: true, FirstHop: "http://192.0.2.1:7480", FirstHopTrust: bootstrap.PlainTrust,
		RootPin: "sha256:" + strings.Repeat("ab", 32), Roots: "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n", TrustNumber: 3,
		Direct:   true,
		TrustKey: "dHJ1c3Q=", AnswerKeys: []string{"YTE=", "YTI="}, TaskKeys: []string{"dDE="},
		Agents: []wire.Platform{{OS: "linux", Arch: "amd64", SHA256: strings.Repeat("cd", 32), Path: "/agent/linux/amd64"},
			{OS: "linux", Arch: "arm64", SHA256: strings.Repeat("ef", 32), Path: "/agent/linux/arm64"}},
		ResolveAddress: "192.0.2.1", InstallRuntime: true, RuntimePackage: "docker.io", Registry: "registry.example:5000",
	}
}

// bootstraps is a fixture that renders scripts, with one node that waits.
func bootstraps(t testing.TB, random string, s bootstrap.Site) (*fixture, store.Node) {
	t.Helper()
	d := newFixture(t)
	c := bootstrap.Config{Store: d.store, Now: func() time.Time { return d.now }, Audit: d.audit}
	c.Site = func() (bootstrap.Site, error) { return s, nil }
	if random != "" {
		c.Rand = strings.NewReader(random)
	}
	d.Bootstrap = bootstrap.New(c)
	node := store.Node{ID: "n-0123456789abcdef", Name: "gpu-7", Tenant: "platform", CreatedAt: start}
	if err := d.store.CreateNode(t.Context(), node, nil); err != nil {
		t.Fatal(err)
	}
	return d, node
}

// TestMintNodeTokenGolden keeps what is rendered: the same values give the same bytes.
func TestMintNodeTokenGolden(t *testing.T) {
	random := strings.Repeat("0123456789abcdefghijklmnopqrstuvwxyz", 20)
	d, node := bootstraps(t, random, site())
	m, err := d.MintNodeToken(t.Context(), bootstrap.NodeTokenRequest{Node: node, Mode: bootstrap.CloudInit}, operator)
	if err != nil {
		t.Fatal(err)
	}
	kit.Golden(t, "script.golden", m.Script)
	kit.Golden(t, "user-data.golden", m.UserData)
	kit.Golden(t, "command.golden", m.Command+"\n")
	for _, text := range []string{m.Script, m.UserData[strings.Index(m.UserData, "#!/bin/sh"):]} {
		lint(t, text)
	}
	if m.ExpiresAt != start.Add(24*time.Hour) || m.Window != 15*time.Minute ||
		m.URL != "http://192.0.2.1:7480/api/v1/bootstrap/nodes/"+m.Token.FetchPart()+"/script" ||
		m.TrustNumber != 3 || len(m.Packages) != 2 || m.Packages[0].Ref != "https://gw.example:7443/agent/linux/amd64" {
		t.Errorf("minted: %+v", m)
	}
	if e := d.events("bootstrap.created"); len(e) != 1 || e[0].NodeName != "gpu-7" || e[0].Actor != operator.Name || !e[0].Security ||
		e[0].Detail["token"] != m.Token.Public() {
		t.Errorf("events: %+v", e)
	}
}

// lint reads a script.
func lint(t *testing.T, script string) {
	t.Helper()
	if strings.Contains(script, "\nruncmd:") { // the part of the user-data that is a script
		script, _, _ = strings.Cut(strings.ReplaceAll(script, "\n    ", "\n"), "\nruncmd:")
		script += "\n"
	}
	t.Run("shellcheck", func(t *testing.T) {
		if _, err := exec.LookPath("shellcheck"); err != nil {
			lab.Lacking(t, "not run: shellcheck is not installed here; make tools as root installs it")
		}
		check := exec.Command("shellcheck", "-s", "sh", "-")
		check.Stdin = strings.NewReader(script)
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// TestScriptHostile: whatever a value is, a shell reads it as that value.
func TestScriptHostile(t *testing.T) {
	s := site()
	s.RuntimePackage = `x'; touch /tmp/hostile; '`
	s.Registry = "$(id)`id`\\\n\"'"
	d, node := bootstraps(t, "", s)
	m, err := d.MintNodeToken(t.Context(), bootstrap.NodeTokenRequest{Node: node}, operator)
	if err != nil {
		t.Fatal(err)
	}
	constants, _, _ := strings.Cut(m.Script, "\nmain() {")
	for _, shell := range []string{"sh", "bash"} {
		out, err := exec.Command(shell, "-c", constants+"\nprintf '%s|%s|%s' \"$RUNTIME_PACKAGE\" \"$REGISTRY\" \"$ROOTS\"").Output()
		if want := s.RuntimePackage + "|" + s.Registry + "|" + strings.TrimSpace(s.Roots); err != nil || string(out) != want {
			t.Errorf("%s: got %q, %v; want %q", shell, out, err, want)
		}
	}
}

func TestCommand(t *testing.T) {
	for _, c := range []struct {
		trust           bootstrap.Trust
		hop, want, lack string
	}{
		{bootstrap.SystemTrust, "https://gw.example", "curl -qfsSL --resolve gw.example:443:192.0.2.1 https://gw.example/api", "sha256sum"},
		{bootstrap.SystemTrust, "https://gw.example:7443", "--resolve gw.example:7443:192.0.2.1 ", "sha256sum"},
		{bootstrap.SystemTrust, "https://192.0.2.1:7443", "curl -qfsSL https://192.0.2.1:7443/api", "--resolve"},
		{bootstrap.PinnedTrust, "https://[2001:db8::1]:7443", `curl -fsSLk --pinnedpubkey "sha256//key" "https://[2001:db8::1]:7443/api`,
			"sha256sum"},
		{bootstrap.PlainTrust, "http://gw.example", `echo "SUM  $f" | sha256sum -c - && sh "$f"`, "pinned"},
	} {
		s := site()
		s.FirstHopTrust = c.trust
		s.FirstHop = c.hop
		s.PinnedKey = "sha256//key"
		got := s.Command("msb_id_fetch", "TOKEN", "SUM")
		if !strings.Contains(got, c.want) || strings.Contains(got, c.lack) || !strings.HasPrefix(got, "MUSTER_TOKEN=TOKEN sh -c '") ||
			strings.Count(got, "TOKEN") != 3 {
			t.Errorf("%s %s: got %s", c.trust, c.hop, got)
		}
	}
}

func TestMintNodeTokenRefusals(t *testing.T) {
	d, node := bootstraps(t, "", site())
	for _, q := range []bootstrap.NodeTokenRequest{
		{Node: node, Mode: "pxe"}, {Node: node, TTL: time.Second}, {Node: node, TTL: 721 * time.Hour}, {Node: node, TTL: -time.Hour},
	} {
		if _, err := d.MintNodeToken(t.Context(), q, operator); code(err) != wire.CodeBadRequest {
			t.Errorf("%q %s: %v", q.Mode, q.TTL, err)
		}
	}
	bare := site()
	bare.Agents = []wire.Platform{{OS: "plan9", Arch: "amd64", SHA256: "x"}}
	empty := bootstrap.New(bootstrap.Config{Store: d.store, Site: func() (bootstrap.Site, error) { return bare, nil }})
	if _, err := empty.MintNodeToken(t.Context(), bootstrap.NodeTokenRequest{Node: node}, operator); code(err) != wire.CodeUnavailable ||
		code(empty.Ready()) != wire.CodeUnavailable || d.Ready() != nil {
		t.Errorf("without an agent: %v, %v", err, d.Ready())
	}
	gone := node
	gone.ID = "n-2"
	if _, err := d.MintNodeToken(t.Context(), bootstrap.NodeTokenRequest{Node: gone}, operator); code(err) != wire.CodeIllegalMove {
		t.Errorf("no such node: %v", err)
	}
	_, err := newFixture(t).MintNodeToken(t.Context(), bootstrap.NodeTokenRequest{Node: node}, operator)
	if code(err) != wire.CodeUnavailable {
		t.Errorf("without a site: %v", err)
	}
	broken := bootstrap.New(bootstrap.Config{Store: d.store,
		Site: func() (bootstrap.Site, error) { return bootstrap.Site{}, errors.New("no trust") }})
	if _, err := broken.MintNodeToken(t.Context(), bootstrap.NodeTokenRequest{Node: node}, operator); code(err) != "no trust" {
		t.Errorf("a broken site: %v", err)
	}
	dry := bootstrap.New(bootstrap.Config{Store: d.store, Rand: iotest.ErrReader(errors.New("dry")),
		Site: func() (bootstrap.Site, error) { return site(), nil }})
	if _, err := dry.MintNodeToken(t.Context(), bootstrap.NodeTokenRequest{Node: node}, operator); err == nil ||
		!strings.Contains(err.Error(), "dry") {
		t.Errorf("without randomness: %v", err)
	}
	long := site()
	long.FirstHop = "http://" + strings.Repeat("x", 17<<10)
	d.Bootstrap = bootstrap.New(bootstrap.Config{Store: d.store, Site: func() (bootstrap.Site, error) { return long, nil }})
	if _, err := d.MintNodeToken(t.Context(), bootstrap.NodeTokenRequest{Node: node, Mode: "cloud-init"}, operator); err == nil ||
		!strings.Contains(err.Error(), "user-data of") {
		t.Errorf("long user-data: %v", err)
	}
}

// TestVisited: a token is proven by what is presented of it, and by nothing else.
func TestVisited(t *testing.T) {
	d, node := bootstraps(t, "", site())
	m, err := d.MintNodeToken(t.Context(), bootstrap.NodeTokenRequest{Node: node}, operator)
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := sign.NewToken(sign.BootstrapToken, nil)
	if err != nil {
		t.Fatal(err)
	}
	swapped := m.Token
	swapped.Secret = wrong.Secret
	other := m.Token
	other.Fetch = wrong.Fetch
	for _, c := range []struct {
		name  string
		token sign.Token
		whole bool
		want  string
	}{
		{"fetch part", m.Token, false, "ok"}, {"whole", m.Token, true, "ok"}, {"unknown", wrong, false, wire.CodeUnknownCredential},
		{"another secret", swapped, true, wire.CodeUnknownCredential}, {"another fetch part", other, false, wire.CodeUnknownCredential},
		{"another fetch part with the secret", other, true, wire.CodeUnknownCredential},
	} {
		v, err := d.Visited(t.Context(), c.token, c.whole)
		if code(err) != c.want || (v.Token.ID != "") != (c.want == "ok") {
			t.Errorf("%s: %v, token %q; want %s", c.name, err, v.Token.ID, c.want)
		}
		if err != nil {
			continue
		}
		text, err := v.Script()
		sum := m.FetchSum
		if c.whole {
			sum = m.ScriptSum
		}
		if err != nil || digest(text) != sum || strings.Contains(text, m.Token.Secret) != c.whole {
			t.Errorf("%s: the script is not the one that was promised, %v", c.name, err)
		}
	}
}

// TestFetchWindow: fifteen minutes from the first fetch, within the outer limit.
func TestFetchWindow(t *testing.T) {
	d, node := bootstraps(t, "", site())
	m, err := d.MintNodeToken(t.Context(), bootstrap.NodeTokenRequest{Node: node, Mode: bootstrap.CloudInit}, operator)
	if err != nil {
		t.Fatal(err)
	}
	fetch := func() string {
		v, err := d.Visited(t.Context(), m.Token, false)
		if err == nil {
			err = d.Fetched(t.Context(), v, node, "192.0.2.9")
		}
		return code(err)
	}
	for _, c := range []struct {
		after time.Duration
		want  string
	}{{23 * time.Hour, "ok"}, {23*time.Hour + 15*time.Minute - time.Millisecond, "ok"},
		{23*time.Hour + 15*time.Minute, wire.CodeTokenExpired}} {
		d.now = start.Add(c.after)
		if got := fetch(); got != c.want {
			t.Errorf("after %s: got %s, want %s", c.after, got, c.want)
		}
	}
	if e := d.events("bootstrap.fetched"); len(e) != 2 || e[0].Detail["token"] != m.Token.Public() ||
		e[0].Actor != "token:"+m.Token.Public() || e[0].Address != "192.0.2.9" || e[0].Detail["part"] != "fetch" {
		t.Errorf("events: %+v", e)
	}
	// One that ended between its proof and the fetch.
	d.now = start
	m, err = d.MintNodeToken(t.Context(), bootstrap.NodeTokenRequest{Node: node}, operator)
	if err != nil {
		t.Fatal(err)
	}
	v, err := d.Visited(t.Context(), m.Token, true)
	if err != nil || d.RevokeToken(t.Context(), "", m.Token.Public(), operator) != nil {
		t.Fatal(err)
	}
	if err := d.Fetched(t.Context(), v, node, ""); code(err) != wire.CodeTokenRevoked {
		t.Errorf("revoked in between: %v", err)
	}
}

// FuzzBootstrapPath reads what stands in a path where a token should.
func FuzzBootstrapPath(f *testing.F) {
	good, err := sign.NewToken(sign.BootstrapToken, strings.NewReader(strings.Repeat("0123456789abcdef", 20)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good.Reveal())
	f.Add(good.FetchPart())
	f.Add(good.FetchPart() + ".")
	f.Add(good.Public())
	f.Add(" " + good.Reveal())
	f.Add("mse_abcdefghijkl_" + good.Secret)
	f.Add("msa_abcdefghijkl_" + good.Secret)
	f.Add("msb_a_b.c")
	f.Add("msb_" + strings.Repeat("a", 70) + "_" + good.Fetch)
	f.Add("..%2f\x00")
	f.Fuzz(func(t *testing.T, text string) {
		token, whole, err := bootstrap.ParsePath(text)
		if err != nil {
			if got := code(err); got != wire.CodeBadRequest && got != wire.CodeTokenWrongRoute {
				t.Errorf("%q: %v", text, err)
			}
			if len(text) > 12 && strings.Contains(err.Error(), text) {
				t.Errorf("the text is repeated: %v", err)
			}
			return
		}
		if whole && token.Reveal() != text || !whole && token.FetchPart() != text {
			t.Errorf("%q was read as %q", text, token.FetchPart())
		}
	})
}

// TestShellUserData: user-data that is a script leaves the same files as cloud-config, and the script has the profile's part.
func TestShellUserData(t *testing.T) {
	s := site()
	s.RuntimePackage = "a'b"
	d, node := bootstraps(t, "", s)
	m, err := d.MintNodeToken(t.Context(), bootstrap.NodeTokenRequest{Node: node, Mode: bootstrap.CloudInit, Shell: true,
		TTL:     45 * time.Minute,
		Profile: "p", Apply: "echo 'it is' >\"$1\""}, operator)
	if err != nil {
		t.Fatal(err)
	}
	lint(t, m.UserData)
	lint(t, m.Script)
	if m.ExpiresAt != start.Add(45*time.Minute) || m.Window != 15*time.Minute {
		t.Errorf("it lives until %s, and %s", m.ExpiresAt, m.Window)
	}
	dir := t.TempDir()
	local := strings.ReplaceAll(strings.Replace(m.UserData, "exec sh /etc/muster/first-hop.sh", "exit 0", 1), "/etc/muster", dir)
	if out, err := exec.Command("sh", "-c", local).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	token, err := os.ReadFile(filepath.Join(dir, "bootstrap-token"))
	if err != nil || string(token) != m.Token.Reveal()+"\n" {
		t.Errorf("the token: %q, %v", token, err)
	}
	hop, err := os.ReadFile(filepath.Join(dir, "first-hop.sh"))
	if err != nil || !strings.HasPrefix(string(hop), "#!/bin/sh\n") || !strings.HasSuffix(string(hop), "{ main \"$@\"; }\n") ||
		!strings.Contains(string(hop), "LIMIT='2700'") || strings.Contains(string(hop), m.Token.Secret) {
		t.Errorf("the first hop: %v\n%s", err, hop)
	}
	constants, _, _ := strings.Cut(m.Script, "\nmain() {")
	out, err := exec.Command("sh", "-c", constants+"\nprintf '%s|%s' \"$PROFILE\" \"$APPLY\"").Output()
	if err != nil || string(out) != "p|echo 'it is' >\"$1\"" {
		t.Errorf("%s, %v", out, err)
	}
}
