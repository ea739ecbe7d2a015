package identity_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"muster/agent/internal/identity"
	"muster/agent/internal/transport"
	"muster/agent/internal/transport/gatewaytest"
	"muster/agent/sign"
	"muster/agent/wire"
)

// fleet is a gateway's side of trust sets.
type fleet struct {
	t      testing.TB
	root   string
	trust  ed25519.PrivateKey
	answer ed25519.PrivateKey
}

func newKey(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newFleet(t testing.TB) *fleet {
	g := gatewaytest.New(t)
	return &fleet{t: t, root: g.CA.RootPEM(), trust: g.Trust, answer: g.Answer}
}

func public(key ed25519.PrivateKey) string { return sign.EncodeKey(key.Public().(ed25519.PublicKey)) }

// set is the trust set with this number. All its parts are good.
func (f *fleet) set(number int64) wire.TrustSet {
	return wire.TrustSet{
		Number: number, IssuedAt: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), TrustDomain: gatewaytest.Domain,
		TrustKey: public(f.trust),
		Roots:    f.root, AnswerKeys: []string{public(f.answer)}, TaskKeys: []string{}, ReleaseKeys: []string{},
	}
}

func (f *fleet) payload(set wire.TrustSet) []byte {
	f.t.Helper()
	payload, err := json.Marshal(set)
	if err != nil {
		f.t.Fatal(err)
	}
	return payload
}

func (f *fleet) seal(role sign.Role, key ed25519.PrivateKey, payload []byte) json.RawMessage {
	f.t.Helper()
	raw, err := json.Marshal(sign.Seal(key, role, payload))
	if err != nil {
		f.t.Fatal(err)
	}
	return raw
}

func (f *fleet) good(number int64) json.RawMessage {
	f.t.Helper()
	return f.seal(sign.RoleTrust, f.trust, f.payload(f.set(number)))
}

func (f *fleet) document(sets ...json.RawMessage) []byte {
	f.t.Helper()
	raw, err := json.Marshal(map[string]any{"sets": sets})
	if err != nil {
		f.t.Fatal(err)
	}
	return raw
}

// pinned is what a node knows after it has followed the sets to this one.
func (f *fleet) pinned(set json.RawMessage) identity.Gateway {
	return identity.Gateway{Roots: f.root, TrustKey: public(f.trust), Trust: set, AnswerKeys: []string{public(f.answer)}}
}

func TestFollow(t *testing.T) {
	f := newFleet(t)
	next := newKey(t)
	answer := newKey(t)
	root := gatewaytest.New(t).CA.RootPEM()
	second := f.set(2)
	second.TrustKey = public(next)
	second.AnswerKeys = []string{public(answer), public(f.answer)}
	second.Roots = f.root + root
	third := second
	third.Number = 3
	third.AnswerKeys = []string{public(answer)}
	third.Roots = root
	sets := []json.RawMessage{f.good(1), f.seal(sign.RoleTrust, f.trust, f.payload(second)), f.seal(sign.RoleTrust, next, f.payload(third))}
	for _, c := range []struct {
		name   string
		from   int
		upTo   int
		news   bool
		roots  string
		answer string
	}{
		{"nothing new", 1, 1, false, f.root, public(f.answer)},
		{"one", 1, 2, true, f.root + root, public(answer)},
		{"slept through two, the trust key changed between", 1, 3, true, root, public(answer)},
		{"from the middle", 2, 3, true, root, public(answer)},
	} {
		pinned := f.pinned(sets[c.from-1])
		got, news, err := identity.FollowTrust(pinned, f.document(sets[:c.upTo]...))
		if err != nil || news != c.news || got.Roots != c.roots || got.AnswerKeys[0] != c.answer || identity.TrustNumber(got) != int64(c.upTo) {
			t.Errorf("%s: number %d, news %t, %v", c.name, identity.TrustNumber(got), news, err)
		}
	}
}

// TestForgedSets: the node believes none of these, and what it has pinned stays as it is.
func TestForgedSets(t *testing.T) {
	f := newFleet(t)
	first := f.good(1)
	second := f.good(2)
	stranger := newKey(t)
	changed := func(change func(*wire.TrustSet)) json.RawMessage {
		set := f.set(3)
		change(&set)
		return f.seal(sign.RoleTrust, f.trust, f.payload(set))
	}
	text := string(f.payload(f.set(3)))
	raw := func(payload string) json.RawMessage { return f.seal(sign.RoleTrust, f.trust, []byte(payload)) }
	key := public(stranger)
	for name, document := range map[string][]byte{
		"a stranger's key":    f.document(first, second, f.seal(sign.RoleTrust, stranger, f.payload(f.set(3)))),
		"the answer key":      f.document(first, second, f.seal(sign.RoleTrust, f.answer, f.payload(f.set(3)))),
		"signed as a task":    f.document(first, second, f.seal(sign.RoleTask, f.trust, f.payload(f.set(3)))),
		"signed as a release": f.document(first, second, f.seal(sign.RoleRelease, f.trust, f.payload(f.set(3)))),
		"a task's signature renamed": f.document(first, second,
			json.RawMessage(strings.Replace(string(f.seal(sign.RoleTask, f.trust, f.payload(f.set(3)))), `"task"`, `"trust"`, 1))),
		"a lower number":              f.document(first, second, changed(func(s *wire.TrustSet) { s.Number = 1 })),
		"the same number":             f.document(first, second, changed(func(s *wire.TrustSet) { s.Number = 2 })),
		"a gap":                       f.document(first, second, changed(func(s *wire.TrustSet) { s.Number = 4 })),
		"a chain that ends before":    f.document(first),
		"no chain":                    f.document(),
		"another trust domain":        f.document(first, second, changed(func(s *wire.TrustSet) { s.TrustDomain = "other" })),
		"a bad one behind a good one": f.document(first, second, f.good(3), f.seal(sign.RoleTrust, stranger, f.payload(f.set(4)))),
		"a key twice":                 f.document(first, second, raw(strings.Replace(text, `{"number":3`, `{"number":9,"number":3`, 1))),
		"a key in other case": f.document(first, second,
			raw(strings.Replace(text, `"answer_keys"`, `"Answer_Keys":["`+key+`"],"answer_keys"`, 1))),
		"a key in other case alone": f.document(first, second, raw(strings.Replace(text, `"roots"`, `"Roots"`, 1))),
		"an unknown key":            f.document(first, second, raw(strings.Replace(text, `{"number"`, `{"extra":1,"number"`, 1))),
		"two documents":             f.document(first, second, raw(text+text)),
		"null":                      f.document(first, second, raw("null")),
		"an envelope with a key twice": f.document(first, second,
			json.RawMessage(strings.Replace(string(f.good(3)), `"role"`, `"role":"task","role"`, 1))),
		"an envelope of null": f.document(first, second, json.RawMessage("null")),
		"a changed payload": f.document(first, second,
			json.RawMessage(strings.Replace(string(f.good(3)), `"payload":"e`, `"payload":"f`, 1))),
		"no answer key":        f.document(first, second, changed(func(s *wire.TrustSet) { s.AnswerKeys = nil })),
		"an answer key of air": f.document(first, second, changed(func(s *wire.TrustSet) { s.AnswerKeys = []string{"x"} })),
		"a task key of air":    f.document(first, second, changed(func(s *wire.TrustSet) { s.TaskKeys = []string{"x"} })),
		"no trust key":         f.document(first, second, changed(func(s *wire.TrustSet) { s.TrustKey = "" })),
		"no root":              f.document(first, second, changed(func(s *wire.TrustSet) { s.Roots = "" })),
		"a root that is no CA": f.document(first, second,
			changed(func(s *wire.TrustSet) { s.Roots = gatewaytest.New(t).Node(t).Current.Certificate })),
		"not JSON":           []byte("<html>Just a moment...</html>"),
		"sets that are none": []byte(`{"sets":7}`),
	} {
		pinned := f.pinned(second)
		got, news, err := identity.FollowTrust(pinned, document)
		if !errors.Is(err, identity.ErrRefused) || news || !reflect.DeepEqual(got, pinned) {
			t.Errorf("%s: news %t, number %d, %v", name, news, identity.TrustNumber(got), err)
		}
	}
	for name, pinned := range map[string]json.RawMessage{"nothing": nil, "no envelope": []byte(`{}`),
		"no number": f.seal(sign.RoleTrust, f.trust, []byte(`{}`))} {
		if _, _, err := identity.FollowTrust(f.pinned(pinned), f.document(first, second)); !errors.Is(err, identity.ErrRefused) {
			t.Errorf("%s is pinned: %v", name, err)
		}
	}
}

// TestHolds: the gateway that issued a set is told from another one, whose sets may have the same numbers.
func TestHolds(t *testing.T) {
	f := newFleet(t)
	other := newFleet(t)
	first := f.good(1)
	second := f.good(2)
	var indented bytes.Buffer
	if err := json.Indent(&indented, first, "", "  "); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		pinned   json.RawMessage
		document []byte
		want     bool
	}{
		"the same":           {first, f.document(first), true},
		"written otherwise":  {indented.Bytes(), f.document(first, second), true},
		"older than pinned":  {second, f.document(first), false},
		"another gateway's":  {first, other.document(other.good(1)), false},
		"in another's place": {first, f.document(second, first), false},
		"nothing pinned":     {nil, f.document(first), false},
		"a page":             {first, []byte("<html>"), false},
		"sets that are none": {first, []byte(`{"sets":[7]}`), false},
	} {
		if got := identity.TrustHolds(f.pinned(c.pinned), c.document); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestContinues: the set of a new enrolment continues what is pinned, or it is another gateway's.
func TestContinues(t *testing.T) {
	f := newFleet(t)
	other := newFleet(t)
	first := f.good(1)
	second := f.good(2)
	third := f.good(3)
	chain := f.document(first, second, third)
	for name, c := range map[string]struct {
		set, document []byte
		want          bool
	}{
		"the pinned one, no document":       {second, nil, true},
		"a later one":                       {third, chain, true},
		"a later one that is not served":    {third, f.document(first, second), false},
		"a later one without a document":    {third, nil, false},
		"an older one":                      {first, chain, false},
		"a stranger's behind the real ones": {other.good(3), f.document(first, second, other.good(3)), false},
		"a stranger's in an own chain":      {other.good(2), other.document(other.good(1), other.good(2)), false},
		"a stranger's, and the real ones":   {other.good(3), chain, false},
		"no set":                            {[]byte("null"), chain, false},
		"nothing":                           {nil, chain, false},
	} {
		if got := identity.Continues(f.pinned(second), c.set, c.document); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if identity.Continues(identity.Gateway{}, nil, chain) || identity.Continues(identity.Gateway{}, first, chain) {
		t.Error("nothing is pinned, and something continues it")
	}
}

// TestRoots: former roots are named too, and entries that are not sets are skipped.
func TestRoots(t *testing.T) {
	f := newFleet(t)
	other := newFleet(t)
	got := identity.TrustRoots(f.document(f.good(1), json.RawMessage("7"), other.good(2)))
	if pins := transport.PinsOf(got); len(pins) != 2 || pins[0] != transport.PinsOf(f.root)[0] ||
		pins[1] != transport.PinsOf(other.root)[0] {
		t.Errorf("%v", pins)
	}
	if identity.TrustRoots([]byte("<html>")) != "" || identity.TrustRoots(nil) != "" {
		t.Error("a page has roots")
	}
}

func TestStale(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errors.New("connection refused"), false},
		{&transport.Unproven{What: "an HTML page"}, false},
		{&transport.Unproven{What: "JSON", Signed: true}, true},
		{transport.ErrUntrusted, true},
		{identity.ErrBadCertificate, true},
		{&transport.Refusal{ErrorDetail: wire.ErrorDetail{Code: wire.CodeRevoked}}, false},
	} {
		if got := identity.StaleTrust(c.err); got != c.want {
			t.Errorf("%v: %t", c.err, got)
		}
	}
}

func FuzzFollow(f *testing.F) {
	fleet := newFleet(f)
	first := fleet.good(1)
	for _, seed := range [][]byte{fleet.document(first), fleet.document(first, fleet.good(3)), []byte(`{"sets":[{"role":"trust"},null,7]}`),
		[]byte(`{}`), nil} {
		f.Add(seed)
	}
	pinned := fleet.pinned(first)
	f.Fuzz(func(t *testing.T, document []byte) {
		next, news, err := identity.FollowTrust(pinned, document)
		if news || identity.TrustNumber(next) != 1 || next.Roots != pinned.Roots {
			t.Errorf("a set that nobody signed was taken: %v", err)
		}
		identity.TrustHolds(pinned, document)
		transport.PinsOf(identity.TrustRoots(document))
		if identity.Continues(pinned, document, document) {
			t.Error("what nobody signed leads on from a set")
		}
	})
}
