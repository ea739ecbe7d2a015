//go:build real

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/account/login"
	"muster/gateway/internal/health/condition"
	"muster/gateway/internal/httpserver/daemon"
	"muster/gateway/internal/view"
	"muster/store"
	records "muster/store/health"
)

// exhibit is one node that the console is looked at with.
type exhibit struct {
	name, tenant, provider, instance string

	labels   map[string]string
	hardware *wire.Hardware // nil: it never reported
	heard    time.Duration  // ago; 0 with hardware: just now
	state    string         // empty: active
	reasons  []string
	expected int
	idle     bool // for longer than the rule asks
	findings []records.Finding
}

func (e *exhibit) id() string { return "id-" + e.name }

// showcase is a gateway in this process with such nodes, all its parts at work.
type showcase struct {
	*gateway
	url    string
	who    store.Account // may do everything
	cookie string        // of a session
}

// newShowcase opens a gateway with these nodes on record. The gateway is opened twice: health reads its findings when it opens.
func newShowcase(t *testing.T, nodes []exhibit) *showcase {
	t.Helper()
	dir, err := os.MkdirTemp("", "muster-showcase-") // t.TempDir's path can be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	first := openShowcase(t, dir)
	now := time.Now()
	furnish(t, first, nodes, now)
	first.close()
	s := &showcase{gateway: openShowcase(t, dir)}
	l, err := openListeners(s.gateway)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- daemon.Run(ctx, s.work(l, daemon.Notifier{Logger: s.log})...) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		s.close()
	})
	s.url = "https://" + s.tls.Addr().String()
	s.enter(t)
	for !s.overview.Ready() {
		time.Sleep(10 * time.Millisecond)
	}
	for i := range nodes {
		if nodes[i].idle {
			s.beat(&nodes[i], now.Add(-11*time.Minute))
			s.beat(&nodes[i], now)
		}
	}
	return s
}

func openShowcase(t *testing.T, dir string) *gateway {
	t.Helper()
	none := func(string) string { return "" }
	s, err := parseSettings([]string{"--data", dir, "--listen", "127.0.0.1:0"}, none, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	g, err := open(t.Context(), s, slog.New(slog.DiscardHandler), none, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// enter makes an account and begins a session of it.
func (s *showcase) enter(t *testing.T) {
	t.Helper()
	s.who = store.Account{ID: "msa_show", Name: "visitor", Scopes: []string{api.ScopeAll}, CreatedAt: time.Now()}
	err := s.store.CreateAccount(t.Context(), s.who)
	if err == nil {
		s.cookie, err = s.logins.Begin(t.Context(), s.who, login.Visitor{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// leave ends the session.
func (s *showcase) leave(t *testing.T) {
	t.Helper()
	session, err := s.logins.Session(t.Context(), s.cookie)
	if err == nil {
		err = s.logins.End(t.Context(), s.who, session.ID, "")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// admit gives the browser the session.
func (s *showcase) admit(c *chromium) {
	c.t.Helper()
	c.open(s.url + "/ui/login")
	s.giveCookie(c)
}

func (s *showcase) giveCookie(c *chromium) {
	c.call("POST", "/cookie", map[string]any{"cookie": map[string]any{"name": "__Host-muster", "value": s.cookie, "secure": true,
		"path": "/", "httpOnly": true}}, nil)
}

// beat has the picture of the fleet hear a node.
func (s *showcase) beat(e *exhibit, at time.Time) {
	h := *e.hardware
	h.Probe.SampledAt = &at
	s.overview.Take(context.Background(), []view.Sample{{NodeID: e.id(), At: at, Interval: showPace, Hardware: &h,
		Agent: &wire.AgentInfo{Version: "1.4.0"}}})
}

// showPace keeps nodes that are heard once online for as long as a test may last.
const showPace = 10 * time.Minute

// furnish puts the nodes on record.
func furnish(t *testing.T, g *gateway, nodes []exhibit, now time.Time) {
	t.Helper()
	ctx := t.Context()
	db := g.store
	_, psk, err := g.bootstrap.GeneratePSK(ctx, store.Actor{Name: "show"})
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, len(nodes))
	for i := range nodes { // the store writes what waits together in one commit
		go func() { failed <- nodes[i].enrol(ctx, db, psk, now) }()
	}
	for range nodes {
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
	var beats []store.Beat
	var found []records.Change
	for i := range nodes {
		e := &nodes[i]
		if e.hardware != nil {
			beats = append(beats, e.report(t, now))
		}
		for _, f := range e.findings {
			f.NodeID = e.id()
			found = append(found, records.Change{Finding: f})
		}
	}
	const atOnce = 500
	for len(beats) > 0 {
		n := min(len(beats), atOnce)
		err = errors.Join(err, db.SaveBeats(ctx, beats[:n], now))
		beats = beats[n:]
	}
	if err = errors.Join(err, records.New(db.Records()).Write(ctx, found)); err != nil {
		t.Fatal(err)
	}
}

// enrol puts one node on record. Its certificate is only bytes that name it: no such node ever calls.
func (e *exhibit) enrol(ctx context.Context, db *store.Store, psk string, now time.Time) error {
	state := e.state
	if state == "" {
		state = wire.StateActive
	}
	begin := now.Add(-40 * time.Hour)
	enrolment := store.Enrolment{ID: "e-" + e.name, Credential: psk, KeyHash: "key-" + e.name, At: begin, NewNode: true,
		CredentialLabels: e.labels, Provider: e.provider, InstanceID: e.instance, Address: "203.0.113.7",
		Agent: `{"version":"1.4.0","os":"linux","arch":"amd64"}`,
		Node:  store.Node{ID: e.id(), Name: e.name, Tenant: e.tenant, State: wire.StateEnrolled, GPUsExpected: e.expected},
		Certificate: store.Certificate{Fingerprint: "print-" + e.name, KeyHash: "key-" + e.name, PublicKey: []byte(e.name), Chain: "chain",
			NotBefore: begin, NotAfter: now.Add(20 * time.Hour), IssuedAt: begin}}
	if err := db.Enrol(ctx, enrolment); err != nil || state == wire.StateEnrolled {
		return err
	}
	move := store.Move{NodeID: e.id(), From: wire.StateEnrolled, To: state, At: now.Add(-3 * time.Hour)}
	for _, reason := range e.reasons {
		move.AddReasons = append(move.AddReasons, store.Reason{Reason: reason})
	}
	return db.MoveNode(ctx, move)
}

func (e *exhibit) report(t *testing.T, now time.Time) store.Beat {
	t.Helper()
	at := now.Add(-e.heard)
	h := *e.hardware
	if h.Probe.SampledAt == nil {
		h.Probe.SampledAt = &at
	} else {
		old := at.Add(-12 * time.Minute)
		h.Probe.SampledAt = &old
		since := old.Add(time.Second)
		h.Probe.Since = &since
	}
	pace := showPace
	if e.heard > 0 {
		pace = 30 * time.Second
	}
	if e.idle {
		at = now.Add(-12 * time.Minute)
	}
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	return store.Beat{NodeID: e.id(), At: at, RunID: "0123456789abcdef", Counter: 1, Interval: pace, Address: "203.0.113.7",
		Agent: `{"version":"1.4.0","os":"linux","arch":"amd64"}`, Cost: `{"rss_kib":6400,"cpu_ms":250,"probe_ms":41}`, Hardware: string(text)}
}

func some[T any](v T) *T { return &v }

// board is one model of GPU, with a seed for its values.
type board struct {
	name   string
	memory int64
	watts  float64
	hot    float64
}

var (
	h200   = board{"NVIDIA H200", 143771, 700, 68}
	r4090  = board{"NVIDIA GeForce RTX 4090", 24564, 450, 61}
	l40s   = board{"NVIDIA L40S", 46068, 350, 55}
	mi300x = board{"AMD Instinct MI300X", 196288, 750, 59}
)

// machine is a reading with n GPUs of one model, each with a load of its own around the given one.
func machine(b board, n int, load float64) *wire.Hardware {
	h := &wire.Hardware{Probe: wire.Probe{State: wire.ProbeOK, TookMS: some(int64(41))}, DriverVersion: some("590.48.01"), GPUs: []wire.GPU{},
		CPUs: some(96), MemoryTotalMiB: some(int64(1_547_000)), MemoryUsedMiB: some(int64(212_000)), DiskTotalMiB: some(int64(7_200_000)),
		DiskUsedMiB: some(int64(1_900_000)), Load1: some(12.5)}
	for i := range n {
		own := max(min(load+float64(i*37%23)-11, 100), 0)
		if load == 0 {
			own = 0
		}
		h.GPUs = append(h.GPUs, wire.GPU{Index: i, UUID: fmt.Sprintf("GPU-5ca1ab1e-0000-4000-8000-%012d", i), Name: b.name,
			Vendor: wire.VendorNVIDIA, BusID: fmt.Sprintf("00000000:%02x:00.0", i+1), MemoryTotalMiB: some(b.memory),
			MemorySource: wire.MemoryDevice, MIG: some(false),
			MemoryUsedMiB: some(int64(float64(b.memory) * (0.004 + own/110))), UtilizationPercent: some(float64(int(own))),
			TemperatureCelsius: some(b.hot - 30 + float64(int(own*0.3))), PowerWatts: some(b.watts * (0.1 + own*0.0085)),
			PowerLimitWatts: some(b.watts), Health: []string{}})
	}
	return h
}

// with changes a reading.
func with(h *wire.Hardware, change func(*wire.Hardware)) *wire.Hardware {
	change(h)
	return h
}

// finding is one of a rule, made three hours ago.
func finding(rule, gpu, text string) records.Finding {
	return records.Finding{Place: records.Place{Rule: rule, GPU: gpu}, Since: time.Now().Add(-3 * time.Hour), Text: text}
}

// hostileName is what a node may call a GPU, or a label.
const hostileName = `"><img src=x onerror="document.title='taken'"><script>document.title='taken'</script>'` + "`${1}`"

// mixedNodes are 40 of every kind, healthy and not.
func mixedNodes() []exhibit {
	var all []exhibit
	for i := range 10 {
		all = append(all, exhibit{name: fmt.Sprintf("h200-%02d", i+1), tenant: "platform", provider: "bare_metal", expected: 8,
			labels:   map[string]string{"site": "fra", "rack": fmt.Sprint(i/4 + 1), "tier": "sovereign"},
			hardware: machine(h200, 8, float64(i*29%97))})
	}
	for i := range 10 {
		load := float64(i * 31 % 101)
		e := exhibit{name: fmt.Sprintf("vast-4090-3946%04d", i*137), tenant: "research", provider: "vast_ai",
			instance: fmt.Sprint(39460000 + i*137),
			labels:   map[string]string{"tier": "spot", "price_per_hour": fmt.Sprintf("0.%02d", 31+i)}, hardware: machine(r4090, 1+i%4, load),
			expected: 1 + i%4, idle: load == 0}
		all = append(all, e)
	}
	return append(append(all, oddNodes()...), sickNodes()...)
}

// oddNodes are machines whose readings differ from the usual.
func oddNodes() []exhibit {
	spark := func(load float64, used int64) *wire.Hardware {
		return with(machine(board{"NVIDIA GB10", 122570, 140, 62}, 1, load), func(h *wire.Hardware) {
			g := &h.GPUs[0]
			g.MemorySource = wire.MemoryUnified
			g.MemoryUsedMiB = some(used)
			g.PowerLimitWatts = nil
			g.MIG = nil
			h.MemoryTotalMiB = g.MemoryTotalMiB
			h.MemoryUsedMiB = some(used)
		})
	}
	mig := with(machine(board{"NVIDIA A100-SXM4-80GB", 81920, 400, 54}, 4, 0), func(h *wire.Hardware) {
		for i := range h.GPUs {
			h.GPUs[i].MIG = some(true)
			h.GPUs[i].UtilizationPercent = nil
			h.GPUs[i].MemoryUsedMiB = some(int64(20480 * (i + 1) / 2))
		}
	})
	none := with(machine(h200, 0, 0), func(h *wire.Hardware) { h.Probe.State = wire.ProbeAbsent })
	silent := with(machine(l40s, 2, 40), func(h *wire.Hardware) {
		for i := range h.GPUs {
			h.GPUs[i].TemperatureCelsius = nil
			h.GPUs[i].PowerWatts = nil
		}
		h.GPUs[1].UtilizationPercent = nil
	})
	hostile := with(machine(board{hostileName, 24564, 450, 61}, 2, 55), func(h *wire.Hardware) { h.GPUs[1].Health = []string{hostileName} })
	long := "node-with-a-name-as-long-as-names-may-be-so-that-it-is-cut-0063"
	return []exhibit{
		{name: "spark-1", tenant: "desk", provider: "", hardware: spark(71, 88064), labels: map[string]string{"owner": "mo"}, expected: 1},
		{name: "spark-2", tenant: "desk", provider: "", hardware: spark(2, 9216), expected: 1},
		{name: "mig-a100", tenant: "platform", provider: "bare_metal", hardware: mig, expected: 4, labels: map[string]string{"site": "fra"}},
		{name: "control-1", tenant: "platform", provider: "bare_metal", hardware: none, labels: map[string]string{"site": "fra"}},
		{name: "l40s-quiet", tenant: "platform", provider: "maas", hardware: silent, expected: 2},
		{name: "mi300x-1", tenant: "platform", provider: "maas", hardware: machine(mi300x, 8, 83), expected: 8},
		{name: "hostile-1", tenant: "research", provider: "vast_ai", instance: "x", hardware: hostile, expected: 2,
			labels: map[string]string{"note": hostileName}, findings: []records.Finding{finding(condition.GPUHot, "", hostileName)}},
		{name: long[:63], tenant: "a-tenant-with-a-long-name-as-well-0030", provider: "bare_metal", hardware: machine(l40s, 4, 66), expected: 4,
			labels: map[string]string{"purpose": "a-long-text-that-says-what-this-machine-is-for-in-many-words"}},
		{name: "joining-1", tenant: "research", provider: "vast_ai", state: wire.StateEnrolled},
		{name: "drained-1", tenant: "platform", provider: "maas", hardware: machine(l40s, 4, 0), state: wire.StateDrained, expected: 4,
			idle: true},
	}
}

// sickNodes need a person.
func sickNodes() []exhibit {
	fault := with(machine(h200, 8, 60), func(h *wire.Hardware) {
		g := &h.GPUs[5]
		g.Health = []string{"row remapping failed"}
		g.UtilizationPercent = nil
		g.TemperatureCelsius = nil
		g.PowerWatts = nil
	})
	hot := with(machine(h200, 8, 98), func(h *wire.Hardware) {
		for i := range h.GPUs {
			h.GPUs[i].TemperatureCelsius = some(84 + float64(i*3%11))
		}
	})
	hung := with(machine(r4090, 2, 77), func(h *wire.Hardware) {
		h.Probe = wire.Probe{State: wire.ProbeHung, Error: "nvidia-smi did not end within 20 s", SampledAt: some(time.Now())}
	})
	unread := with(machine(h200, 0, 0), func(h *wire.Hardware) {
		h.Probe = wire.Probe{State: wire.ProbeHung, Error: "nvidia-smi did not end within 20 s"}
	})
	gone := with(machine(h200, 0, 0), func(h *wire.Hardware) { h.Probe.State = wire.ProbeAbsent })
	unavailable := wire.StateUnavailable
	sick := "GPU-5ca1ab1e-0000-4000-8000-000000000005"
	return []exhibit{
		{name: "h200-11", tenant: "platform", provider: "bare_metal", hardware: machine(h200, 7, 70), expected: 8, state: unavailable,
			reasons:  []string{wire.HealthGPUCountDropped},
			findings: []records.Finding{finding(condition.GPUCountDropped, "", "7 of 8 GPUs answer.")}},
		{name: "h200-12", tenant: "platform", provider: "bare_metal", hardware: fault, expected: 8, state: unavailable,
			reasons: []string{wire.HealthGPUFault}, findings: []records.Finding{
				finding(condition.RemapFailed, sick, "A bad part of the memory of GPU 5 could not be replaced."),
				finding(condition.XidCritical, sick, "The kernel reported Xid 79 of GPU 5: it has fallen off the bus.")}},
		{name: "h200-13", tenant: "platform", provider: "bare_metal", hardware: hot, expected: 8,
			findings: []records.Finding{finding(condition.GPUHot, sick, "GPU 5 is at 94 °C; the limit is 90 °C.")}},
		{name: "vast-hung", tenant: "research", provider: "vast_ai", hardware: hung, expected: 2, state: unavailable,
			reasons:  []string{wire.HealthProbeHung},
			findings: []records.Finding{finding(condition.ProbeHung, "", "nvidia-smi does not come to an end since 12 minutes.")}},
		{name: "h200-unread", tenant: "platform", provider: "bare_metal", hardware: unread, expected: 8, state: unavailable,
			reasons: []string{wire.HealthProbeHung}},
		{name: "h200-gone", tenant: "platform", provider: "bare_metal", hardware: gone, expected: 8, state: unavailable,
			reasons: []string{wire.HealthGPUCountDropped}},
		{name: "vast-silent", tenant: "research", provider: "vast_ai", hardware: machine(r4090, 4, 90), expected: 4, heard: 3 * time.Hour,
			labels:   map[string]string{"price_per_hour": "1.99", "tier": "spot"},
			findings: []records.Finding{finding(condition.NodeStale, "", "Not heard from for 3 hours; it has cost 5.97 since.")}},
		{name: "vast-stale", tenant: "research", provider: "vast_ai", hardware: machine(r4090, 1, 12), expected: 1, heard: 7 * time.Minute},
		{name: "conflict-1", tenant: "research", provider: "vast_ai", hardware: machine(r4090, 1, 30), expected: 1, state: unavailable,
			reasons: []string{wire.ReasonConflict}},
		{name: "overdue-1", tenant: "platform", provider: "maas", hardware: machine(l40s, 2, 44), expected: 2,
			findings: []records.Finding{finding(condition.RenewalOverdue, "", "Its certificate ends in 4 h and was not renewed.")}},
	}
}

// manyNodes are n machines with 8 GPUs each.
func manyNodes(n int) []exhibit {
	all := make([]exhibit, n)
	for i := range all {
		all[i] = exhibit{name: fmt.Sprintf("gpu-%05d", i), tenant: []string{"platform", "research", "desk"}[i%3], provider: "bare_metal",
			expected: 8, labels: map[string]string{"site": strings.Fields("fra ams lon par")[i%4]}, hardware: machine(h200, 8, float64(i*29%97))}
	}
	return all
}
