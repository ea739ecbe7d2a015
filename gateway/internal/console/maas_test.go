package console_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/machines"
	"muster/store"
	"muster/store/engine"
)

// racked is a MAAS with a machine in every state, of which the second is a node that reports.
func (h *house) racked() {
	h.t.Helper()
	h.enrolled("rack-2", "platform", nil)
	h.must(h.store.Records().Change(h.t.Context(), []engine.Statement{
		engine.Do("UPDATE nodes SET provider = 'maas', instance_id = 'sys2' WHERE id = 'id-rack-2'")}))
	h.picture.Load(h.t.Context())
	at := func(minutes float64) *time.Time {
		t := h.now.Add(time.Duration(minutes * float64(time.Minute)))
		return &t
	}
	h.desk.metal.MAAS = machines.State{Enabled: true, URL: "http://maas.lab:5240/MAAS", Version: "3.6.1", SyncedAt: at(-.5), Known: true}
	for i, state := range []string{machines.StateReady, machines.StateDeployed, machines.StateDeploying, machines.StateFailed,
		machines.StateInstalled, machines.StateGone, machines.StateUnknown, machines.StateNew, machines.StateReady} {
		name := "rack-" + string(rune('1'+i))
		m := machines.Machine{SystemID: "sys" + string(rune('1'+i)), Hostname: name, State: state, StatusRaw: "Word of MAAS", Power: "off",
			Pool: "default", Zone: "hall-2", Node: name, NodeID: "id-" + name, NodeState: wire.StateReady, Profile: api.ProfileBareMetal,
			Tags: []string{api.ProfileBareMetal, "gpu"}, SeenAt: *at(-.5)}
		switch state {
		case machines.StateDeployed:
			m.Power, m.Owner, m.Series, m.NodeState, m.Heard, m.Locked = "on", "muster", "noble", wire.StateActive, wire.StatusOnline, true
			m.Finding, m.Next, m.Error = "tag_conflict", "decide which is right", "a text of MAAS"
		case machines.StateDeploying:
			m.NodeState, m.Heard, m.Deadline, m.Next = wire.StateDeploying, wire.StatusPending, at(40), "deploy: waits for: a quiet moment"
			m.Work = &machines.Work{Act: machines.ActDeploy, Step: "install", Since: *at(-5), By: "account:ada", Why: "HTTP 503: busy"}
		case machines.StateFailed:
			m.Finding, m.Next = "deploy_failed_elsewhere", "muster maas reset sys4"
		case machines.StateGone:
			m.Finding, m.Next = "gone", "enlist it again"
		case machines.StateNew:
			m.Hostname, m.Node, m.NodeID, m.NodeState, m.Profile, m.Power, m.Tags = "", "", "", "", "", "", nil
		}
		h.desk.metal.Machines = append(h.desk.metal.Machines, m)
	}
	h.desk.steps = machines.Plan{Steps: []machines.Step{
		{SystemID: "sys6", Hostname: "rack-6", Node: "rack-6", Finding: "gone", Severity: api.SeveritySevere,
			Text: "MAAS has it no more, and it is a node",
			Next: "enlist it again, or end it: muster maas decommission sys6"},
		{SystemID: "sys2", Hostname: "rack-2", Node: "rack-2", Finding: "tag_conflict", Severity: api.SeverityWarn,
			Text: "it has another tag", Next: "decide which is right"},
		{SystemID: "sys4", Hostname: "rack-4", Node: "rack-4", Finding: "deploy_failed_elsewhere", Severity: api.SeverityWarn,
			Text: "a deployment failed that muster has not on record", Next: "muster maas reset sys4"},
		{SystemID: "sys3", Hostname: "rack-3", Node: "rack-3", Finding: "in_work", Text: "something is done with it",
			Does: "deploy: waits for: its agent"}}}
}

// TestMAASPage: both states stand beside each other, what needs a look comes first, and an old view says so.
func TestMAASPage(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	lacks(t, "empty", b.get("/ui/maas"), "No machine was seen.", "not seen yet; nothing is done there until it is seen",
		"Nothing is known to be done", `aria-current="page">MAAS</a>`)
	h.racked()
	got := b.get("/ui/maas")
	whole(t, "maas", got)
	lacks(t, "maas", got, "http://maas.lab:5240/MAAS", "3.6.1", `Machines <span class="count">9</span>`,
		`What comes next <span class="count">4</span>`,
		`<a class="tile" href="/ui/maas?state=ready"><b>2</b>`, "●</span> deployed", "◐</span> deploying", "■</span> failed",
		"▲</span> installed", "■</span> gone", "◌</span> unknown", "◌</span> new", "■</span> gone</span>", "▲</span> deploy failed elsewhere",
		"◌</span> in work", "enlist it again, or end it: muster maas decommission sys6", "deploy: waits for: its agent",
		`href="/ui/nodes/id-rack-2"`,
		"▲</span> tag conflict", "decide which is right", "<b>deploy</b>, install", "in 40 m", "HTTP 503: busy",
		`title="Word of MAAS, muster has it"`,
		"locked", "<code>sys8</code>", "/ui/assets/refresh.js")
	waits := h.desk.metal.Machines[2].Work
	waits.Why = "a quiet moment"
	if body := b.get("/ui/maas").body; strings.Contains(body, "pending") || strings.Count(body, "a quiet moment") != 1 {
		t.Error("it says that a machine without an agent is pending, or says twice what is waited for")
	}
	_, list, _ := strings.Cut(got.body, `id="machines"`)
	var places []int
	for _, id := range []string{"sys6", "sys2", "sys4", "sys3", "sys1"} {
		places = append(places, strings.Index(list, `title="`+id+`"`))
	}
	if places[0] < 0 || !slices.IsSorted(places) {
		t.Errorf("the gravest does not come first, or what is well not last: %v", places)
	}
	lacks(t, "the findings", got, `<span class="mark bad"><span aria-hidden="true">■</span> gone</span> <span class="hint">enlist it again`,
		`<span class="detail">a text of MAAS</span> <span class="hint">decide which is right`)
	if first, second := strings.Index(got.body, "?state=new"), strings.Index(got.body, "?state=gone"); first < 0 || second < first {
		t.Error("the states are not in the order of a machine's life")
	}
	got = b.get("/ui/maas?state=failed")
	lacks(t, "one state", got, "All states", `Machines <span class="count">1</span>`, `aria-current="true"><b>1</b>`,
		`What comes next <span class="count">1</span>`, "deploy failed elsewhere")
	lacks(t, "a state that is well", b.get("/ui/maas?state=ready"), "Nothing is to be done with machines that are ready.")
	lacks(t, "no such state", b.get("/ui/maas?state=none"), "No machine is none.")
	for range 500 {
		h.desk.metal.Machines = append(h.desk.metal.Machines, machines.Machine{SystemID: "n", State: machines.StateReady})
	}
	lacks(t, "many", b.get("/ui/maas"), "and 9 more: <code>muster maas ls</code>")
	h.desk.metal = machines.List{MAAS: machines.State{SyncedAt: &h.now, FailedAt: &h.now, Error: "HTTP 502"}}
	h.desk.steps = machines.Plan{}
	lacks(t, "away", b.get("/ui/maas"), "■</span> cannot be seen since", "HTTP 502", "nothing is done there until it is seen")
	h.desk.metal.MAAS = machines.State{SyncedAt: &h.now, Known: true}
	lacks(t, "well", b.get("/ui/maas"), "Nothing is to be done: MAAS and muster agree.")
	h.desk.fault = wire.Refuse(wire.CodeUnavailable, "MAAS is off on this gateway", "muster serve --maas-url URL switches it on")
	if got := b.get("/ui/maas"); got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, "muster serve --maas-url URL") {
		t.Errorf("off: %d", got.status)
	}
	h.desk.fault = nil
	for _, account := range []store.Account{{Name: "lab", Tenant: "platform", Scopes: []string{api.ScopeNodesRead}},
		{Name: "none", Scopes: []string{api.ScopeTasksRead}}} {
		_, token := h.account(account)
		if got := h.browser(token).get("/ui/account"); strings.Contains(got.body, "/ui/maas") {
			t.Errorf("%s may not look, and is led there", account.Name)
		}
	}
}

// TestMachineOfNode: the page of a node that is a machine of MAAS says what MAAS says of it; that of another node asks MAAS nothing.
func TestMachineOfNode(t *testing.T) {
	h := newHouse(t)
	h.racked()
	h.enrolled("vast-1", "platform", nil)
	b := h.operator()
	got := b.get("/ui/nodes/rack-2")
	whole(t, "node", got)
	lacks(t, "node", got, "●</span> deployed", "in MAAS, seen", "MAAS calls it Word of MAAS, with noble", "<code>sys2</code>",
		"pool default, zone hall-2",
		"▲</span> tag conflict", "decide which is right", "a text of MAAS", `<span class="label">gpu</span>`, "locked")
	asks := func() bool { return slices.Contains(h.desk.asked, "GET maas/machines/id-rack-2") }
	if !asks() {
		t.Errorf("asked %q", h.desk.asked)
	}
	h.desk.asked = nil
	if got := b.get("/ui/nodes/vast-1"); got.status != http.StatusOK || strings.Contains(got.body, "In MAAS") ||
		strings.Contains(strings.Join(h.desk.asked, " "), "maas/") {
		t.Errorf("%d, asked %q", got.status, h.desk.asked)
	}
	_, token := h.account(store.Account{Name: "lab", Tenant: "platform", Scopes: []string{api.ScopeNodesRead}})
	if got := h.browser(token).get("/ui/nodes/rack-2"); got.status != http.StatusOK || strings.Contains(got.body, "In MAAS") || asks() {
		t.Errorf("an account of one tenant: %d", got.status)
	}
	h.desk.metal.Machines = nil
	if got := b.get("/ui/nodes/rack-2"); got.status != http.StatusOK || strings.Contains(got.body, "In MAAS") {
		t.Errorf("MAAS has it not: %d", got.status)
	}
}

// TestHostileMAAS: what MAAS says is text.
func TestHostileMAAS(t *testing.T) {
	h := newHouse(t)
	h.racked()
	b := h.operator()
	m := machines.Machine{SystemID: hostile, Hostname: hostile, StatusRaw: hostile, State: hostile, Power: hostile, Owner: hostile,
		Tags: []string{hostile}, Series: hostile, Pool: hostile, Zone: hostile, Error: hostile, Node: hostile, NodeID: "id-rack-2",
		NodeState: hostile,
		Heard:     hostile, Profile: hostile, Finding: hostile, Next: hostile, Deadline: &h.now,
		Work: &machines.Work{Act: hostile, Step: hostile, Why: hostile, By: hostile, Allocates: hostile}}
	h.desk.metal = machines.List{MAAS: machines.State{URL: hostile, Version: hostile, Error: hostile, FailedAt: &h.now},
		Machines: []machines.Machine{m}}
	h.desk.steps = machines.Plan{Steps: []machines.Step{{SystemID: hostile, Hostname: hostile, Node: hostile, Finding: hostile, Text: hostile,
		Does: hostile, Next: hostile, Severity: hostile}}}
	for _, path := range []string{"/ui/maas", "/ui/nodes/rack-2"} {
		got := b.get(path)
		whole(t, path, got)
		if got.status != http.StatusOK || strings.Contains(got.body, hostile) {
			t.Errorf("%s: %d, or something hostile is no text", path, got.status)
		}
	}
}
