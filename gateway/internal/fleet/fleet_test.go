package fleet_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/authority"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/kit"
	"muster/gateway/internal/view"
	"muster/gateway/internal/view/reading"
	"muster/store"
)

// start is the first reading of every test's clock.
var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

const (
	grace   = 72 * time.Hour
	pace    = 30 * time.Second
	address = "198.51.100.7"
)

var operator = store.Actor{Name: "operator:socket", Address: "socket"}

// world is a fleet on a database of its own, with the CA that its nodes' certificates come from.
type world struct {
	t     testing.TB
	clock *kit.Clock
	store *store.Store
	ca    *authority.Authority
	*fleet.Fleet

	handed []view.Sample // that the fleet has handed on
}

func newFleet(t testing.TB) *world {
	t.Helper()
	f := &world{t: t, clock: kit.NewClock(start)}
	var err error
	f.store = kit.Store(t, f.clock.Now)
	f.ca, err = authority.Open(t.Context(), authority.Config{Store: f.store, Now: f.clock.Now, TrustDomain: "test"})
	if err != nil {
		t.Fatal(err)
	}
	f.restart()
	return f
}

// restart opens another fleet on the same database, as a gateway that starts again does.
func (f *world) restart() {
	f.t.Helper()
	r, err := fleet.Open(f.t.Context(), fleet.Config{Store: f.store, Now: f.clock.Now, RenewGrace: grace, Written: f.took})
	if err != nil {
		f.t.Fatal(err)
	}
	f.Fleet = r
}

// took collects what the fleet has written.
func (f *world) took(samples []view.Sample) { f.handed = append(f.handed, samples...) }

// token stores an enrollment token for tenant platform, one use and one hour unless change says otherwise.
func (f *world) token(id string, change func(*store.Token)) store.Token {
	f.t.Helper()
	token := store.Token{
		ID: id, Tenant: "platform", Uses: 1, Key: bytes.Repeat([]byte{1}, 32), CreatedBy: "operator:socket",
		CreatedAt: f.clock.Now(), ExpiresAt: f.clock.Now().Add(time.Hour),
	}
	if change != nil {
		change(&token)
	}
	if err := f.store.CreateToken(f.t.Context(), token); err != nil {
		f.t.Fatal(err)
	}
	return token
}

func (f *world) psk() store.Token {
	f.t.Helper()
	psk := store.PSK{ID: "psk-00c0ffee", Key: bytes.Repeat([]byte{2}, 32), CreatedAt: f.clock.Now()}
	if err := f.store.SetPSK(f.t.Context(), psk); err != nil {
		f.t.Fatal(err)
	}
	return store.Token{ID: psk.ID, Key: psk.Key, Tenant: "default", CreatedAt: psk.CreatedAt}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// publicKey is the key as SubjectPublicKeyInfo.
func publicKey(t testing.TB, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// issue certifies a key for whatever node it is asked for.
func (f *world) issue(key *ecdsa.PrivateKey) func(context.Context, string) (store.Certificate, error) {
	return func(ctx context.Context, nodeID string) (store.Certificate, error) {
		csr := &x509.CertificateRequest{PublicKey: &key.PublicKey, RawSubjectPublicKeyInfo: publicKey(f.t, key)}
		return f.ca.Issue(ctx, authority.Request{NodeID: nodeID, CSR: csr})
	}
}

// applicant asks for a name with a credential and a key.
func (f *world) applicant(credential store.Token, name string, key *ecdsa.PrivateKey) fleet.Applicant {
	return fleet.Applicant{
		Credential: credential, IsPSK: credential.ID[:3] == "psk", KeyHash: authority.KeyHash(publicKey(f.t, key)), Address: address,
		Request: &wire.RegisterRequest{Name: name, Agent: wire.AgentInfo{Version: "1", OS: "linux", Arch: "amd64"}},
		Issue:   f.issue(key),
	}
}

// enrolled is a node that holds its first certificate.
func (f *world) enrolled(name string) fleet.Admission {
	f.t.Helper()
	token := f.token("mse_of"+name, nil)
	got, err := f.Enrol(f.t.Context(), f.applicant(token, name, newKey(f.t)))
	if err != nil {
		f.t.Fatal(err)
	}
	return got
}

func (f *world) identity(fingerprint string) *fleet.Identity {
	f.t.Helper()
	id, err := f.Identity(f.t.Context(), fingerprint)
	if err != nil {
		f.t.Fatal(err)
	}
	return id
}

// may looks an identity up and judges it, as every request does.
func (f *world) may(fingerprint string, purpose fleet.Purpose) error {
	f.t.Helper()
	return f.Check(f.identity(fingerprint), purpose)
}

// beat sends a node's next heartbeat.
func (f *world) beat(ad fleet.Admission, counter uint64, change func(*wire.HeartbeatRequest)) fleet.State {
	f.t.Helper()
	b := &wire.HeartbeatRequest{RunID: "run00001", Counter: counter, IntervalSeconds: pace.Seconds(), Health: []string{}}
	if change != nil {
		change(b)
	}
	state, err := f.Beat(f.t.Context(), f.identity(ad.Certificate.Fingerprint), fleet.Proof{Address: address, At: f.clock.Now()},
		report(b, `{"version":"1"}`))
	if err != nil {
		f.t.Fatal(err)
	}
	return state
}

// report is what the node API makes of a heartbeat.
func report(b *wire.HeartbeatRequest, agent string) *reading.Heartbeat {
	return &reading.Heartbeat{HeartbeatRequest: *b, Agent: decoded[wire.AgentInfo](agent), Cost: &wire.Cost{},
		Hardware: decoded[wire.Hardware](string(b.Hardware))}
}

// decoded is a part of a heartbeat; nil: the text is none.
func decoded[T any](text string) *T {
	v := new(T)
	if json.Unmarshal([]byte(text), v) != nil {
		return nil
	}
	return v
}

// written is a reading as the gateway writes it.
func written(text string) string {
	encoded, err := json.Marshal(decoded[wire.Hardware](text))
	if err != nil {
		panic(err)
	}
	return string(encoded)
}

func (f *world) flush() {
	f.t.Helper()
	if err := f.Flush(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// seen is a node as the fleet shows it.
func (f *world) seen(name string) fleet.Node {
	f.t.Helper()
	n, err := f.Node(f.t.Context(), "", name)
	if err != nil {
		f.t.Fatal(err)
	}
	return n
}

// stored is a node as the database has it.
func (f *world) stored(name string) store.Node {
	f.t.Helper()
	n, err := f.store.Node(f.t.Context(), "", name)
	if err != nil {
		f.t.Fatal(err)
	}
	return n
}

func (f *world) apply(name string, verb fleet.Verb) fleet.Node {
	f.t.Helper()
	n, err := f.Apply(f.t.Context(), "", name, verb, operator)
	if err != nil {
		f.t.Fatal(err)
	}
	return n
}

func (f *world) events(kind string) []store.Event {
	f.t.Helper()
	events, err := f.store.Events(f.t.Context(), store.EventQuery{Kind: kind, Limit: 1000})
	if err != nil {
		f.t.Fatal(err)
	}
	return events
}

// wantRefusal wants the newest refused enrolment to be on record with its code and the address that asked.
func (f *world) wantRefusal(err error, want string) {
	f.t.Helper()
	if code(err) != want || hint(err) == "" {
		f.t.Errorf("got %v, want %s with a hint", err, want)
	}
	events := f.events("enrol.refused")
	if len(events) == 0 || events[0].Outcome != want || events[0].Address != address || !events[0].Security {
		f.t.Errorf("got events %+v, want a security event first with outcome %s and address %s", events, want, address)
	}
}

// code is the code of a refusal, "ok" for none, and the error's text for what is no refusal.
func code(err error) string {
	var refused *wire.ErrorDetail
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &refused):
		return refused.Code
	}
	return err.Error()
}

func hint(err error) string {
	var refused *wire.ErrorDetail
	if errors.As(err, &refused) {
		return refused.Hint
	}
	return ""
}

func hardware(text string) func(*wire.HeartbeatRequest) {
	return func(b *wire.HeartbeatRequest) { b.Hardware = json.RawMessage(text) }
}

func health(reasons ...string) func(*wire.HeartbeatRequest) {
	return func(b *wire.HeartbeatRequest) { b.Health = append([]string{}, reasons...) }
}
