//go:build real

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"muster/store/rqlite/rqlitetest"
)

// inNetwork is set where a test runs in a network of its own.
const inNetwork = "MUSTER_TEST_NETWORK"

// places are machines of a test: each has its own network namespace, and all are joined by a bridge. What a test changes of the network
// goes with its processes.
type places struct {
	t   *testing.T
	all []*place
}

type place struct {
	t    *testing.T
	host string
	pid  string // of the process that keeps its namespace
}

// newPlaces has the test run again in a network namespace, and gives the places there. It gives nil where that has been done.
func newPlaces(t *testing.T) *places {
	t.Helper()
	if os.Getenv(inNetwork) == "" {
		for _, tool := range []string{"ip", "nsenter", "unshare"} {
			if _, err := exec.LookPath(tool); err != nil || os.Geteuid() != 0 {
				if os.Getenv("CI") != "" {
					t.Fatal("networks of its own need root, iproute2 and util-linux")
				}
				t.Skip("not tried: networks of its own need root, iproute2 and util-linux")
			}
		}
		again := exec.CommandContext(t.Context(), "unshare", "--net", "--", os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v",
			"-test.timeout=9m")
		again.Env = append(os.Environ(), inNetwork+"=1")
		out, err := again.CombinedOutput()
		t.Logf("in a network of its own:\n%s", out)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(out), "--- SKIP") {
			t.Skip("see above")
		}
		return nil
	}
	p := &places{t: t}
	p.ip("link", "set", "lo", "up")
	p.ip("link", "add", "middle", "type", "bridge")
	p.ip("address", "add", "10.9.0.1/24", "dev", "middle")
	p.ip("link", "set", "middle", "up")
	return p
}

func (p *places) ip(args ...string) {
	p.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		p.t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// place makes one more.
func (p *places) place() *place {
	p.t.Helper()
	n := len(p.all) + 2
	holder := start(p.t, "place", nil, "unshare", "--net", "sh", "-c", "ip link set lo up && echo up && exec sleep infinity")
	holder.await("up")
	one := &place{p.t, fmt.Sprintf("10.9.0.%d", n), strconv.Itoa(holder.cmd.Process.Pid)}
	name := fmt.Sprintf("to%d", n)
	p.ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", one.pid)
	p.ip("link", "set", name, "master", "middle", "up")
	one.do("ip", "address", "add", one.host+"/24", "dev", "eth0")
	one.do("ip", "link", "set", "eth0", "up")
	p.all = append(p.all, one)
	return one
}

// enter runs the command that follows it in the place.
func (p *place) enter() []string { return []string{"nsenter", "--target", p.pid, "--net", "--"} }

func (p *place) do(words ...string) {
	p.t.Helper()
	words = append(p.enter(), words...)
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		p.t.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, out)
	}
}

// ignores has nothing go from here to another place any more: what comes from there has no answer. hears ends that.
func (p *place) ignores(other *place) { p.do("ip", "route", "add", "blackhole", other.host+"/32") }
func (p *place) hears(other *place)   { p.do("ip", "route", "del", "blackhole", other.host+"/32") }

// secure has rqlite and gateways believe each other.
func (p *places) secure() (nodes rqlitetest.Secure, gateway []string) {
	p.t.Helper()
	dir := p.t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.t.Fatal(err)
	}
	made := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	for _, one := range p.all {
		made.IPAddresses = append(made.IPAddresses, net.ParseIP(one.host))
	}
	der, err := x509.CreateCertificate(rand.Reader, made, made, &key.PublicKey, key)
	if err != nil {
		p.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		p.t.Fatal(err)
	}
	crt, keyFile := filepath.Join(dir, "crt"), filepath.Join(dir, "key")
	writePEM(p.t, crt, der)
	if err := os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600); err != nil {
		p.t.Fatal(err)
	}
	own, err := tls.LoadX509KeyPair(crt, keyFile)
	if err != nil {
		p.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(own.Leaf)
	return rqlitetest.Secure{
		Flags:  []string{"-http-cert", crt, "-http-key", keyFile, "-http-ca-cert", crt, "-http-verify-client"},
		Client: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{own}},
	}, []string{"--store-ca", crt, "--store-cert", crt, "--store-key", keyFile}
}
