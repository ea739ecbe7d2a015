package transport_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"muster/agent/internal/transport"
	"muster/agent/internal/transport/gatewaytest"
)

// counted is a curl that notes at each start how many certificates it was given. It notes 0 where it took the system's own.
type counted struct {
	t       *testing.T
	program string
	folder  string
}

func newCounted(t *testing.T) *counted {
	t.Helper()
	c := &counted{t: t, folder: t.TempDir()}
	c.program = filepath.Join(c.folder, "curl")
	script := fmt.Sprintf("#!/bin/sh\ncd %s || exit\ncat <&5 >roots\ngrep -c BEGIN roots >>counts\nexec curl \"$@\" 5<roots\n", c.folder)
	if err := os.WriteFile(c.program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return c
}

// counts are the notes since the last call of counts.
func (c *counted) counts() (all []int) {
	c.t.Helper()
	raw, err := os.ReadFile(filepath.Join(c.folder, "counts"))
	if err == nil {
		err = os.Remove(filepath.Join(c.folder, "counts"))
	}
	if err != nil {
		c.t.Fatal(err)
	}
	for _, field := range strings.Fields(string(raw)) {
		n, err := strconv.Atoi(field)
		if err != nil {
			c.t.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}

// bundle is a file with the roots of these authorities among others.
func bundle(t *testing.T, path string, others int, among ...*gatewaytest.CA) {
	t.Helper()
	var text strings.Builder
	for range others {
		text.WriteString(gatewaytest.NewCA(t, time.Now()).RootPEM())
	}
	for _, ca := range among {
		text.WriteString(ca.RootPEM())
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// public is a gateway with certificates of authorities that the system trusts, asked through curl.
func public(t *testing.T, curl *counted, file string, ca *gatewaytest.CA) *transport.Client {
	t.Helper()
	g := gatewaytest.New(t)
	certificate := ca.Server(t, time.Now().AddDate(0, 0, -1), time.Now().AddDate(0, 0, 1), "127.0.0.1")
	client := curlClient(t, gatewaytest.Listen(t, g, &certificate), nil, func(cfg *transport.Config) {
		cfg.Curl = curl.program
		cfg.Environ = []string{"PATH=" + os.Getenv("PATH"), "CURL_CA_BUNDLE=" + file}
	})
	client.Use(g.Identity(t))
	return client
}

func mustCall(t *testing.T, client *transport.Client, times int) {
	t.Helper()
	for range times {
		if _, err := call(client); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCurlIsGivenOneRoot: curl always gets one root where the gateway has its own. For a public certificate it does after a few exchanges.
func TestCurlIsGivenOneRoot(t *testing.T) {
	authority := gatewaytest.NewCA(t, time.Now())
	file := filepath.Join(t.TempDir(), "system.pem")
	bundle(t, file, 20, authority)

	curl := newCounted(t)
	client := public(t, curl, file, authority)
	mustCall(t, client, 8)
	curl.counts()
	mustCall(t, client, 3)
	if got := curl.counts(); !slices.Equal(got, []int{1, 1, 1}) {
		t.Errorf("a public certificate: curl was given %v roots", got)
	}

	bundle(t, file, 20)
	if _, err := call(client); !errors.Is(err, transport.ErrUntrusted) {
		t.Errorf("with a root that the system does not trust any more: %v", err)
	}

	g := gatewaytest.New(t)
	own := g.Serving(t)
	client = curlClient(t, gatewaytest.Listen(t, g, own), nil, func(cfg *transport.Config) { cfg.Curl = curl.program })
	client.Use(g.Identity(t))
	curl.counts()
	mustCall(t, client, 3)
	if got := curl.counts(); slices.Max(got) != 1 || slices.Min(got[2:]) != 1 {
		t.Errorf("the gateway's own certificate: curl was given %v roots", got)
	}
}

// TestAnchorChanges: an edge changes to another authority, or shows one of two each time. After a few exchanges curl gets few roots again.
func TestAnchorChanges(t *testing.T) {
	now := time.Now()
	authorities := [2]*gatewaytest.CA{gatewaytest.NewCA(t, now), gatewaytest.NewCA(t, now)}
	file := filepath.Join(t.TempDir(), "system.pem")
	bundle(t, file, 9, authorities[:]...)
	var certificates [2]tls.Certificate
	for i, ca := range authorities {
		certificates[i] = ca.Server(t, now.AddDate(0, 0, -1), now.AddDate(0, 0, 1), "127.0.0.1")
	}
	for name, shows := range map[string]func(call int) int{
		"goes over":  func(call int) int { return min(call/10, 1) },
		"alternates": func(call int) int { return call % 2 },
	} {
		t.Run(name, func(t *testing.T) {
			g := gatewaytest.New(t)
			var calls atomic.Int64
			server := httptest.NewUnstartedServer(g)
			server.Listener = tls.NewListener(server.Listener,
				&tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
					return &certificates[shows(int(calls.Load()))], nil
				}})
			server.Start()
			t.Cleanup(server.Close)
			curl := newCounted(t)
			client := curlClient(t, strings.Replace(server.URL, "http:", "https:", 1), nil, func(cfg *transport.Config) {
				cfg.Curl = curl.program
				cfg.Environ = []string{"PATH=" + os.Getenv("PATH"), "CURL_CA_BUNDLE=" + file}
			})
			client.Use(g.Identity(t))
			for range 24 {
				mustCall(t, client, 1)
				calls.Add(1)
			}
			curl.counts()
			for range 4 {
				mustCall(t, client, 1)
				calls.Add(1)
			}
			if got := curl.counts(); !slices.Equal(got, []int{2, 2, 2, 2}) {
				t.Errorf("curl was given %v roots", got)
			}
		})
	}
}

// TestCurlGoesByAnother: for a curl that uses other certificates than the system's file, the search ends.
func TestCurlGoesByAnother(t *testing.T) {
	authority := gatewaytest.NewCA(t, time.Now())
	folder := t.TempDir()
	bundle(t, filepath.Join(folder, "system.pem"), 6)
	bundle(t, filepath.Join(folder, "curl.pem"), 1, authority)
	curl := newCounted(t)
	raw, err := os.ReadFile(curl.program)
	if err == nil {
		text := strings.Replace(string(raw), "exec ", "export CURL_CA_BUNDLE="+folder+"/curl.pem; exec ", 1)
		err = os.WriteFile(curl.program, []byte(text), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	client := public(t, curl, filepath.Join(folder, "system.pem"), authority)
	mustCall(t, client, 10)
	curl.counts()
	mustCall(t, client, 3)
	if got := curl.counts(); !slices.Equal(got, []int{0, 0, 0}) {
		t.Errorf("curl was given %v roots", got)
	}
}

// BenchmarkCurl gives the processor time of a heartbeat through curl, which is a process of its own, in milliseconds.
func BenchmarkCurl(b *testing.B) {
	if _, err := exec.LookPath("curl"); err != nil {
		b.Fatal("this needs curl: install it")
	}
	now := time.Now()
	authority := gatewaytest.NewCA(b, now)
	for _, kind := range []string{"plain", "own", "public"} {
		b.Run(kind, func(b *testing.B) {
			file := filepath.Join(b.TempDir(), "system.pem")
			raw, _ := os.ReadFile("/etc/ssl/certs/ca-certificates.crt") // without one the figure is too good
			if err := os.WriteFile(file, append(raw, authority.RootPEM()...), 0o600); err != nil {
				b.Fatal(err)
			}
			g := gatewaytest.New(b)
			certificate := g.Serving(b)
			switch kind {
			case "plain":
				certificate = nil
			case "public":
				public := authority.Server(b, now.AddDate(0, 0, -1), now.AddDate(0, 0, 1), "127.0.0.1")
				certificate = &public
			}
			client, err := transport.New(transport.Config{
				Gateway: gatewaytest.Listen(b, g, certificate), Way: transport.Curl,
				Environ: []string{"PATH=" + os.Getenv("PATH"), "CURL_CA_BUNDLE=" + file},
			})
			if err != nil {
				b.Fatal(err)
			}
			client.Use(g.Identity(b))
			for range 10 {
				if _, err := call(client); err != nil {
					b.Fatal(err)
				}
			}
			before := childrensTime(b)
			for b.Loop() {
				if _, err := call(client); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((childrensTime(b)-before).Microseconds())/1000/float64(b.N), "child-ms/op")
		})
	}
}

// childrensTime is the processor time, user and system, of all children that have ended.
func childrensTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &usage); err != nil {
		b.Fatal(fmt.Errorf("measure: %w", err))
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
