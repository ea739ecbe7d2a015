package authority_test

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api/trust"
	"muster/gateway/internal/authority"
	"muster/store"
)

var operator = store.Actor{Name: "operator:socket", Address: "socket"}

func newest(t *testing.T, a *authority.Authority) wire.TrustSet {
	t.Helper()
	sets := a.TrustSets()
	payload, err := sets[len(sets)-1].Open(a.TrustKey(), sign.RoleTrust)
	if err != nil {
		t.Fatal(err)
	}
	var set wire.TrustSet
	if err := sign.DecodeStrict(payload, &set); err != nil {
		t.Fatal(err)
	}
	return set
}

func answering(a *authority.Authority) string {
	return sign.EncodeKey(a.AnswerKey().Public().(ed25519.PublicKey))
}

func published(t *testing.T) func(trust.TrustChange, error) trust.TrustChange {
	return func(c trust.TrustChange, err error) trust.TrustChange {
		t.Helper()
		if err != nil || !c.Published {
			t.Fatalf("got %+v, %v", c, err)
		}
		return c
	}
}

// TestAnswerKeySettles: a new answer key signs after nodes have had time to hear of it, or at once if the earlier one has leaked. A
// restart changes nothing about that.
func TestAnswerKeySettles(t *testing.T) {
	s := newStore(t)
	now := newClock()
	a := open(t, s, now.Now)
	first := answering(a)
	published(t)(a.RotateKey(t.Context(), "answer", false, operator))
	second := newest(t, a).AnswerKeys[0]
	check := func(what, want string) {
		t.Helper()
		if got := answering(a); got != want {
			t.Errorf("%s: another key signs", what)
		}
		if got := answering(open(t, s, now.Now)); got != want {
			t.Errorf("%s, after a restart: another key signs", what)
		}
	}
	check("before it has settled", first)
	now.Set(start.Add(authority.Settling - time.Second))
	check("a second before", first)
	now.Set(start.Add(authority.Settling))
	check("when it has settled", second)
	published(t)(a.RotateKey(t.Context(), "answer", false, operator))
	if keys := newest(t, a).AnswerKeys; len(keys) != 2 || keys[1] != second {
		t.Errorf("the set names %d keys", len(keys))
	}
	published(t)(a.RotateKey(t.Context(), "answer", true, operator))
	last := newest(t, a).AnswerKeys
	if len(last) != 1 {
		t.Errorf("a leaked key is still believed: %d keys", len(last))
	}
	check("at once", last[0])
}

func TestVerifierKeys(t *testing.T) {
	s := newStore(t)
	a := open(t, s, newClock().Now)
	before := newest(t, a)
	published(t)(a.RotateKey(t.Context(), "task", false, operator))
	published(t)(a.RotateKey(t.Context(), "release", true, operator))
	set := newest(t, a)
	if set.Number != 3 || len(set.TaskKeys) != 2 || set.TaskKeys[1] != before.TaskKeys[0] || len(set.ReleaseKeys) != 1 ||
		set.ReleaseKeys[0] == before.ReleaseKeys[0] {
		t.Errorf("set: %+v", set)
	}
	old, err := sign.DecodeKey(before.TaskKeys[0])
	if err != nil {
		t.Fatal(err)
	}
	published(t)(a.DropKey(t.Context(), sign.KeyID(old), operator))
	if set := newest(t, a); len(set.TaskKeys) != 1 || set.TaskKeys[0] == before.TaskKeys[0] {
		t.Errorf("set: %+v", set)
	}
	published(t)(a.RotateKey(t.Context(), "trust", false, operator))
	published(t)(a.RotateKey(t.Context(), "task", false, operator)) // signed by the new one
	if got := open(t, s, newClock().Now); got.TrustNumber() != 6 || sign.EncodeKey(got.TrustKey()) == before.TrustKey {
		t.Errorf("after a restart: set %d", got.TrustNumber())
	}
	overview, err := a.Overview(t.Context())
	if err != nil || len(overview.Keys) != 5 || overview.TrustNumber != 6 || !overview.Roots[0].Online || !overview.Roots[0].Signing {
		t.Errorf("overview: %+v, %v", overview, err)
	}
	for _, key := range overview.Keys {
		if !key.Online {
			t.Errorf("key %+v", key)
		}
	}
}

func TestChangesRefused(t *testing.T) {
	s := newStore(t)
	a := open(t, s, newClock().Now)
	only, err := sign.DecodeKey(newest(t, a).AnswerKeys[0])
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	root := func(change func(domain string) string) string {
		certificate, err := authority.NewRootDir(t.TempDir(), change(a.TrustDomain()), newClock().Now)
		if err != nil {
			t.Fatal(err)
		}
		return certificate
	}
	request := func() string {
		t.Helper()
		text, err := a.RequestIntermediate(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for name, c := range map[string]struct {
		run  func() error
		want string
	}{
		"a role that is none": {func() error { _, err := a.RotateKey(ctx, "serving", false, operator); return err }, "no role"},
		"the only answer key": {func() error { _, err := a.DropKey(ctx, sign.KeyID(only), operator); return err }, "the only answer key"},
		"an unknown key":      {func() error { _, err := a.DropKey(ctx, "0123456789abcdef", operator); return err }, "no key"},
		"the only root":       {func() error { _, err := a.DropRoot(ctx, a.RootPin(), operator); return err }, "this root alone"},
		"an unknown root":     {func() error { _, err := a.DropRoot(ctx, "sha256:00000000", operator); return err }, "names no root"},
		"too few digits":      {func() error { _, err := a.DropRoot(ctx, a.RootPin()[:12], operator); return err }, "names no root"},
		"the root there is":   {func() error { _, err := a.AddRoot(ctx, a.RootPEM(), operator); return err }, "trusted already"},
		"a leaf as root":      {func() error { _, err := a.AddRoot(ctx, firstBlock(issue(t, a, 0).Chain), operator); return err }, "self-signed"},
		"another domain's root": {func() error {
			_, err := a.AddRoot(ctx, root(func(string) string { return "x.example" }), operator)
			return err
		}, "not of the trust domain"},
		"no PEM": {func() error { _, err := a.AddRoot(ctx, "x", operator); return err }, "the new root"},
		"a root with its key": {func() error {
			_, err := a.AddRoot(ctx, string(otherSecret(t, "ca/root")), operator)
			return err
		}, "with its key"},
		"no intermediate waits": {func() error {
			return open(t, newStore(t), newClock().Now).InstallIntermediate(ctx, a.RootPEM(), operator)
		}, "no intermediate waits"},
		"an intermediate of another key": {func() error {
			request()
			return a.InstallIntermediate(ctx, a.RootPEM(), operator)
		}, "another key"},
		"an intermediate of a strange root": {func() error {
			dir := t.TempDir()
			if _, err := authority.NewRootDir(dir, a.TrustDomain(), newClock().Now); err != nil {
				t.Fatal(err)
			}
			signed, err := authority.SignIntermediate(dir, request(), a.TrustDomain(), newClock().Now)
			if err != nil {
				t.Fatal(err)
			}
			return a.InstallIntermediate(ctx, signed, operator)
		}, "none of the roots"},
		"no certificate": {func() error { request(); return a.InstallIntermediate(ctx, "x", operator) }, "no root"},
	} {
		before := a.TrustNumber()
		err := c.run()
		var refusal *wire.ErrorDetail
		if !errors.As(err, &refusal) || !strings.Contains(refusal.Message, c.want) || refusal.Hint == "" {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if a.TrustNumber() != before {
			t.Errorf("%s: set %d was published", name, a.TrustNumber())
		}
	}
	if _, err := open(t, s, newClock().Now).Overview(ctx); err != nil {
		t.Error(err)
	}
}

func firstBlock(chain string) string {
	const end = "-----END CERTIFICATE-----\n"
	return chain[:strings.Index(chain, end)+len(end)]
}

// TestRootRotation: while two roots are trusted, what is issued verifies by either; afterwards by the new one alone, and the
// old one's key is gone.
func TestRootRotation(t *testing.T) {
	s := newStore(t)
	now := newClock()
	a := open(t, s, now.Now)
	old := a.RootPEM()
	serving, err := authority.NewServing(t.Context(), a, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := x509.VerifyOptions{CurrentTime: start, KeyUsages: clientAuth()}
	published(t)(a.AddRoot(t.Context(), "", operator))
	next := strings.TrimPrefix(a.RootPEM(), old)
	if chain := issue(t, a, 0).Chain; verify(t, chain, old, at) != nil || verify(t, chain, next, at) == nil {
		t.Error("the new root signs before there is an intermediate under it")
	}
	oldPin := a.RootPin()
	if err := a.NewIntermediate(t.Context(), operator); err != nil {
		t.Fatal(err)
	}
	for name, root := range map[string]string{"old": old, "new": next, "both": a.RootPEM()} {
		if err := verify(t, issue(t, a, 0).Chain, root, at); err != nil {
			t.Errorf("by the %s: %v", name, err)
		}
	}
	if shown, _ := serving.GetCertificate(nil); len(shown.Certificate) != 3 {
		t.Errorf("the gateway shows %d certificates", len(shown.Certificate))
	}
	if a.RootPin() == oldPin {
		t.Error("the pin handed out is the old root's")
	}
	published(t)(a.DropRoot(t.Context(), oldPin, operator))
	for _, b := range []*authority.Authority{a, open(t, s, now.Now)} {
		if chain := issue(t, b, 0).Chain; verify(t, chain, next, at) != nil || verify(t, chain, old, at) == nil ||
			strings.Count(chain, "BEGIN") != 2 {
			t.Error("after the old root was dropped, something is still issued under it")
		}
		if b.RootPEM() != next || len(b.Roots()) != 1 {
			t.Error("the old root is still handed out")
		}
	}
	if value, err := s.Secret(t.Context(), "ca/root"); err != nil || strings.Contains(string(value), "PRIVATE") {
		t.Errorf("the old root's key is still there: %v", err)
	}
}

// TestWornWithoutRoot: an intermediate in its last year under a root that is kept elsewhere is a warning, no failure; once it has
// ended, the error says what to do.
func TestWornWithoutRoot(t *testing.T) {
	s := newStore(t)
	now := newClock()
	dir := t.TempDir()
	if err := open(t, s, now.Now).ExportRoot(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	var log recorder
	now.Set(start.Add(4*year + time.Hour))
	a, err := authority.Open(t.Context(), authority.Config{Store: s, Now: now.Now, Logger: log.logger()})
	if err != nil || log.count("muster ca intermediate --root DIR") != 1 {
		t.Fatalf("%v, warned %d times", err, log.count("muster ca intermediate"))
	}
	if err := a.NewIntermediate(t.Context(), operator); !errors.Is(err, authority.ErrOffline) {
		t.Errorf("got %v", err)
	}
	now.Set(start.Add(6 * year))
	_, err = a.Issue(t.Context(), authority.Request{NodeID: "n1", CSR: newCSR(t, x509.CertificateRequest{})})
	if !errors.Is(err, authority.ErrClock) || !strings.Contains(err.Error(), "muster ca intermediate") {
		t.Errorf("got %v", err)
	}
	request, err := a.RequestIntermediate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	signed, err := authority.SignIntermediate(dir, request, a.TrustDomain(), now.Now)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.InstallIntermediate(t.Context(), signed, operator); err != nil {
		t.Fatal(err)
	}
	if err := verify(t, issue(t, a, 0).Chain, a.RootPEM(), x509.VerifyOptions{CurrentTime: now.Now(), KeyUsages: clientAuth()}); err != nil {
		t.Error(err)
	}
}

// TestRootDirRefuses: files that are there are never replaced, and what is not a root is named.
func TestRootDirRefuses(t *testing.T) {
	dir := t.TempDir()
	if _, err := authority.NewRootDir(dir, "a.example", nil); err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(filepath.Join(dir, authority.RootKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	_, err = authority.NewRootDir(dir, "a.example", nil)
	wantError(t, err, "is there already", "another directory")
	if again, err := os.ReadFile(filepath.Join(dir, authority.RootKeyFile)); err != nil || string(again) != string(key) {
		t.Error("the key was replaced")
	}
	_, err = authority.NewRootDir(t.TempDir(), "A B", nil)
	wantError(t, err, "trust domain")
	a := open(t, newStore(t), newClock().Now)
	request, err := a.RequestIntermediate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = authority.SignIntermediate(dir, request, "b.example", nil)
	wantError(t, err, "not of this gateway's trust domain")
	_, err = authority.SignIntermediate(dir, "x", "a.example", nil)
	wantError(t, err, "request for an intermediate")
	if err := os.WriteFile(filepath.Join(dir, authority.RootKeyFile), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = authority.SignIntermediate(dir, request, "a.example", nil)
	wantError(t, err, "does not hold a root")
	if strings.Contains(err.Error(), string(key)) {
		t.Error("the key stands in the error")
	}
}

// TestPublish: a set that was signed elsewhere is accepted only if it is the next one, with the right key and the right role.
func TestPublish(t *testing.T) {
	s := newStore(t)
	now := newClock()
	a := open(t, s, now.Now)
	file := filepath.Join(t.TempDir(), "trust.key")
	if err := a.ExportTrustKey(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
	if value, err := s.Secret(t.Context(), "key/trust"); err != nil || len(value) > 64 {
		t.Errorf("the private key is still there: %d bytes, %v", len(value), err)
	}
	key, err := authority.ReadTrustKey(file)
	if err != nil {
		t.Fatal(err)
	}
	a = open(t, s, now.Now)
	draft, err := a.RotateKey(t.Context(), "answer", true, operator)
	if err != nil || draft.Published || a.TrustNumber() != 1 {
		t.Fatalf("got %+v, %v", draft, err)
	}
	_, err = a.RotateKey(t.Context(), "trust", false, operator)
	wantError(t, err, "kept elsewhere")
	if err := a.Repeat(t.Context(), 1, nil, operator); !errors.Is(err, authority.ErrTrustKey) {
		t.Errorf("repeat: %v", err)
	}
	var set wire.TrustSet
	if err := sign.DecodeStrict(draft.Draft, &set); err != nil {
		t.Fatal(err)
	}
	seal := func(role sign.Role, key ed25519.PrivateKey, change func(*wire.TrustSet)) sign.Envelope {
		changed := set
		changed.AnswerKeys = slices.Clone(set.AnswerKeys)
		changed.TaskKeys = slices.Clone(set.TaskKeys)
		change(&changed)
		payload, err := json.Marshal(changed)
		if err != nil {
			t.Fatal(err)
		}
		return sign.Seal(key, role, payload)
	}
	none := func(*wire.TrustSet) {}
	for name, e := range map[string]sign.Envelope{
		"another key":       seal(sign.RoleTrust, a.AnswerKey(), none),
		"another role":      seal(sign.RoleTask, key, none),
		"a gap":             seal(sign.RoleTrust, key, func(s *wire.TrustSet) { s.Number = 3 }),
		"a lower number":    seal(sign.RoleTrust, key, func(s *wire.TrustSet) { s.Number = 1 }),
		"another domain":    seal(sign.RoleTrust, key, func(s *wire.TrustSet) { s.TrustDomain = "x" }),
		"no root":           seal(sign.RoleTrust, key, func(s *wire.TrustSet) { s.Roots = "" }),
		"a root of another": seal(sign.RoleTrust, key, func(s *wire.TrustSet) { s.Roots = open(t, newStore(t), now.Now).RootPEM() }),
		"an answer key not here": seal(sign.RoleTrust, key,
			func(s *wire.TrustSet) { s.AnswerKeys = []string{sign.EncodeKey(key.Public().(ed25519.PublicKey))} }),
		"one key in two roles": seal(sign.RoleTrust, key, func(s *wire.TrustSet) { s.TaskKeys = s.AnswerKeys }),
		"a key of air":         seal(sign.RoleTrust, key, func(s *wire.TrustSet) { s.TaskKeys = []string{"x"} }),
		"an unknown field":     sign.Seal(key, sign.RoleTrust, []byte(`{"extra":1}`)),
	} {
		if _, err := a.Publish(t.Context(), e, operator); err == nil || a.TrustNumber() != 1 {
			t.Errorf("%s: got %v, set %d", name, err, a.TrustNumber())
		}
	}
	good := seal(sign.RoleTrust, key, none)
	if number, err := a.Publish(t.Context(), good, operator); err != nil || number != 2 {
		t.Fatalf("set %d, %v", number, err)
	}
	if _, err := a.Publish(t.Context(), good, operator); err == nil {
		t.Error("the same set twice")
	}
	if err := a.Repeat(t.Context(), 3, key, operator); err != nil || a.TrustNumber() != 5 {
		t.Errorf("repeat: set %d, %v", a.TrustNumber(), err)
	}
	if err := a.ImportTrustKey(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	published(t)(open(t, s, now.Now).RotateKey(t.Context(), "task", false, operator))
	other := filepath.Join(t.TempDir(), "other.key")
	if err := open(t, newStore(t), now.Now).ExportTrustKey(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	wantError(t, a.ImportTrustKey(t.Context(), other), "the next set is signed with")
}
