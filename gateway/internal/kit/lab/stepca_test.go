//go:build real

package lab_test

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/kit/lab"
)

const (
	stepAddress = "127.0.0.1:9443"
	// shortLife is so short that a node renews within seconds. stepClaims let step-ca issue for so short a time.
	shortLife  = "12s"
	stepClaims = `{"minTLSCertDuration": "5s", "maxTLSCertDuration": "24h", "defaultTLSCertDuration": "24h", "disableRenewal": true}`
	// nodeTemplate is what muster help step-ca tells operators to give the provisioner.
	nodeTemplate = `{"subject": {{ toJson .Subject }}, "sans": {{ toJson .SANs }}, ` +
		`"keyUsage": ["digitalSignature"], "extKeyUsage": ["clientAuth"]}`
)

// stepCA is a real step-ca with a JWK provisioner "nodes" and an X5C provisioner "nodes-x5c".
type stepCA struct {
	t        *testing.T
	lab      *lab.Lab
	dir      string
	step, ca string // programs
	process  *lab.Process
}

func newStepCA(t *testing.T, l *lab.Lab) *stepCA {
	t.Helper()
	c := &stepCA{
		t: t, lab: l, dir: filepath.Join(l.Dir, "step"),
		ca:   l.Tool(lab.StepCA, lab.StepCAVersion),
		step: l.Tool("github.com/smallstep/cli/cmd/step", "v0.21.0"),
	}
	c.must(os.Mkdir(c.dir, 0o700))
	c.must(os.WriteFile(c.path("password"), []byte("of the laboratory\n"), 0o600))
	c.run("ca", "init", "--name", "Lab", "--dns", "127.0.0.1", "--dns", "localhost", "--address", stepAddress, "--provisioner", "admin",
		"--password-file", c.path("password"), "--provisioner-password-file", c.path("password"), "--deployment-type", "standalone")
	c.run("crypto", "jwk", "create", c.path("nodes.pub"), c.path("nodes.jwk"), "--kty", "EC", "--crv", "P-256", "--no-password", "--insecure")
	c.run("certificate", "create", "muster gateway", c.path("x5c.crt"), c.path("x5c.key"), "--profile", "leaf", "--not-after", "1h",
		"--no-password", "--insecure",
		"--ca", c.path("certs/root_ca.crt"), "--ca-key", c.path("secrets/root_ca_key"), "--ca-password-file", c.path("password"))
	c.configure()
	c.open()
	return c
}

func (c *stepCA) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *stepCA) path(name string) string { return filepath.Join(c.dir, name) }

func (c *stepCA) run(args ...string) {
	c.t.Helper()
	command := c.lab.Command(append([]string{c.step}, args...)...)
	command.Env = append(command.Env, "STEPPATH="+c.dir)
	if out, err := command.CombinedOutput(); err != nil {
		c.t.Fatalf("step %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// configure makes the provisioners as muster help step-ca tells operators to.
func (c *stepCA) configure() {
	c.t.Helper()
	text, err := os.ReadFile(c.path("config/ca.json"))
	c.must(err)
	root, err := os.ReadFile(c.path("certs/root_ca.crt"))
	c.must(err)
	var config map[string]any
	c.must(json.Unmarshal(text, &config))
	authority := config["authority"].(map[string]any)
	public, err := os.ReadFile(c.path("nodes.pub"))
	c.must(err)
	jwk := map[string]any{"type": "JWK", "name": "nodes", "key": json.RawMessage(public)}
	x5c := map[string]any{"type": "X5C", "name": "nodes-x5c", "roots": root}
	for _, provisioner := range []map[string]any{jwk, x5c} {
		provisioner["claims"] = json.RawMessage(stepClaims)
		provisioner["options"] = map[string]any{"x509": map[string]any{"template": nodeTemplate}}
	}
	authority["provisioners"] = []any{jwk, x5c}
	text, err = json.Marshal(config)
	c.must(err)
	c.must(os.WriteFile(c.path("config/ca.json"), text, 0o600))
}

func (c *stepCA) open() {
	c.t.Helper()
	c.process = c.lab.Start("step-ca", c.lab.Command(c.ca, c.path("config/ca.json"), "--password-file", c.path("password")))
	c.process.Await("Serving HTTPS")
}

// flags make a gateway use this step-ca.
func (c *stepCA) flags(kind string) []string {
	flags := []string{"--cert-ttl", shortLife, "--issuer", "step-ca", "--step-ca-url", "https://" + stepAddress,
		"--step-ca-root", c.path("certs/root_ca.crt")}
	if kind == "X5C" {
		return append(flags, "--step-ca-provisioner", "nodes-x5c", "--step-ca-key", c.path("x5c.key"), "--step-ca-cert", c.path("x5c.crt"))
	}
	return append(flags, "--step-ca-provisioner", "nodes", "--step-ca-key", c.path("nodes.jwk"))
}

// renewer is an agent on this machine whose certificate is renewed every few seconds.
type renewer struct {
	t     *testing.T
	lab   *lab.Lab
	state string

	process *lab.Process
}

func startRenewer(t *testing.T, l *lab.Lab, token string) *renewer {
	t.Helper()
	r := &renewer{t: t, lab: l, state: filepath.Join(l.Dir, "agent")}
	command := l.Command(filepath.Join(lab.Tree(), "bin", "muster-agent"), "run", "--gateway", "https://127.0.0.1:"+lab.Port,
		"--state", r.state, "--name", "renewer", "--interval", "1s")
	command.Env = append(command.Env, "MUSTER_TOKEN="+token)
	r.process = l.Start("agent", command)
	l.Until("the agent is enrolled", func() bool { n, _ := r.identity(); return n == 1 })
	return r
}

// identity is what the agent has: its certificate's generation and chain; 0 before it has one.
func (r *renewer) identity() (int, []*x509.Certificate) {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.state, "identity.json"))
	var state struct {
		Current *struct {
			Generation  int
			Certificate string
		}
	}
	if err != nil || json.Unmarshal(text, &state) != nil || state.Current == nil {
		return 0, nil
	}
	var chain []*x509.Certificate
	for block, rest := pem.Decode([]byte(state.Current.Certificate)); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			r.t.Fatal(err)
		}
		chain = append(chain, certificate)
	}
	return state.Current.Generation, chain
}

// renews waits for a later generation than the present one, signed by that CA and known to the gateway.
func (r *renewer) renews(g *lab.Gateway, issuer string) {
	r.t.Helper()
	before, _ := r.identity()
	r.lab.Until("the certificate is renewed by "+issuer, func() bool {
		now, chain := r.identity()
		return now > before && chain[0].Issuer.CommonName == issuer
	})
	since := time.Now()
	r.lab.Until("the node is heard with its new certificate", func() bool { return g.Heard(since) })
}

// TestStepCA has a real step-ca sign for both kinds of provisioner, and restarts it under a node that renews.
func TestStepCA(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"JWK", "X5C"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			l := lab.New(t)
			ca := newStepCA(t, l)
			gateway := l.Gateway(ca.flags(kind)...)
			agent := startRenewer(t, l, gateway.Token().Token)
			_, chain := agent.identity()
			leaf := chain[0]
			root := chain[len(chain)-1]
			if id := gateway.Node().ID; len(chain) != 3 || root.Subject.CommonName != "Lab Root CA" || leaf.Subject.String() != "CN="+id ||
				len(leaf.URIs) != 1 || leaf.URIs[0].Path != "/node/"+id ||
				!slices.Equal(leaf.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}) {
				t.Errorf("chain of %d: %s, %v, %v, root %s", len(chain), leaf.Subject, leaf.URIs, leaf.ExtKeyUsage, root.Subject)
			}
			agent.renews(gateway, "Lab Intermediate CA")
			ca.process.Kill()
			ca.open()
			agent.renews(gateway, "Lab Intermediate CA")
		})
	}
}

// TestMoveToStepCA moves a node from the built-in CA to step-ca and back, with step-ca away for longer than a node's first
// try in between.
func TestMoveToStepCA(t *testing.T) {
	t.Parallel()
	l := lab.New(t)
	ca := newStepCA(t, l)
	gateway := l.Gateway("--cert-ttl", shortLife)
	agent := startRenewer(t, l, gateway.Token().Token)
	agent.renews(gateway, "muster intermediate CA")

	gateway.Stop()
	gateway = l.Gateway(ca.flags("JWK")...)
	agent.renews(gateway, "Lab Intermediate CA")

	ca.process.Kill()
	agent.process.Await("certificate not renewed")
	ca.open()
	agent.renews(gateway, "Lab Intermediate CA")

	gateway.Stop()
	gateway = l.Gateway("--cert-ttl", shortLife)
	agent.renews(gateway, "muster intermediate CA")
}
