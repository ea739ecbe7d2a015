package release_test

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"muster/agent/sign"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/kit"
	"muster/gateway/internal/release"
	"muster/gateway/internal/release/rollout"
	"muster/store"
	"muster/store/engine"
	"muster/store/releases"
)

var (
	start    = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC) // a Sunday
	operator = store.Actor{Name: "account:ci", Address: "192.0.2.1"}
)

// hall is a desk on a real store, with releases on record, and nodes that tests move.
type hall struct {
	*release.Service
	t        testing.TB
	clock    *kit.Clock
	store    *store.Store
	records  releases.Records
	key      ed25519.PrivateKey // nil: operators keep all keys
	operator ed25519.PrivateKey
	config   release.Config
	nodes    map[string]*machine
}

// machine is a node of a test.
type machine struct {
	name    string
	program string // digest of what it runs
	channel string // that it believes to have
	obeyed  int64
	update  *wire.Update // what it says next besides; nil: nothing
	old     bool         // its agent cannot update itself
	silent  bool
	every   time.Duration // between its heartbeats; 0: half a minute
	vitals  rollout.Vitals
	tells   bool      // when the pointer that it knows ends
	ends    time.Time // that
}

func (n *machine) interval() time.Duration { return cmp.Or(n.every, 30*time.Second) }

func newHall(t testing.TB, nodes ...string) *hall {
	t.Helper()
	h := &hall{t: t, clock: kit.NewClock(start), nodes: map[string]*machine{}}
	h.store = kit.Store(t, h.clock.Now)
	h.records = releases.New(h.store.Records())
	_, h.key, _ = ed25519.GenerateKey(rand.Reader)
	_, h.operator, _ = ed25519.GenerateKey(rand.Reader)
	must(t, h.store.CreateToken(context.Background(), store.Token{ID: "mse_many", Tenant: "default", Uses: 100_000, Key: []byte("k"),
		CreatedAt: start, ExpiresAt: start.Add(10_000 * time.Hour)}))
	h.config = release.Config{Store: h.store, Now: h.clock.Now, Sign: h.sign, Keys: h.keys}
	for _, name := range nodes {
		h.enrol(name, nil)
	}
	h.open()
	return h
}

func (h *hall) sign(payload []byte) ([]byte, error) {
	if h.key == nil {
		return nil, wire.Refuse(wire.CodeSignatureWanted, "no key", "sign it")
	}
	return json.Marshal(sign.Seal(h.key, sign.RoleRelease, payload))
}

func (h *hall) keys() []ed25519.PublicKey {
	keys := []ed25519.PublicKey{h.operator.Public().(ed25519.PublicKey)}
	if h.key != nil {
		keys = append(keys, h.key.Public().(ed25519.PublicKey))
	}
	return keys
}

// open makes the desk, as a start of the gateway does.
func (h *hall) open() {
	h.t.Helper()
	var err error
	h.Service, err = release.Open(context.Background(), h.config)
	must(h.t, err)
	must(h.t, h.Load(context.Background()))
}

// enrol puts a node on record. Its id is id-NAME.
func (h *hall) enrol(name string, labels map[string]string) *machine {
	h.t.Helper()
	return h.enrolSaying(name, nil, labels)
}

// enrolSaying is the same for an agent that says labels of its own.
func (h *hall) enrolSaying(name string, said, labels map[string]string) *machine {
	h.t.Helper()
	must(h.t, h.store.Enrol(context.Background(), store.Enrolment{ID: "e-" + name, Credential: "mse_many", ConsumeToken: true,
		KeyHash: "key-" + name, At: h.clock.Now(), Node: store.Node{ID: "id-" + name, Name: name, Tenant: "default", State: "enrolled"},
		NewNode: true, AgentLabels: said, CredentialLabels: labels, Certificate: store.Certificate{Fingerprint: "print-" + name,
			KeyHash: "key of " + name, PublicKey: []byte(name), Chain: "chain", NotBefore: start, NotAfter: start.Add(10_000 * time.Hour),
			IssuedAt: h.clock.Now()}}))
	h.nodes[name] = &machine{name: name, program: "sha256:old", channel: wire.DefaultChannel}
	return h.nodes[name]
}

// release puts a release on record. Its digest and that of its program come from the name.
func (h *hall) release(name string) string {
	h.t.Helper()
	r := releases.Release{Digest: sum(name), Version: name, Size: 100, CreatedAt: h.clock.Now(), CreatedBy: "test",
		Platforms: []releases.Platform{{OS: "linux", Arch: "amd64", MediaType: wire.MediaProgram, Digest: program(name), Size: 10,
			Program: program(name), ProgramSize: 10}}}
	must(h.t, h.records.AddRelease(context.Background(), r))
	h.open()
	for _, n := range h.nodes {
		if !n.silent {
			h.beat(n.name)
		}
	}
	return r.Digest
}

func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(s[:])
}

func program(release string) string { return sum("program of " + release) }

// beat sends one heartbeat of a node and gives the answer.
func (h *hall) beat(name string) string {
	h.t.Helper()
	n := h.nodes[name]
	u := wire.Update{Channel: n.channel, Sequence: n.obeyed}
	if n.update != nil {
		u = *n.update
	}
	said := &u
	if n.old {
		said = nil
	}
	wanted, channel, _, err := h.Heard(context.Background(), release.Node{ID: "id-" + name, Name: name, Tenant: "default", OS: "linux",
		Arch: "amd64", Digest: n.program, Interval: n.interval(), Vitals: n.vitals, TellsEnds: n.tells,
		Ends: n.ends}, said)
	must(h.t, err)
	if channel != "" {
		n.channel = channel
	}
	n.update = nil
	if wanted != "" && h.raise(n, wanted) {
		return ""
	}
	return wanted
}

// raise has a node that runs the release already note its number, as an agent does, and tells whether it was so.
func (h *hall) raise(n *machine, wanted string) bool {
	r, err := h.Wanted(context.Background(), "id-"+n.name)
	must(h.t, err)
	if r == nil || r.Digest != wanted {
		h.t.Fatalf("%s is told of %s, and then offered %+v", n.name, wanted, r)
	}
	known, err := h.Release(context.Background(), wanted)
	must(h.t, err)
	if n.program != known.Programs[0].Program {
		return false
	}
	n.obeyed = r.Sequence
	return true
}

// beats lets some time pass, with a heartbeat of every node that is not silent, and gives what each is offered.
func (h *hall) beats(d time.Duration) map[string]string {
	h.t.Helper()
	h.clock.Forward(d)
	offered := map[string]string{}
	for name, n := range h.nodes {
		if n.silent {
			continue
		}
		if wanted := h.beat(name); wanted != "" {
			offered[name] = wanted
		}
	}
	return offered
}

// pass lets a longer time pass, with heartbeats and rounds.
func (h *hall) pass(d time.Duration) {
	h.t.Helper()
	for ; d > 0; d -= 30 * time.Second {
		h.beats(30 * time.Second)
		must(h.t, h.Look(context.Background()))
	}
}

// look is one round of the desk after heartbeats of all, and what they are offered then.
func (h *hall) look() map[string]string {
	h.t.Helper()
	h.beats(10 * time.Second)
	must(h.t, h.Look(context.Background()))
	return h.beats(0)
}

// say lets a node say something of the release that its channel points at.
func (h *hall) say(name, phase, code string) {
	h.t.Helper()
	r, err := h.Wanted(context.Background(), "id-"+name)
	must(h.t, err)
	n := h.nodes[name]
	if r == nil {
		h.t.Fatalf("%s is offered nothing, and cannot say %s", name, phase)
	}
	h.sayOf(n, r, phase, code)
}

func (h *hall) sayOf(n *machine, r *wire.Release, phase, code string) {
	n.obeyed = r.Sequence
	n.update = &wire.Update{Channel: r.Channel, Sequence: r.Sequence, Release: r.Digest, About: r.Sequence, Phase: phase, Code: code,
		Detail: "it " + phase, Log: "last lines of " + n.name}
	h.beat(n.name)
}

// install lets a node install what it is offered.
func (h *hall) install(name, of string) {
	h.t.Helper()
	r, err := h.Wanted(context.Background(), "id-"+name)
	must(h.t, err)
	if r == nil || r.Digest != sum(of) {
		h.t.Fatalf("%s is offered %+v, not %s", name, r, of)
	}
	h.nodes[name].program = program(of)
	h.sayOf(h.nodes[name], r, wire.UpdateCommitted, "")
}

// point promotes a release on the default channel.
func (h *hall) point(digest string, plan *release.Plan) api.Channel {
	h.t.Helper()
	c, err := h.Point(context.Background(), wire.DefaultChannel, release.Promotion{Digest: digest, Plan: plan}, operator)
	must(h.t, err)
	return c
}

// shown is the default channel.
func (h *hall) shown() api.Channel {
	h.t.Helper()
	c, err := h.Channel(context.Background(), wire.DefaultChannel)
	must(h.t, err)
	return c
}

// state wants the channel's rollout in a state.
func (h *hall) state(want string) api.Channel {
	h.t.Helper()
	c, err := h.Channel(context.Background(), wire.DefaultChannel)
	must(h.t, err)
	if c.State != want {
		h.t.Fatalf("the rollout is %s (%s, wave %d of %d, %+v), want %s", c.State, c.Why, c.Wave, c.Waves, c.Counts, want)
	}
	return c
}

func (h *hall) events(kind string) []store.Event {
	h.t.Helper()
	events, err := h.store.Events(context.Background(), store.EventQuery{Kind: kind, Limit: 1000})
	must(h.t, err)
	return events
}

func names(n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("n%03d", i))
	}
	return all
}

// one is the only node that is offered something.
func one(t testing.TB, offered map[string]string) string {
	t.Helper()
	if len(offered) != 1 {
		t.Fatalf("offered: %v, want one", offered)
	}
	for name := range offered {
		return name
	}
	return ""
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t testing.TB, err error, code string) {
	t.Helper()
	var refused *wire.ErrorDetail
	if !errors.As(err, &refused) || refused.Code != code {
		t.Errorf("got %v, want %s", err, code)
	}
}

// statement is a query for what no method shows.
func statement(text string) engine.Statement { return engine.Do(text) }

func storeMove(id, from string, at time.Time) store.Move {
	return store.Move{NodeID: id, From: from, To: store.StateRetired, At: at}
}

// seen writes to the database that every node was heard, as the fleet does.
func (h *hall) seen() {
	h.t.Helper()
	for name, n := range h.nodes {
		if n.silent {
			continue
		}
		agent, err := json.Marshal(wire.AgentInfo{OS: "linux", Arch: "amd64", Digest: n.program})
		must(h.t, err)
		must(h.t, h.store.SaveBeats(context.Background(), []store.Beat{{NodeID: "id-" + name, Enrolment: "e-" + name, At: h.clock.Now(),
			Interval: n.interval(), Agent: string(agent)}}, h.clock.Now()))
	}
}

// row is what is on record of the channel stable.
func (h *hall) row() releases.Channel {
	h.t.Helper()
	all, err := h.records.Channels(context.Background())
	must(h.t, err)
	for _, c := range all {
		if c.Channel == wire.DefaultChannel {
			return c
		}
	}
	h.t.Fatal("there is no channel stable")
	return releases.Channel{}
}
