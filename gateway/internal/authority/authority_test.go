package authority_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/internal/authority"
)

const year = 365 * 24 * time.Hour

// face is everything that a CA shows, for comparing two.
type face struct {
	domain, pin, root, answer, serving string
	trust                              []byte
	sets                               []sign.Envelope
}

func faceOf(t testing.TB, a *authority.Authority) face {
	t.Helper()
	serving, err := authority.NewServing(context.Background(), a, nil)
	if err != nil {
		t.Error(err)
		return face{}
	}
	return face{a.TrustDomain(), a.RootPin(), a.RootPEM(), string(a.AnswerKey().Seed()), serving.PinnedPublicKey(), a.TrustKey(),
		a.TrustSets()}
}

func TestFirstStart(t *testing.T) {
	a := open(t, newStore(t), newClock().Now)
	if domain := a.TrustDomain(); len(domain) != len("muster-")+8 || !strings.HasPrefix(domain, "muster-") {
		t.Errorf("got trust domain %q", domain)
	}
	if got, want := a.NodeURI("n1"), "spiffe://"+a.TrustDomain()+"/node/n1"; got != want {
		t.Errorf("got node URI %s, want %s", got, want)
	}
	roots := a.Roots()
	if len(roots) != 1 {
		t.Fatalf("got %d roots", len(roots))
	}
	block, rest := pem.Decode([]byte(a.RootPEM()))
	if block == nil || len(rest) != 0 || !bytes.Equal(block.Bytes, roots[0].Raw) {
		t.Errorf("RootPEM is not the root")
	}
	sum := sha256.Sum256(roots[0].RawSubjectPublicKeyInfo)
	if got, want := a.RootPin(), "sha256:"+hex.EncodeToString(sum[:]); got != want {
		t.Errorf("got pin %s, want %s", got, want)
	}
	_, tail := pem.Decode([]byte(issue(t, a, 0).Chain))
	block, _ = pem.Decode(tail)
	intermediate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	checkLevel(t, a, roots[0], 1, 20*year)
	checkLevel(t, a, intermediate, 0, 5*year)
	if roots[0].Subject.String() == intermediate.Subject.String() || bytes.Equal(roots[0].SubjectKeyId, intermediate.SubjectKeyId) {
		t.Errorf("root and intermediate have one name or one key id")
	}
}

func checkLevel(t *testing.T, a *authority.Authority, c *x509.Certificate, pathLen int, life time.Duration) {
	t.Helper()
	if !c.IsCA || !c.BasicConstraintsValid || c.MaxPathLen != pathLen || c.MaxPathLenZero != (pathLen == 0) {
		t.Errorf("%s: CA %v, path length %d", c.Subject, c.IsCA, c.MaxPathLen)
	}
	for _, e := range c.Extensions {
		if name := e.Id.String(); (name == "2.5.29.19" || name == "2.5.29.15") && !e.Critical {
			t.Errorf("%s: %s is not critical", c.Subject, name)
		}
	}
	if c.KeyUsage != x509.KeyUsageCertSign|x509.KeyUsageCRLSign || c.ExtKeyUsage != nil {
		t.Errorf("%s: key usage %v, extended %v", c.Subject, c.KeyUsage, c.ExtKeyUsage)
	}
	if len(c.URIs) != 1 || c.URIs[0].String() != "spiffe://"+a.TrustDomain() || !strings.Contains(c.Subject.String(), a.TrustDomain()) {
		t.Errorf("%s: names %v", c.Subject, c.URIs)
	}
	if !c.NotBefore.Before(start.Add(-time.Hour)) || !c.NotAfter.Equal(start.Add(life)) {
		t.Errorf("%s: good from %v to %v", c.Subject, c.NotBefore, c.NotAfter)
	}
}

func TestOpenAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "muster.db")
	s := openStore(t, path)
	first := faceOf(t, open(t, s, newClock().Now))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	later := newClock()
	later.Set(start.Add(year))
	a := open(t, openStore(t, path), later.Now)
	if got := faceOf(t, a); !reflect.DeepEqual(got, first) {
		t.Errorf("got another CA after reopening:\n%v\n%v", got, first)
	}
}

func TestOpenRace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "muster.db")
	faces := make([]face, 8)
	var wait sync.WaitGroup
	one := openStore(t, path)
	other := openStore(t, path)
	for i := range faces {
		wait.Go(func() {
			s := one
			if i%2 == 1 {
				s = other
			}
			a, err := authority.Open(context.Background(), authority.Config{Store: s, Now: newClock().Now})
			if err != nil {
				t.Error(err)
				return
			}
			faces[i] = faceOf(t, a)
		})
	}
	wait.Wait()
	for i := range faces {
		if !reflect.DeepEqual(faces[i], faces[0]) {
			t.Errorf("open %d ended with another CA than open 0", i)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	ctx := t.Context()
	broken := errors.New("no randomness")
	cases := map[string]struct {
		change func(*authority.Config)
		want   []string
	}{
		"short lifetime":    {func(c *authority.Config) { c.CertTTL = time.Second }, []string{"certificate lifetime 1s"}},
		"long lifetime":     {func(c *authority.Config) { c.CertTTL = 31 * 24 * time.Hour }, []string{"certificate lifetime 744h"}},
		"upper case domain": {func(c *authority.Config) { c.TrustDomain = "Muster" }, []string{`trust domain "Muster"`}},
		"dash at the end":   {func(c *authority.Config) { c.TrustDomain = "muster-" }, []string{`trust domain "muster-"`}},
		"long domain":       {func(c *authority.Config) { c.TrustDomain = strings.Repeat("a", 64) }, []string{"trust domain"}},
		"no randomness":     {func(c *authority.Config) { c.Rand = failing{broken} }, []string{"no randomness"}},
		"no random serial": {func(c *authority.Config) { c.TrustDomain = "a.example"; c.Rand = failing{broken} },
			[]string{"serial", "no randomness"}},
		"a closed store": {func(c *authority.Config) { _ = c.Store.Close() }, []string{"trust domain"}},
		"root of another gateway": {func(c *authority.Config) { _ = c.Store.SetSecret(ctx, "ca/root", otherSecret(t, "ca/root")) },
			[]string{"secret ca/root is not the root that trust set 1 names"}},
		"root of no form": {func(c *authority.Config) { _ = c.Store.SetSecret(ctx, "ca/root", []byte("x")) },
			[]string{"secret ca/root", "key and a certificate"}},
		"root without a key": {func(c *authority.Config) {
			_ = c.Store.SetSecret(ctx, "ca/root", bytes.ReplaceAll(otherSecret(t, "ca/root"), []byte("MI"), []byte("NI")))
		}, []string{"secret ca/root", "not a P-256 key"}},
		"key of another": {func(c *authority.Config) {
			root := otherSecret(t, "ca/root")
			intermediate := otherSecret(t, "ca/intermediate")
			_, certificate := pem.Decode(intermediate)
			key, _ := pem.Decode(root)
			_ = c.Store.SetSecret(ctx, "ca/root", append(pem.EncodeToMemory(key), certificate...))
		}, []string{"secret ca/root", "do not belong together"}},
		"certificate of no form": {func(c *authority.Config) {
			key, _ := pem.Decode(otherSecret(t, "ca/root"))
			_ = c.Store.SetSecret(ctx, "ca/root", append(pem.EncodeToMemory(key),
				pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})...))
		}, []string{"secret ca/root", "its certificate"}},
		"trust key of no form": {func(c *authority.Config) { _ = c.Store.SetSecret(ctx, "key/trust", []byte("x")) },
			[]string{"secret key/trust is not an Ed25519 key"}},
		"another trust key": {func(c *authority.Config) { _ = c.Store.SetSecret(ctx, "key/trust", otherSecret(t, "key/trust")) },
			[]string{"recorded trust set 1", "proof does not fit"}},
		"a set of no form": {func(c *authority.Config) { _ = c.Store.SetMeta(ctx, "trust/1", "{") }, []string{"recorded trust set 1"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			config := authority.Config{Store: s, Now: newClock().Now}
			if !strings.HasPrefix(name, "no random") {
				open(t, s, newClock().Now)
			}
			c.change(&config)
			_, err := authority.Open(ctx, config)
			wantError(t, err, c.want...)
		})
	}
}

// otherSecret is a secret of another gateway.
func otherSecret(t *testing.T, name string) []byte {
	t.Helper()
	s := newStore(t)
	open(t, s, newClock().Now)
	value, err := s.Secret(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

var _ io.Reader = failing{}

func TestTrustDomain(t *testing.T) {
	s := newStore(t)
	config := authority.Config{Store: s, TrustDomain: "fleet.example", Now: newClock().Now}
	for range 2 {
		a, err := authority.Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		if got := a.NodeURI("n1"); got != "spiffe://fleet.example/node/n1" {
			t.Errorf("got %s", got)
		}
	}
	config.TrustDomain = "other.example"
	_, err := authority.Open(t.Context(), config)
	wantError(t, err, "other.example", "fleet.example", "leave the setting out")
	if got := open(t, s, newClock().Now).TrustDomain(); got != "fleet.example" {
		t.Errorf("got %s", got)
	}
}

func TestClock(t *testing.T) {
	s := newStore(t)
	c := newClock()
	a := open(t, s, c.Now)
	for _, at := range []time.Time{start.Add(-48 * time.Hour), start.Add(21 * year)} {
		c.Set(at)
		_, err := authority.Open(t.Context(), authority.Config{Store: s, Now: c.Now})
		if !errors.Is(err, authority.ErrClock) {
			t.Errorf("open at %v: got %v", at, err)
		}
		_, err = a.Issue(t.Context(), authority.Request{NodeID: "n1", CSR: newCSR(t, x509.CertificateRequest{})})
		if !errors.Is(err, authority.ErrClock) {
			t.Errorf("issue at %v: got %v", at, err)
		}
		if _, err = authority.NewServing(t.Context(), a, nil); !errors.Is(err, authority.ErrClock) {
			t.Errorf("serving at %v: got %v", at, err)
		}
	}
}

func TestIntermediateIsReplaced(t *testing.T) {
	cases := map[string]struct {
		made, opened time.Time
		replaced     bool
	}{
		"in its life":                  {start, start.Add(3 * year), false},
		"in its last year":             {start, start.Add(4*year + time.Hour), true},
		"over":                         {start, start.Add(6 * year), true},
		"made under a clock ahead":     {start.Add(5 * year), start, true},
		"in its last year, as is root": {start.Add(16 * year), start.Add(19*year + time.Hour), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			now := newClock()
			a := open(t, s, now.Now)
			now.Set(c.made)
			open(t, s, now.Now) // from the last year of the first intermediate on, this makes a second
			before, err := s.Secret(t.Context(), "ca/intermediate")
			if err != nil {
				t.Fatal(err)
			}
			now.Set(c.opened)
			b := open(t, s, now.Now)
			after, err := s.Secret(t.Context(), "ca/intermediate")
			if err != nil {
				t.Fatal(err)
			}
			if got := !bytes.Equal(before, after); got != c.replaced {
				t.Errorf("got replaced %v, want %v", got, c.replaced)
			}
			if err := verify(t, issue(t, b, 0).Chain, a.RootPEM(), x509.VerifyOptions{CurrentTime: c.opened, KeyUsages: clientAuth()}); err != nil {
				t.Errorf("issued afterwards: %v", err)
			}
		})
	}
}

func clientAuth() []x509.ExtKeyUsage { return []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }

func TestTrustSets(t *testing.T) {
	s := newStore(t)
	a := open(t, s, newClock().Now)
	sets := a.TrustSets()
	if len(sets) != 1 {
		t.Fatalf("got %d sets", len(sets))
	}
	payload, err := sets[0].Open(a.TrustKey(), sign.RoleTrust)
	if err != nil {
		t.Fatal(err)
	}
	var set wire.TrustSet
	if err := sign.DecodeStrict(payload, &set); err != nil {
		t.Fatal(err)
	}
	if set.Number != 1 || !set.IssuedAt.Equal(start) || set.TrustDomain != a.TrustDomain() || set.Roots != a.RootPEM() ||
		set.TrustKey != sign.EncodeKey(a.TrustKey()) || len(set.AnswerKeys) != 1 || len(set.TaskKeys) != 1 || len(set.ReleaseKeys) != 1 {
		t.Errorf("got %+v", set)
	}
	keys := map[string]bool{set.TrustKey: true, set.AnswerKeys[0]: true, set.TaskKeys[0]: true, set.ReleaseKeys[0]: true}
	if len(keys) != 4 {
		t.Errorf("one key has two roles: %v", keys)
	}
	answer, err := sign.DecodeKey(set.AnswerKeys[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := sign.VerifyAnswer(sign.SignAnswer(a.AnswerKey(), "n", 200, nil), answer, "n", 200, nil); err != nil {
		t.Errorf("the answer key does not sign as the set says: %v", err)
	}
	sets[0] = sign.Envelope{}
	if a.TrustSets()[0].Role != sign.RoleTrust {
		t.Errorf("a caller can change the sets")
	}
}

// TestTrustSetChain adds a second set that changes the trust key, and wants the third to be signed by the new one.
func TestTrustSetChain(t *testing.T) {
	s := newStore(t)
	other := open(t, newStore(t), newClock().Now)
	a := open(t, s, newClock().Now)
	own, err := s.Secret(t.Context(), "key/trust")
	if err != nil {
		t.Fatal(err)
	}
	first := parseEd25519(t, own)
	next := other.AnswerKey()
	set := func(number int64, domain string) []byte {
		payload, err := json.Marshal(wire.TrustSet{Number: number, TrustDomain: domain,
			TrustKey: sign.EncodeKey(next.Public().(ed25519.PublicKey)),
			Roots:    a.RootPEM(), AnswerKeys: []string{sign.EncodeKey(a.AnswerKey().Public().(ed25519.PublicKey))}})
		if err != nil {
			t.Fatal(err)
		}
		return payload
	}
	record := func(key string, e sign.Envelope) {
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.SetMeta(t.Context(), key, string(text)); err != nil {
			t.Fatal(err)
		}
	}
	second := sign.Seal(first, sign.RoleTrust, set(2, a.TrustDomain()))
	record("trust/2", second)
	record("trust/3", sign.Seal(next, sign.RoleTrust, set(3, a.TrustDomain())))
	got := open(t, s, newClock().Now).TrustSets()
	if len(got) != 3 || !reflect.DeepEqual(got[0], a.TrustSets()[0]) || !reflect.DeepEqual(got[1], second) {
		t.Errorf("got %d sets, or others than were recorded", len(got))
	}
	for name, e := range map[string]sign.Envelope{
		"the former key":  sign.Seal(first, sign.RoleTrust, set(3, a.TrustDomain())),
		"another role":    sign.Seal(next, sign.RoleTask, set(3, a.TrustDomain())),
		"another number":  sign.Seal(next, sign.RoleTrust, set(2, a.TrustDomain())),
		"another domain":  sign.Seal(next, sign.RoleTrust, set(3, "x.example")),
		"another payload": sign.Seal(next, sign.RoleTrust, []byte(`{"unknown":1}`)),
	} {
		record("trust/3", e)
		if _, err := authority.Open(t.Context(), authority.Config{Store: s}); err == nil ||
			!strings.Contains(err.Error(), "recorded trust set 3") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func parseEd25519(t *testing.T, value []byte) ed25519.PrivateKey {
	t.Helper()
	key, err := x509.ParsePKCS8PrivateKey(value)
	if err != nil {
		t.Fatal(err)
	}
	return key.(ed25519.PrivateKey)
}
