package maas_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/machines"
	"muster/gateway/internal/fleet"
	"muster/gateway/internal/kit"
	"muster/gateway/internal/kit/maassim"
	"muster/gateway/internal/maas"
	"muster/gateway/internal/maas/region"
	"muster/store"
	"muster/store/engine"
)

var (
	start = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	ann   = store.Actor{Name: "ann"}
)

// world is a simulated MAAS, a real fleet and store, and a service between them. The agents of its machines are simulated.
type world struct {
	*maas.Service
	t      testing.TB
	clock  *kit.Clock
	sim    *maassim.Sim
	server *httptest.Server
	store  *store.Store
	fleet  *fleet.Fleet

	over      string // the allocation that is over
	mu        sync.Mutex
	meanwhile func(op string)  // if set, called while MAAS does something
	agents    map[string]agent // by system id
	mute      map[string]bool  // machines whose agent never starts
	wrong     []string         // what was done that must never be
}

// agent is what runs on a machine: a node's, of one enrolment.
type agent struct {
	node  string
	since time.Time
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, clock: kit.NewClock(start), agents: map[string]agent{}, mute: map[string]bool{}}
	w.sim = maassim.New(maassim.Config{Now: w.clock.Now, OnBoot: w.boot, Between: w.watch})
	w.server = httptest.NewServer(w.sim)
	t.Cleanup(w.server.Close)
	var err error
	path := filepath.Join(t.TempDir(), "muster.db")
	if w.store, err = store.Open(context.Background(), store.Options{Path: path, MasterKey: make([]byte, 32), Now: w.clock.Now}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.store.Close() })
	if w.fleet, err = fleet.Open(t.Context(), fleet.Config{Store: w.store, Now: w.clock.Now}); err != nil {
		t.Fatal(err)
	}
	w.restart()
	return w
}

// restart opens another service, as a gateway that starts again does.
func (w *world) restart() {
	w.t.Helper()
	client, err := region.New(region.Config{URL: w.server.URL, Key: w.sim.Key(), Now: w.clock.Now,
		Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(client.Close)
	w.Service, err = maas.Open(w.t.Context(), maas.Config{
		Store: w.store, Region: client, URL: w.server.URL, Tenant: "platform", Now: w.clock.Now, Every: 30 * time.Second,
		Commission: func(ctx context.Context, name, tenant, provider, instance string, by store.Actor) (string, error) {
			n, err := w.fleet.Commission(ctx, name, tenant, provider, instance, by)
			return n.ID, err
		},
		Move: func(ctx context.Context, id, verb string, force bool, by store.Actor) error {
			return w.fleet.Provide(ctx, id, fleet.Verb(verb), force, by)
		},
		Mint: func(_ context.Context, id, profile string, lives time.Duration, _ store.Actor) ([]byte, error) {
			return fmt.Appendf(nil, "#!/bin/sh\n#%s %s %s\n", id, profile, lives), nil
		},
		Profiles: profilesWith(api.ProfileSliceVM, api.ProfileBareMetal),
		Assign: func(ctx context.Context, id, profile string, _ store.Actor) error {
			w.profile(id, profile)
			return nil
		},
		Over: func(_ context.Context, allocation string) (bool, error) { return allocation == w.over, nil },
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) sql(text string, args ...any) {
	w.t.Helper()
	if err := w.store.Records().Change(context.Background(), []engine.Statement{engine.Do(text, args...)}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) profile(id, name string) {
	w.sql("UPDATE nodes SET profile = ? WHERE id = ?", name, id)
}

// boot is an installed machine that starts: its agent enrols, if its node waits for that.
func (w *world) boot(m maassim.Machine, userData []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, line, ok := strings.Cut(string(userData), "\n#")
	if !ok || w.mute[m.ID] {
		return
	}
	id, _, _ := strings.Cut(line, " ")
	n, err := w.store.Node(context.Background(), "", id)
	if err != nil || n.State != wire.StateDeploying {
		return
	}
	w.agents[m.ID] = agent{node: id, since: w.clock.Now()}
	w.sql("UPDATE nodes SET state = 'enrolled', enrolled_at = ?, enrolment_id = ? WHERE id = ?", engine.Millis(w.clock.Now()),
		w.clock.Now().String(), id)
}

// alive is true for an agent whose identity is good.
func (w *world) alive(a agent) bool {
	n, err := w.store.Node(context.Background(), "", a.node)
	return err == nil && n.EnrolledAt != nil && n.EnrolledAt.Equal(a.since) && slices.Contains([]string{wire.StateEnrolled, wire.StateActive,
		wire.StateDrained, wire.StateUnavailable}, n.State)
}

// beat has the agents of running machines report.
func (w *world) beat() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, a := range w.agents {
		if m, ok := w.sim.Machine(id); ok && m.Status == 6 && m.Power == "on" && w.alive(a) {
			w.sql("UPDATE liveness SET last_seen = ?, interval_ms = 30000 WHERE node_id = ?", engine.Millis(w.clock.Now()), a.node)
			w.sql("UPDATE nodes SET state = 'active' WHERE id = ? AND state = 'enrolled'", a.node)
		}
	}
}

// watch looks at each thing that is asked of MAAS: nobody's machine is touched that works, is held, or is another's.
func (w *world) watch(op, id string) {
	w.mu.Lock()
	meanwhile := w.meanwhile
	w.mu.Unlock()
	if meanwhile != nil {
		meanwhile(op)
	}
	switch op {
	case "allocate", "deploy", "release", "abort", "commission", "mark_fixed", "mark_broken", "power_on", "power_off":
	default:
		return
	}
	m, _ := w.sim.Machine(id)
	w.mu.Lock()
	defer w.mu.Unlock()
	if a, ok := w.agents[id]; ok && w.alive(a) && m.Status == 6 {
		w.wrong = append(w.wrong, fmt.Sprintf("%s of %s, which works", op, id))
	}
	if m.Owner != "" && m.Owner != "muster" {
		w.wrong = append(w.wrong, fmt.Sprintf("%s of %s, which %s has", op, id, m.Owner))
	}
	if op == "power_on" || op == "mark_broken" {
		w.wrong = append(w.wrong, op)
	}
}

func (w *world) watching(meanwhile func(op string)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.meanwhile = meanwhile
}

// silence has a machine's agent never start, or start again.
func (w *world) silence(id string, mute bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mute[id] = mute
}

// pass lets time pass, with a round each half minute.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	for range int(d / (30 * time.Second)) {
		w.clock.Forward(30 * time.Second)
		w.sim.Tick()
		w.beat()
		if err := w.Round(w.t.Context()); err != nil {
			w.t.Fatalf("a round: %v", err)
		}
	}
}

// ready adds a machine that is ready, with a node that has a profile and is ready.
func (w *world) ready() (id, node string) {
	w.t.Helper()
	id = w.sim.Add(maassim.Machine{Status: 4, Passed: true})
	w.pass(30 * time.Second)
	m := w.machine(id)
	w.profile(m.NodeID, api.ProfileBareMetal)
	w.pass(2 * time.Minute)
	if m = w.machine(id); m.NodeState != wire.StateReady {
		w.t.Fatalf("the node is %+v", m)
	}
	return id, m.Node
}

// deployed is ready, and installed.
func (w *world) deployed() (id, node string) {
	w.t.Helper()
	id, node = w.ready()
	w.act(machines.Act{Act: machines.ActDeploy, Machines: []string{id}})
	w.pass(10 * time.Minute)
	w.is(id, machines.StateDeployed, wire.StateActive)
	return id, node
}

func (w *world) machine(name string) machines.Machine {
	w.t.Helper()
	m, err := w.Machine(w.t.Context(), name)
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

func (w *world) is(id, state, node string) machines.Machine {
	w.t.Helper()
	m := w.machine(id)
	if m.State != state || m.NodeState != node {
		w.t.Fatalf("it is %s, its node %s, want %s, %s: %+v, work %+v", m.State, m.NodeState, state, node, m, m.Work)
	}
	return m
}

// all are all machines, by system id.
func (w *world) all() map[string]machines.Machine {
	w.t.Helper()
	list, err := w.Machines(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	all := map[string]machines.Machine{}
	for _, m := range list.Machines {
		all[m.SystemID] = m
	}
	return all
}

// act begins something that is not refused.
func (w *world) act(q machines.Act) {
	w.t.Helper()
	got, err := w.Act(w.t.Context(), q, ann)
	if err != nil || len(got.Refused) > 0 {
		w.t.Fatalf("%s: %v, %v", q.Act, got.Refused, err)
	}
}

// refused begins something that is refused, with words.
func (w *world) refused(q machines.Act, words string) {
	w.t.Helper()
	got, err := w.Act(w.t.Context(), q, ann)
	if err != nil || len(got.Refused) != len(q.Machines) || !strings.Contains(fmt.Sprint(got.Refused), words) {
		w.t.Errorf("%s: got %v, %v, want %q", q.Act, got.Refused, err, words)
	}
	for id, why := range got.Refused {
		if strings.HasPrefix(why, id) {
			w.t.Errorf("%s: the refusal of %s names it again: %s", q.Act, id, why)
		}
	}
}

func (w *world) harmless() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrong) > 0 {
		w.t.Fatalf("what must never be: %v", w.wrong)
	}
}

func (w *world) move(node string, verb fleet.Verb) {
	w.t.Helper()
	if _, err := w.fleet.Apply(w.t.Context(), "", node, verb, ann); err != nil {
		w.t.Fatal(err)
	}
}

// profilesWith are the usual profiles, of which these have the disks erased.
func profilesWith(erasing ...string) func(context.Context) ([]api.Profile, error) {
	return func(context.Context) (all []api.Profile, err error) {
		for _, name := range []string{api.ProfileSliceVM, api.ProfileBareMetal} {
			all = append(all, api.Profile{Name: name, Erase: slices.Contains(erasing, name)})
		}
		return all, nil
	}
}
