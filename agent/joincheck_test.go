package main

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"muster/agent/internal/transport/gatewaytest"
)

func TestJoinCheck(t *testing.T) {
	t.Parallel()
	b := systemdBox(t)
	code, out, errs := b.join("--check", "--token", b.token, "--root-pin", b.g.CA.Pin())
	if code != 0 {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	for _, want := range []string{
		"TCP         ok    https://127.0.0.1", "gateway     ok    gateway https", "its own certificate, root pin fits", "clock       ok",
		"token       ok",
		"not spent", "disk        ok", "writable    ok", "executable  ok", "GPU         note", "privileges  ok    root",
		"service     ok    systemd",
		"joining would work: run the same without --check",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if _, err := os.Stat(b.base); err == nil || len(b.g.Requests("/nodes/register")) > 0 || len(b.calls) > 0 {
		t.Error("a check changed something")
	}
}

func TestJoinCheckFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		args  func(b *box) []string
		setup func(b *box)
		want  []string
		code  int
	}{
		{"nothing listens", func(*box) []string { return []string{"--gateway", "https://127.0.0.1:1"} }, nil,
			[]string{"TCP         FAILS", "nothing listens there"}, 1},
		{"no such name", func(*box) []string { return []string{"--gateway", "https://gateway.invalid"} }, nil,
			[]string{"DNS         FAILS", "check the name in --gateway"}, 1},
		{"no TLS", func(b *box) []string {
			return []string{"--gateway", "https" + strings.TrimPrefix(gatewaytest.Listen(b.t, b.g, nil), "http")}
		}, nil,
			[]string{"TLS         FAILS", "does not speak TLS"}, 1},
		{"no TLS where it is wanted", func(b *box) []string { return []string{"--gateway", "http" + strings.TrimPrefix(b.url, "https")} }, nil,
			[]string{"gateway     FAILS", "if this port speaks TLS, give --gateway with https://"}, 1},
		{"plain", func(b *box) []string { return []string{"--gateway", gatewaytest.Listen(b.t, b.g, nil)} }, nil,
			[]string{"plain HTTP (each exchange is signed)"}, 0},
		{"wrong pin", func(*box) []string { return []string{"--root-pin", "sha256:" + strings.Repeat("11", 32)} }, nil,
			[]string{"TLS         FAILS", "root pin"}, 1},
		{"wrong token", func(b *box) []string { return []string{"--token", b.token[:len(b.token)-2]} }, nil, []string{"token       FAILS"}, 1},
		{"no token", func(*box) []string { return nil }, nil, []string{"token       note", "joining would work"}, 0},
		{"edge", func(*box) []string { return nil }, func(b *box) { b.rule(edge) },
			[]string{"gateway     FAILS", "behind Cloudflare", "Just a moment"}, 1},
		{"clock", func(*box) []string { return nil }, func(b *box) { b.late(10*time.Minute + 30*time.Second) },
			[]string{"clock       note", "this machine's clock is 10m"}, 0},
		{"no init", func(*box) []string { return nil }, func(b *box) { os.RemoveAll(b.root + "/run") },
			[]string{"service     note", "built-in supervisor. After a reboot the agent will not start."}, 0},
	} {
		b := systemdBox(t)
		if test.setup != nil {
			test.setup(b)
		}
		code, out, errs := b.join(append([]string{"--check"}, test.args(b)...)...)
		if code != test.code {
			t.Errorf("%s: exit %d\n%s%s", test.name, code, out, errs)
		}
		for _, want := range test.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q in\n%s", test.name, want, out)
			}
		}
	}
}

// late makes the gateway's answers carry another date.
func (b *box) late(by time.Duration) {
	b.g.Tamper = func(_ gatewaytest.Request, reply *gatewaytest.Reply) {
		reply.Header["Date"] = time.Now().Add(by).UTC().Format(http.TimeFormat)
	}
}
