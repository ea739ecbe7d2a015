package main

import (
	"crypto/ed25519"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/sign"
	"muster/agent/wire"
)

// stored puts an enrolled node of this gateway into a state directory. change alters it first.
func stored(t *testing.T, g *gatewaytest.Gateway, url string, change func(*identity.State)) string {
	t.Helper()
	state := g.Node(t)
	state.Gateway.URL = url
	if change != nil {
		change(&state)
	}
	directory, err := identity.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer directory.Close()
	if err := directory.Save(state); err != nil {
		t.Fatal(err)
	}
	return directory.Path()
}

// refusedBefore writes a status: the gateway has refused the identity for good.
func refusedBefore(t *testing.T, path string) {
	t.Helper()
	if err := identity.WriteStatus(path, identity.Status{Phase: identity.PhaseRefused}); err != nil {
		t.Fatal(err)
	}
}

// otherPin is the pin of a root that no gateway here has.
func otherPin(t *testing.T) string { return gatewaytest.NewCA(t, time.Now()).Pin() }

// sleptThrough makes a node know older roots than the gateway has. This many signed sets lead it to the newest ones.
func sleptThrough(t *testing.T, g *gatewaytest.Gateway, rotations int64) func(*identity.State) {
	t.Helper()
	set := func(number int64, roots string) json.RawMessage {
		key := func(k ed25519.PrivateKey) string { return sign.EncodeKey(k.Public().(ed25519.PublicKey)) }
		return g.TrustSet(wire.TrustSet{Number: number, IssuedAt: g.Now().UTC(), TrustDomain: gatewaytest.Domain, TrustKey: key(g.Trust),
			Roots: roots, AnswerKeys: []string{key(g.Answer)}})
	}
	first := gatewaytest.NewCA(t, time.Now()).RootPEM()
	g.Sets = []json.RawMessage{set(1, first)}
	for number := int64(2); number <= rotations; number++ {
		g.Sets = append(g.Sets, set(number, gatewaytest.NewCA(t, time.Now()).RootPEM()))
	}
	g.Sets = append(g.Sets, set(rotations+1, g.CA.RootPEM()))
	return func(s *identity.State) { s.Gateway.Roots = first; s.Gateway.Trust = g.Sets[0] }
}

// TestPinOfAnEarlierRoot: settings or an entry point may still hold the pin of a former root. The agent starts all the same, however
// long it slept.
func TestPinOfAnEarlierRoot(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name      string
		rotations int64
		flag      bool
	}{{"settings", 0, false}, {"entry point", 0, true}, {"slept through two rotations", 2, false}} {
		g := gatewaytest.New(t)
		url := gatewaytest.Listen(t, g, g.Serving(t))
		var change func(*identity.State)
		if test.rotations > 0 {
			change = sleptThrough(t, g, test.rotations)
		}
		state := stored(t, g, url, change)
		pin := otherPin(t)
		args := []string{"run", "--gateway", url, "--state", state, "--no-gpu"}
		getenv := environment("MUSTER_ROOT_PIN", pin)
		if test.flag {
			args = append(args, "--root-pin", pin)
			getenv = environment()
		}
		code, _, stderr := agent(t, getenv, "", online(state), args...)
		if code != 0 || !online(state)() || !strings.Contains(stderr, "the root pin is not looked at") ||
			strings.Contains(stderr, "level=ERROR") {
			t.Errorf("%s: exit %d\n%s", test.name, code, stderr)
		}
	}
}

// TestPinOfTheFirstEnrolment: the pin counts, and the error says what to do.
func TestPinOfTheFirstEnrolment(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t)
	url := gatewaytest.Listen(t, g, g.Serving(t))
	state := t.TempDir()
	args := []string{"run", "--gateway", url, "--state", state, "--no-gpu", "--name", "n"}
	token := g.Token(t)
	code, _, stderr := agent(t, environment("MUSTER_TOKEN", token, "MUSTER_ROOT_PIN", otherPin(t)), "", nil, args...)
	if code != 1 || !strings.Contains(stderr, g.CA.Pin()) || !strings.Contains(stderr, "muster ca show") ||
		!strings.Contains(stderr, "--root-pin") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	if s, err := identity.Read(state); err != nil || s.Current != nil {
		t.Errorf("enrolled all the same: %v", err)
	}
	code, _, stderr = agent(t, environment("MUSTER_TOKEN", token, "MUSTER_ROOT_PIN", g.CA.Pin()), "", online(state), args...)
	if code != 0 || !online(state)() {
		t.Errorf("with the right pin: exit %d: %s", code, stderr)
	}
}

// TestEnrolAfreshWithAPinFromBefore: the gateway has given the node up. A new credential enrols it again, though an old pin is still
// given.
func TestEnrolAfreshWithAPinFromBefore(t *testing.T) {
	t.Parallel()
	const psk = "correct horse battery staple"
	for _, test := range []struct {
		name      string
		psk       bool
		rotations int64
	}{{"token", false, 0}, {"token, after two rotations", false, 2}, {"psk", true, 0}, {"psk, after two rotations", true, 2}} {
		g := gatewaytest.New(t)
		url := gatewaytest.Listen(t, g, g.Serving(t))
		var change func(*identity.State)
		if test.rotations > 0 {
			change = sleptThrough(t, g, test.rotations)
		}
		state := stored(t, g, url, change)
		credential := g.Token(t)
		if test.psk {
			credential = psk
			g.PSK(t, psk)
		}
		refusedBefore(t, state)
		before, _ := identity.Read(state)
		code, _, stderr := agent(t, environment("MUSTER_TOKEN", credential, "MUSTER_ROOT_PIN", otherPin(t)), "", online(state),
			"run", "--gateway", url, "--state", state, "--no-gpu", "--name", "n")
		after, err := identity.Read(state)
		if code != 0 || err != nil || after.Current.Certificate == before.Current.Certificate || after.Gateway.Roots != g.CA.RootPEM() {
			t.Errorf("%s: exit %d, %v\n%s", test.name, code, err, stderr)
		}
	}
}

// TestEnrolAfreshWithAStranger: another gateway has taken the address. The identity knows the right gateway, so the machine does not
// enrol with the other one, even if the old pin is the other one's.
func TestEnrolAfreshWithAStranger(t *testing.T) {
	t.Parallel()
	const psk = "correct horse battery staple"
	for _, test := range []struct {
		name           string
		shared, copies bool
	}{{"psk", true, false}, {"token", false, false}, {"token, and it names the known root beside its own", false, true}} {
		shared := test.shared
		g := gatewaytest.New(t)
		stranger := gatewaytest.New(t)
		url := gatewaytest.Listen(t, stranger, stranger.Serving(t))
		if sleptThrough(t, stranger, 1); test.copies {
			copyRoot(t, g, stranger)
		}
		credential := stranger.Token(t)
		if shared {
			credential = psk
			stranger.PSK(t, psk)
		}
		state := stored(t, g, url, nil)
		before, _ := identity.Read(state)
		refusedBefore(t, state)
		said := func() bool {
			raw, _ := os.ReadFile(filepath.Join(state, "agent.log"))
			return strings.Contains(string(raw), "going on with the identity that is here")
		}
		code, _, stderr := agent(t, environment("MUSTER_TOKEN", credential, "MUSTER_ROOT_PIN", stranger.CA.Pin()), "", said,
			"run", "--gateway", url, "--state", state, "--no-gpu", "--name", "n")
		after, err := identity.Read(state)
		if code != 0 || err != nil || after.Current.Certificate != before.Current.Certificate || !strings.Contains(stderr, g.CA.Pin()) ||
			!strings.Contains(stderr, "with a new token and --force") {
			t.Errorf("%s: exit %d, %v\n%s", test.name, code, err, stderr)
		}
		if shared && len(stranger.Requests(wire.PathRegister)) > 0 {
			t.Error("a stranger was asked with the pre-shared key")
		}
	}
}

// copyRoot makes another gateway serve what everybody can copy from a gateway: its root and its signed sets. A set of its own follows
// them.
func copyRoot(t *testing.T, g, stranger *gatewaytest.Gateway) {
	t.Helper()
	key := func(k ed25519.PrivateKey) string { return sign.EncodeKey(k.Public().(ed25519.PublicKey)) }
	both := g.CA.RootPEM() + stranger.CA.RootPEM()
	own := stranger.TrustSet(wire.TrustSet{Number: 2, IssuedAt: g.Now().UTC(), TrustDomain: gatewaytest.Domain, TrustKey: key(stranger.Trust),
		Roots: both, AnswerKeys: []string{key(stranger.Answer)}})
	stranger.Sets = []json.RawMessage{g.Node(t).Gateway.Trust, own}
	stranger.Welcome = func(w *wire.Welcome) { w.Roots = both }
}

// TestJoinWithAFormerPin: a container runs the same command at each start, and its pin names a root that the gateway has replaced since.
// join goes on with the identity, and starts the agent.
func TestJoinWithAFormerPin(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{true, false} {
		b := systemdBox(t)
		if !secure {
			b.url = gatewaytest.Listen(t, b.g, nil)
		}
		sleptThrough(t, b.g, 1)
		former, err := identity.Pinned(identity.Gateway{Trust: b.g.Sets[0]})
		if err != nil {
			t.Fatal(err)
		}
		pin := transport.PinsOf(former.Roots).String()
		b.joined()
		for _, args := range [][]string{{"--check"}, nil, {"--token", b.token}} {
			b.stopUnit()
			code, out, errs := b.join(append(args, "--root-pin", pin)...)
			if code != 0 || !strings.Contains(out, pin+" is a former one of this gateway") {
				t.Errorf("secure %t, %v: exit %d\n%s%s", secure, args, code, out, errs)
			}
		}
		b.online()
		if n := len(b.g.Requests(wire.PathRegister)); n != 1 {
			t.Errorf("%d registrations", n)
		}
		if code, out, _ := b.join("--root-pin", pin, "--force"); code != 1 || !strings.Contains(out, "old one") {
			t.Errorf("with --force, where it may name another gateway: exit %d\n%s", code, out)
		}
	}
}

// TestJoinKeepsNoPin: a pin counts for one enrolment only.
func TestJoinKeepsNoPin(t *testing.T) {
	t.Parallel()
	b := systemdBox(t)
	b.joined("--root-pin", b.g.CA.Pin())
	if got := b.read("etc/muster/agent.env"); strings.Contains(got, "PIN") {
		t.Errorf("settings %s", got)
	}
	if code, out, errs := b.join("--root-pin", b.g.CA.Pin()); code != 0 || !strings.HasPrefix(out, "already joined") {
		t.Errorf("again: exit %d\n%s%s", code, out, errs)
	}
}

// TestJoinWithSettingsOfAnOlderAgent: the settings hold the pin of a former root. The agent starts all the same, and the next join, as in
// an update, removes the pin.
func TestJoinWithSettingsOfAnOlderAgent(t *testing.T) {
	t.Parallel()
	b := systemdBox(t)
	b.joined()
	pin := otherPin(t)
	path := filepath.Join(b.root, "etc/muster/agent.env")
	before := b.read("etc/muster/agent.env")
	if err := os.WriteFile(path, []byte(before+"MUSTER_ROOT_PIN="+pin+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.stopUnit()
	if err := b.startUnit(); err != nil {
		t.Fatal(err)
	}
	b.online()
	for _, args := range [][]string{{"--check"}, nil, {"--root-pin", b.g.CA.Pin()}} {
		if code, out, errs := b.join(args...); code != 0 {
			t.Errorf("%v: exit %d\n%s%s", args, code, out, errs)
		}
	}
	if after := b.read("etc/muster/agent.env"); after != before {
		t.Errorf("settings\n%s", after)
	}
	b.online()
}

// TestJoinWithAnotherPin: join refuses a pin that fits no root that this machine knows or can follow to. The agent works on.
func TestJoinWithAnotherPin(t *testing.T) {
	t.Parallel()
	b := systemdBox(t)
	b.url = gatewaytest.Listen(t, b.g, nil) // plain HTTP: no certificate says it first
	b.joined()
	pin := otherPin(t)
	for _, args := range [][]string{{"--root-pin", pin}, {"--root-pin", pin, "--check"}, {"--root-pin", pin, "--token", b.token}} {
		code, out, errs := b.join(args...)
		if code != 1 || !strings.Contains(out, pin) || !strings.Contains(out, b.g.CA.Pin()) || !strings.Contains(out, "leave it out") ||
			!strings.Contains(out, "--force") {
			t.Errorf("%v: exit %d\n%s%s", args, code, out, errs)
		}
	}
	b.online()
}

// TestJoinAfterRotations: a person gives the pin of a root that this machine has not heard of yet.
func TestJoinAfterRotations(t *testing.T) {
	t.Parallel()
	b := systemdBox(t)
	b.joined()
	b.stopUnit()
	directory, err := identity.Open(b.base)
	if err != nil {
		t.Fatal(err)
	}
	state, err := directory.Load()
	if err != nil {
		t.Fatal(err)
	}
	sleptThrough(t, b.g, 2)(&state)
	if err := directory.Save(state); err != nil {
		t.Fatal(err)
	}
	directory.Close()
	if code, out, errs := b.join("--root-pin", b.g.CA.Pin()); code != 0 || !strings.Contains(out, "known here as gpu-1") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	if n := len(b.g.Requests(wire.PathRegister)); n != 1 {
		t.Errorf("%d registrations", n)
	}
}

// swap is an address at which one gateway answers first, and another one later.
type swap struct {
	now atomic.Pointer[gatewaytest.Gateway]
}

func (s *swap) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.now.Load().ServeHTTP(w, r) }

// TestJoinAGatewayThatWasSetUpAnew: the new gateway has the same address. join changes over only with --force and a token.
func TestJoinAGatewayThatWasSetUpAnew(t *testing.T) {
	t.Parallel()
	b := systemdBox(t)
	var address swap
	address.now.Store(b.g)
	b.url = gatewaytest.Listen(t, &address, nil)
	b.joined("--root-pin", b.g.CA.Pin())
	anew := gatewaytest.New(t)
	anew.Script = b.answer
	anew.Interval = 5
	anew.Welcome = func(w *wire.Welcome) { anew.Sets = []json.RawMessage{w.Trust} }
	sleptThrough(t, anew, 0)
	address.now.Store(anew)
	args := []string{"--token", anew.Token(t), "--root-pin", anew.CA.Pin()}
	if code, out, _ := b.join(args...); code != 1 || !strings.Contains(out, "with a new token and --force") {
		t.Errorf("without --force: exit %d\n%s", code, out)
	}
	code, out, errs := b.join(append(args[:2:2], "--force")...)
	if code != 0 || !strings.Contains(out, "enrolled as gpu-1") || !strings.Contains(out, "kept in ") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	if state, err := identity.Read(b.base); err != nil || state.Gateway.Roots != anew.CA.RootPEM() {
		t.Errorf("the roots are another gateway's, %v", err)
	}
	if code, out, errs := b.join("--force", "--token", b.token); code != 0 || !strings.Contains(out, "known here as gpu-1") {
		t.Errorf("--force at the gateway that it is enrolled with: exit %d\n%s%s", code, out, errs)
	}
}
