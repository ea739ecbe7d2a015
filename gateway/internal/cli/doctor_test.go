package cli_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/trust"
	"muster/gateway/internal/authority"
	"muster/gateway/internal/datadir"
)

// gate serves a gateway's own TLS: its health, and the root that its certificate chains to.
func gate(t *testing.T, h *house, status int) (url, pin string) {
	t.Helper()
	a, err := authority.Open(t.Context(), authority.Config{Store: h.store, TrustDomain: "muster"})
	if err != nil {
		t.Fatal(err)
	}
	serving, err := authority.NewServing(t.Context(), a, nil)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == wire.PathRoots {
			_, _ = w.Write([]byte(a.RootPEM()))
			return
		}
		w.WriteHeader(status)
	}))
	pair, err := serving.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	server.TLS = &tls.Config{Certificates: []tls.Certificate{*pair}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // the first try does not believe the certificate
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, a.RootPin()
}

// wellGateway has nothing wrong with it.
func wellGateway(now time.Time, url, pin string) played {
	yes, no := true, false
	free, size := int64(80)<<30, int64(100)<<30
	backup, serving := now.Add(-25*time.Hour), now.Add(60*24*time.Hour)
	return played{
		"gateway":      api.Gateway{URL: url, RootPin: pin, Version: "1.2.3", At: now, Ready: &yes},
		"gateway/host": api.GatewayHost{DiskFreeBytes: &free, DiskBytes: &size, BackupAt: &backup, ServingNotAfter: &serving, KeyWithData: &no},
		"ca": trust.CA{Roots: []trust.Root{{Signing: true, NotAfter: now.Add(3000 * 24 * time.Hour)}},
			Intermediate: trust.Intermediate{NotAfter: now.Add(300 * 24 * time.Hour)}},
		"channels": api.ChannelList{Channels: []api.Channel{{Channel: "stable", Counts: api.RolloutCounts{Nodes: 3, Running: 2, Pinned: 1}}}},
		"fleet":    api.FleetView{At: now, Totals: api.Totals{Nodes: 3, Statuses: map[string]int{"online": 3}}},
	}
}

func apiToken(t *testing.T) string {
	t.Helper()
	token, err := sign.NewToken(sign.AccountToken, nil)
	if err != nil {
		t.Fatal(err)
	}
	return token.Reveal()
}

func (h *house) ntp(said string, err error) {
	h.machine.Command = func(_ context.Context, name string, _ ...string) (string, error) {
		if name != "timedatectl" {
			return "", errors.New("another program was called")
		}
		return said, err
	}
}

// TestDoctor: each check says what was seen, and unknown is not ok. Only what failed makes the exit code 1.
func TestDoctor(t *testing.T) {
	h := newHouse(t)
	url, pin := gate(t, h, http.StatusOK)
	ill, _ := gate(t, h, http.StatusServiceUnavailable)
	stranger := httptest.NewUnstartedServer(http.NotFoundHandler())
	stranger.Config.ErrorLog = log.New(io.Discard, "", 0)
	stranger.StartTLS()
	t.Cleanup(stranger.Close)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	yes, no := true, false
	ago := func(d time.Duration) *time.Time { at := h.now.Add(-d); return &at }
	host := func(change func(*api.GatewayHost)) func(played) {
		return func(p played) {
			answer := p["gateway/host"].(api.GatewayHost)
			change(&answer)
			p["gateway/host"] = answer
		}
	}
	gateway := func(change func(*api.Gateway)) func(played) {
		return func(p played) {
			answer := p["gateway"].(api.Gateway)
			change(&answer)
			p["gateway"] = answer
		}
	}
	at := func(to string) func(played) { return gateway(func(g *api.Gateway) { g.URL = to }) }
	alone := func(change func(played)) func(played) {
		return func(p played) {
			change(p)
			delete(p, "fleet")
		}
	}
	bytes := func(n int64) *int64 { return &n }
	for _, c := range []struct {
		name   string
		change func(played)
		code   int
		want   string // outcome and check, and what stands in the same line
		says   string
	}{
		{"well", func(played) {}, 0, "", ""},
		{"no writes", gateway(func(g *api.Gateway) { g.Ready = &no }), 1, "failed   gateway", "its database takes no writes"},
		{"a full disk", host(func(g *api.GatewayHost) { g.DiskFreeBytes = bytes(50 << 20) }), 1, "failed   disk", "0.0 GiB of 100.0 GiB"},
		{"a fuller disk", host(func(g *api.GatewayHost) { g.DiskFreeBytes = bytes(9 << 30) }), 0, "warn     disk", "9.0 GiB of 100.0 GiB"},
		{"little room", host(func(g *api.GatewayHost) { g.DiskFreeBytes, g.DiskBytes = bytes(1<<29), bytes(1<<30) }), 0, "warn     disk", ""},
		{"no disk", host(func(g *api.GatewayHost) { g.DiskFreeBytes = nil }), 0, "unknown  disk", "the gateway cannot tell"},
		{"an old backup", host(func(g *api.GatewayHost) { g.BackupAt = ago(9 * 24 * time.Hour) }), 0, "warn     backup", "begun 9d ago"},
		{"no backup", host(func(g *api.GatewayHost) { g.BackupAt = nil }), 0, "warn     backup", "none was ever made"},
		{"the key beside", host(func(g *api.GatewayHost) { g.KeyWithData = &yes }), 0, "warn     master key", "a copy of the folder has both"},
		{"no word of the key", host(func(g *api.GatewayHost) { g.KeyWithData = nil }), 0, "unknown  master key", "the gateway cannot tell"},
		{"serving ends", host(func(g *api.GatewayHost) { g.ServingNotAfter = ago(-24 * time.Hour) }), 0,
			"warn     serving certificate", "good for 1d"},
		{"serving ended", host(func(g *api.GatewayHost) { g.ServingNotAfter = ago(time.Hour) }), 1,
			"failed   serving certificate", "it ended 1h ago"},
		{"the root ends", func(p played) {
			p["ca"] = trust.CA{Roots: []trust.Root{{NotAfter: h.now}, {Signing: true, NotAfter: h.now.Add(48 * time.Hour)}}}
		}, 1, "warn     root", "good for 2d"},
		{"an old gateway", func(p played) { delete(p, "gateway/host") }, 0,
			"unknown  backup", "this gateway does not say: it is of an older version"},
		{"few scopes", func(p played) { p["ca"] = forbidden("nodes:read") }, 0, "unknown  root", "not for this account: see the end"},
		{"why few scopes", func(p played) { p["ca"] = forbidden("nodes:read") }, 0, "2 not for you", "lacks the scope nodes:read"},
		{"no channels", func(p played) { p["channels"] = forbidden("releases:read") }, 0, "unknown  agents", "lacks the scope releases:read"},
		{"agents behind", func(p played) {
			p["channels"] = api.ChannelList{Channels: []api.Channel{{Channel: "stable", Counts: api.RolloutCounts{Nodes: 3, Running: 1}}}}
		}, 0, "warn     agents", "2 of 3 on stable"},
		{"agents offline", func(p played) {
			p["channels"] = api.ChannelList{Channels: []api.Channel{{Channel: "stable",
				Counts: api.RolloutCounts{Nodes: 7, Running: 3, Pinned: 1, Offline: 2, Silent: 1}}}}
		}, 0, "ok       agents", "all agents are up to date (pinned and offline ones not counted)"},
		{"no nodes", func(p played) { p["channels"] = api.ChannelList{} }, 0, "ok       agents", "no node follows a channel"},
		{"another version", gateway(func(g *api.Gateway) { g.Version = "1.3.0" }), 0,
			"warn     versions", "this program is 1.2.3, the gateway is 1.3.0"},
		{"another gateway", alone(at(stranger.URL)), 1, "failed   public URL", "no root certificate with the pinned key"},
		{"an ill gateway", alone(at(ill)), 1, "failed   public URL", "status 503"},
		{"nobody there", alone(at(gone.URL)), 1, "failed   public URL", "connection refused"},
		{"nobody there from here", at(gone.URL), 0, "warn     public URL", "nodes are heard all the same"},
		{"no URL", alone(at("")), 1, "failed   public URL", "is no URL"},
	} {
		p := wellGateway(h.now, url, pin)
		c.change(p)
		h.dir = listen(t, p)
		h.ntp("yes\n", nil)
		code, out, errs := h.muster("doctor")
		if code != c.code || errs != "" || c.want == "" && !strings.HasSuffix(out, "\n11 checks: 11 ok\n") {
			t.Errorf("%s: code %d\n%s%s", c.name, code, out, errs)
		}
		found := c.want == ""
		for line := range strings.Lines(out) {
			found = found || strings.HasPrefix(line, c.want+" ") && strings.Contains(line, c.says)
		}
		if !found {
			t.Errorf("%s: no line %q with %q in\n%s", c.name, c.want, c.says, out)
		}
	}
}

// TestDoctorClock: over the socket this machine's clock is the gateway's, and systemd knows whether it is right.
func TestDoctorClock(t *testing.T) {
	h := newHouse(t)
	url, pin := gate(t, h, http.StatusOK)
	p := wellGateway(h.now, url, pin)
	h.dir = listen(t, p)
	for _, c := range []struct {
		said string
		err  error
		want string
	}{
		{"yes\n", nil, "ok       clock"}, {"no\n", nil, "warn     clock"}, {"", errors.New("no timedatectl here"), "unknown  clock"},
		{"n/a\n", nil, "unknown  clock"},
	} {
		h.ntp(c.said, c.err)
		code, out, errs := h.muster("doctor")
		if code != 0 || !strings.Contains(out, c.want) || (c.err != nil) != strings.Contains(out, "timedatectl fails") {
			t.Errorf("%q: code %d, want %q in\n%s%s", c.said, code, c.want, out, errs)
		}
	}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	h.env = map[string]string{"MUSTER_URL": server.URL, "MUSTER_API_TOKEN": apiToken(t)}
	for off, want := range map[time.Duration]string{0: "ok       clock", 3 * time.Second: "ok       clock", 40 * time.Second: "warn     clock",
		-2 * time.Minute: "failed   clock"} {
		answer := p["gateway"].(api.Gateway)
		answer.At = h.now.Add(-off)
		p["gateway"] = answer
		code, out, errs := h.run(t.Context(), "doctor")
		if failed := strings.HasPrefix(want, "failed"); (code == 1) != failed || !strings.Contains(out, want) {
			t.Errorf("%s off: code %d, want %q in\n%s%s", off, code, want, out, errs)
		}
	}
	answer := p["gateway"].(api.Gateway)
	answer.At = time.Time{}
	p["gateway"] = answer
	if _, out, _ := h.run(t.Context(), "doctor"); !strings.Contains(out, "unknown  clock") {
		t.Errorf("no word of the clock:\n%s", out)
	}
}

// TestDoctorAlone: without a gateway, what can be seen on this machine is looked at, and all else is unknown.
func TestDoctorAlone(t *testing.T) {
	h := newHouse(t)
	h.dir = t.TempDir()
	h.ntp("yes\n", nil)
	var r api.DoctorReport
	code, out, _ := h.muster("doctor", "-o", "json")
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 1 || len(r.Checks) != 11 {
		t.Fatalf("code %d, %v\n%s", code, err, out)
	}
	got := map[string]string{}
	for _, c := range r.Checks {
		got[c.Check] = c.Outcome
		if c.Seen == "" {
			t.Errorf("%s: nothing was seen", c.Check)
		}
	}
	for check, want := range map[string]string{"gateway": "failed", "clock": "ok", "backup": "unknown", "root": "unknown",
		"public URL": "unknown", "versions": "unknown", "agents": "unknown", "master key": "unknown"} {
		if got[check] != want {
			t.Errorf("%s: %s, want %s", check, got[check], want)
		}
	}
	if got["disk"] == "unknown" {
		t.Error("the disk of a directory that is here is not known")
	}
	for _, name := range []string{datadir.Database, datadir.MasterKey} {
		if err := os.WriteFile(filepath.Join(h.dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if code, out, _ := h.muster("doctor"); code != 1 || !strings.Contains(out, "warn     master key") ||
		!strings.Contains(out, "muster serve --data") {
		t.Errorf("code %d\n%s", code, out)
	}
	if err := os.Remove(filepath.Join(h.dir, datadir.MasterKey)); err != nil {
		t.Fatal(err)
	}
	if _, out, _ := h.muster("doctor"); !strings.Contains(out, "unknown  master key") {
		t.Errorf("without a key and a gateway: %s", out)
	}
}
