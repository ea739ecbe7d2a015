package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/authority"
	"muster/store/rqlite/rqlitetest"
)

// TestStandByURLs: nodes are told the URL of each gateway, and whoever comes to one of them meets a certificate for all. When the gateway
// dies that a node has joined with, the node goes through the other one, and comes back when that dies.
func TestStandByURLs(t *testing.T) {
	t.Parallel()
	s := newSeveral(t, rqlitetest.Serve(t, rqlitetest.New(t)))
	begin := func(id, host string) *member {
		_, port, _ := net.SplitHostPort(free(t))
		at := net.JoinHostPort(host, port)
		m := s.begin(id, "--listen", at, "--public-url", "https://"+at)
		m.url = "https://" + at
		return m
	}
	a := begin("gw1", "127.0.0.3")
	a.active("gw1")
	b := begin("gw2", "127.0.0.4")
	a.agent("desk", a.token(), "--no-gpu")
	a.online(1)
	knows := func(what string, m *member) {
		t.Helper()
		a.until(what, func() bool {
			said := a.agentStatus("desk")
			through := strings.Contains(said, `"through": "`+m.url+`"`) || m == a && !strings.Contains(said, `"through"`)
			return through && strings.Contains(said, `"phase": "online"`) && strings.Contains(said, `"gateway": "`+a.url+`"`)
		})
	}
	told := func() bool {
		var file struct{ Gateway struct{ Gateways []string } }
		raw, err := os.ReadFile(filepath.Join(a.stateOf("desk"), "identity.json"))
		return err == nil && json.Unmarshal(raw, &file) == nil && len(file.Gateway.Gateways) == 2
	}
	a.until("the node knows both gateways", told)
	both := func(m *member) {
		t.Helper()
		c := m.shows()
		for _, one := range []*member{a, b} {
			host, _, _ := net.SplitHostPort(strings.TrimPrefix(one.url, "https://"))
			if err := c.VerifyHostname(host); err != nil {
				t.Errorf("at %s: %v", m.url, err)
			}
		}
	}
	knows("it talks to the one that it has joined with", a)
	both(a)
	both(b)

	a.now().kill()
	both(b)
	b.active("gw2")
	knows("it talks through the other one", b)
	b.online(1)
	if !told() {
		t.Error("the gateway that took over does not tell nodes of both")
	}

	a.run()
	a.active("gw2")
	b.now().kill()
	both(a)
	a.active("gw1")
	knows("it talks to the one that it has joined with again", a)
	a.online(1)
}

// TestCover: the log says for which gateway's host the operator's certificate is not. Behind a proxy that may be right.
func TestCover(t *testing.T) {
	args, _ := publicCertificate(t)
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	files, err := authority.OpenFiles(args[1], args[3], nil, log)
	if err != nil {
		t.Fatal(err)
	}
	said.Reset()
	g := gateway{base: base{log: log, trust: &trust{serving: files}, network: &network{}}}
	g.cover([]string{"127.0.0.1"})
	if said.Len() > 0 {
		t.Errorf("said:\n%s", &said)
	}
	g.cover([]string{"127.0.0.1", "gw2.example"})
	if !strings.Contains(said.String(), "gw2.example") {
		t.Errorf("said:\n%s", &said)
	}
	said.Reset()
	g.reach.Proxied = true
	g.cover([]string{"gw2.example"})
	if said.Len() > 0 {
		t.Errorf("said:\n%s", &said)
	}
}

// shows is the certificate that a gateway shows as soon as it answers.
func (m *member) shows() *x509.Certificate {
	m.t.Helper()
	at := strings.TrimPrefix(m.url, "https://")
	for end := time.Now().Add(patience); ; <-time.After(50 * time.Millisecond) {
		c, err := tls.Dial("tcp", at, &tls.Config{InsecureSkipVerify: true}) // what it shows is looked at
		if err == nil {
			c.Close()
			return c.ConnectionState().PeerCertificates[0]
		}
		if time.Now().After(end) {
			m.t.Fatalf("nobody answers at %s: %v", at, err)
		}
	}
}
