package console_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/store"
)

// lacks says which texts a page does not have.
func lacks(t *testing.T, path string, got answer, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(got.body, want) {
			t.Errorf("%s: %d, and lacks %q", path, got.status, want)
		}
	}
	whole(t, path, got)
}

// TestAllocationsPage: the drawing, the queue and the table say who has what until when, and the filter is in the address.
func TestAllocationsPage(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	lacks(t, "empty", b.get("/ui/allocations"), "Nobody has a GPU", "muster alloc create", `aria-current="page">Allocations</a>`)
	h.placed()
	got := b.get("/ui/allocations?range=all&by=owner")
	lacks(t, "allocations", got, `class="lanes"`, `aria-label="hgx-1"`, "ada · research · 8 GPUs",
		`href="/ui/allocations/a-train" aria-label="a-train: 8 GPUs of hgx-2`,
		"■ cleanup blocked: rob · research · 1 GPU", "◐ cleaning: brian", `fill="url(#blocked)"`,
		"Waiting <span class=\"count\">3</span>", "It is next.", "2 ahead of it.",
		"2 whole nodes with 8 h200-sxm", "8 on <a href=\"/ui/nodes/hgx-1\">hgx-1</a>",
		"3 × h200-sxm-baremetal-8g, where site=fra, at most 20.00 an hour",
		"<b>20 of 24</b><span>GPUs of research", "<b>11</b><span>GPUs of platform", `aria-current="true">To the last end</a>`,
		`aria-current="true">Owners</a>`)
	if first, last := strings.Index(got.body, "a-wait-ken"), strings.Index(got.body, "a-wait-grace"); first > last {
		t.Error("the queue is not in its order")
	}
	got = b.get("/ui/allocations?owner=ada&tenant=research&node=hgx-1&state=released&cursor=x")
	asked := h.desk.asked[len(h.desk.asked)-2]
	for _, want := range []string{"owner=ada", "tenant=research", "node=hgx-1", "state=released", "all=true", "cursor=x", "limit=200"} {
		if !strings.Contains(asked, want) {
			t.Errorf("the API was asked %s, without %s", asked, want)
		}
	}
	lacks(t, "filtered", got, `value="ada"`, "<option selected>released", `rel="first">Newest`)
	h.desk.allocations.Next = "n2"
	lacks(t, "more", b.get("/ui/allocations?owner=ada"), `href="/ui/allocations?cursor=n2&amp;owner=ada" rel="next"`)
	h.desk.allocations = api.AllocationList{}
	lacks(t, "none", b.get("/ui/allocations?owner=ada"), "No allocation matches.")
	for query, want := range map[string]string{"range=year": "it can be week, day, all", "by=colour": "it can be tenant, owner"} {
		lacks(t, query, b.get("/ui/allocations?"+query), want)
	}
	h.desk.fault = wire.Refuse(wire.CodeBadRequest, "no such state", "muster help placement")
	refused := b.get("/ui/allocations?state=odd")
	lacks(t, "refused", refused, "no such state", "Show all allocations", `role="search"`)
	if refused.status != http.StatusBadRequest || b.get("/ui/allocations").status != http.StatusBadRequest {
		t.Errorf("refused: %d", refused.status)
	}
}

// TestAllocationPage: one allocation says all of itself, is extended at once, and asks before it is released.
func TestAllocationPage(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	h.placed()
	a := &h.desk.allocations.Allocations[0]
	price := 38.4
	a.User, a.Launch = &api.AllocationUser{Name: "ada", Keys: []string{"ssh-ed25519 AAAA"}, Sudo: true},
		&api.Launch{Type: wire.TaskWorkloadLaunch,
			Params: json.RawMessage(`{"image":"x"}`)}
	a.PerHour, a.Warned, a.Note = &price, true, "a big run"
	lacks(t, "allocation", b.get("/ui/allocations/a-train"), "16 GPUs of ada", "GPU-a-train-hgx-1-0", "38.40 an hour", "soon", "a big run",
		"may use sudo, 1 key",
		"&#34;image&#34;: &#34;x&#34;", `action="/ui/allocations/a-train/extend"`, `action="/ui/allocations/a-train/release"`,
		`href="/ui/skus/h200-sxm-baremetal-8g"`)
	got := b.get("/ui/allocations/a-left")
	lacks(t, "blocked", got, "Not all of its GPUs could be cleaned", "process 4711", "end the process on the node", "/ui/tasks/t-clean",
		"it has expired")
	if strings.Contains(got.body, "/release\"") || strings.Contains(got.body, "/extend\"") {
		t.Error("what has ended can be extended or released")
	}
	lacks(t, "waiting", b.get("/ui/allocations/a-wait-grace"), "2 allocations", "Leave the queue", "It has none yet.")

	done := b.post("/ui/allocations/a-train/extend", "for", "12h")
	if want := `POST allocations/a-train/extend {"seconds":43200}`; done.status != http.StatusSeeOther || h.desk.last() != want {
		t.Errorf("extend: %d, asked %s", done.status, h.desk.last())
	}
	bad := b.post("/ui/allocations/a-train/extend", "for", "long")
	if lacks(t, "bad", bad, `role="alert"`, "the field for", `value="long"`); bad.status != http.StatusBadRequest {
		t.Errorf("a bad length: %d", bad.status)
	}
	asks := b.post("/ui/allocations/a-train/release")
	lacks(t, "asks", asks, "Release a-train of ada?", "ada has 16 GPUs on ", "This cannot be undone.")
	if strings.HasPrefix(h.desk.last(), "POST") {
		t.Error("it was released without a question")
	}
	lacks(t, "leaves", b.post("/ui/allocations/a-wait-ken/release"), "leaves the queue")
	done = b.post("/ui/allocations/a-train/release", "sure", "yes")
	if done.status != http.StatusSeeOther || done.header.Get("Location") != "/ui/allocations/a-train" ||
		h.desk.last() != "POST allocations/a-train/release" {
		t.Errorf("release: %d to %s, asked %s", done.status, done.header.Get("Location"), h.desk.last())
	}
	for _, path := range []string{"/ui/allocations/none/release", "/ui/allocations/a-train/burn"} {
		if got := b.post(path, "sure", "yes"); got.status != http.StatusNotFound {
			t.Errorf("%s: %d", path, got.status)
		}
	}
	if got := b.get("/ui/allocations/none"); got.status != http.StatusNotFound {
		t.Errorf("one that is not there: %d", got.status)
	}
}

// TestSlotsPage: the table says what each slot is and what to do, and a decision asks first what a dry run has found.
func TestSlotsPage(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	lacks(t, "empty", b.get("/ui/slots"), "There is no slot yet", "muster profile assign")
	h.placed()
	h.desk.slots.Next = "n2"
	lacks(t, "slots", b.get("/ui/slots?node=hgx-6&sku=h200-sxm-gpu&state=approved&selector=site%3Dfra&tenant=x"), "0000:05:00.0",
		"cleanup blocked", "process 4711",
		`href="/ui/allocations/a-left"`, `name="slot" form="decide" value="sl507f3a"`, "2.19", "not approved", `value="site=fra"`, "cursor=n2",
		`name="back" value="/ui/slots?node=hgx-6&amp;selector=site%3Dfra`)
	for _, want := range []string{"node=hgx-6", "sku=h200-sxm-gpu", "state=approved", "selector=site%3Dfra", "tenant=x", "limit=200"} {
		if !strings.Contains(h.desk.last(), want) {
			t.Errorf("the API was asked %s, without %s", h.desk.last(), want)
		}
	}
	lacks(t, "second", b.get("/ui/slots?cursor=n2"), "First page")

	h.desk.decided.Slots[0].Allocation = "a-eval"
	form := []string{"slot", "sl507f3a", "slot", "sl517f3a", "reason", "bad fan", "back", "/ui/slots?node=hgx-6"}
	asks := b.post("/ui/slots/decide", append(form, "verb", "disable")...)
	lacks(t, "disable", asks, "Disable 3 slots?", "On hgx-7, hgx-8, 3 GPUs together.", "keeps them until the end: a-eval",
		"Already disabled: 1 of them.",
		`name="slot" value="sl677f3a"`, `name="slot" value="sl717f3a"`, `href="/ui/slots?node=hgx-6"`)
	if want := `POST slots/decide {"slots":["sl507f3a","sl517f3a"],"disable":true,"reason":"bad fan","dry_run":true}`; h.desk.last() != want {
		t.Errorf("asked %s", h.desk.last())
	}
	lacks(t, "approve", b.post("/ui/slots/decide", append(form, "verb", "approve")...), "Approve 3 slots?",
		"An approved slot can be allocated")
	done := b.post("/ui/slots/decide", append(form, "verb", "approve", "sure", "yes")...)
	if want := `POST slots/decide {"slots":["sl677f3a","sl707f3a","sl717f3a"],"reason":"bad fan"}`; done.status != http.StatusSeeOther ||
		h.desk.last() != want ||
		done.header.Get("Location") != "/ui/slots?node=hgx-6" {
		t.Errorf("decided: %d to %s, asked %s", done.status, done.header.Get("Location"), h.desk.last())
	}
	all := b.post("/ui/slots/decide", "all", "1", "node", "hgx-6", "selector", "site=fra", "verb", "approve", "slot", "sl1")
	if want := `POST slots/decide {"selector":"site=fra","node":"hgx-6","dry_run":true}`; h.desk.last() != want ||
		strings.Contains(all.body, `name="all"`) || !strings.Contains(all.body, `name="slot" value="sl677f3a"`) {
		t.Errorf("all of a node: asked %s, and the question does not name the slots", h.desk.last())
	}
	h.desk.decided = api.SlotsDecided{}
	lacks(t, "nothing", b.post("/ui/slots/decide", "all", "1", "node", "hgx-6", "verb", "approve"), "none of these nodes has a slot",
		`role="alert"`)
	for what, values := range map[string][]string{"no slot is selected": {"verb", "approve"}, "slots cannot be changed by": {"verb", "paint",
		"slot", "sl1"}} {
		got := b.post("/ui/slots/decide", values...)
		if lacks(t, what, got, what, `role="alert"`, `id="decide"`); got.status != http.StatusBadRequest {
			t.Errorf("%s: %d", what, got.status)
		}
	}
	h.desk.slots = api.SlotList{}
	lacks(t, "none", b.get("/ui/slots?node=hgx-6"), "No slot matches.")
	h.desk.fault = wire.Refuse(wire.CodeForbidden, "the account may not", "ask who may")
	if got := b.post("/ui/slots/decide", "verb", "approve", "slot", "sl1"); got.status != http.StatusForbidden || !strings.Contains(got.body,
		"the account may not") {
		t.Errorf("refused: %d", got.status)
	}
}

// TestSKUPages: what there is, and why not more.
func TestSKUPages(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	lacks(t, "empty", b.get("/ui/skus"), "There is no SKU yet")
	h.placed()
	lacks(t, "skus", b.get("/ui/skus"), `href="/ui/skus/h200-sxm-gpu" data-open`, "<b>31</b>", ">2.19</td>",
		`class="num"><span class="none">–</span>`)
	lacks(t, "sku", b.get("/ui/skus/h200-sxm-gpu"), "its model is h200-sxm", "its slots are not approved", "3 are allocated",
		`href="/ui/slots?sku=h200-sxm-gpu"`)
	h.desk.sku = api.SKUExplained{Nearest: []string{"h200-sxm-gpu"}}
	lacks(t, "nearest", b.get("/ui/skus/h300"), "No node qualifies", `href="/ui/skus/h200-sxm-gpu"`)
}

// TestNodePlacement: the page of a node says what it is made of, what it has proved, and who has each of its GPUs.
func TestNodePlacement(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	h.placed()
	machine := machine(h.now, "")
	machine.GPUs[0].UUID = "GPU-0"
	machine.GPUs[1].MIGInstances = []wire.MIGInstance{{Profile: "1g.18gb", UUID: "MIG-1a"}}
	h.hears("hgx-3", h.now, machine)
	lacks(t, "node", b.get("/ui/nodes/hgx-3"), "unproven", "its evidence does not show: ecc", "gpu-nvidia-h200", "8 x PCI 10de:2335",
		"3 checks, of which 2 not ok",
		"GPU 3: 2 uncorrected errors", "5820 MB/s", "6210.5 MB/s", "of 7 nodes", "it is alone of its kind", `href="/ui/tasks/t-look"`,
		`<a href="/ui/allocations/a-eval">linus</a>`, `<a href="/ui/allocations/a-left">dennis</a>`, "<code>GPU-passed</code>", "current")
	asks := b.post("/ui/nodes/id-hgx-3/check", "accept", "1")
	lacks(t, "check", asks, "Check hgx-3 now?", "measures the disk")
	done := b.post("/ui/nodes/id-hgx-3/check", "sure", "yes")
	if done.status != http.StatusSeeOther || h.desk.last() != "POST nodes/id-hgx-3/check {}" {
		t.Errorf("check: %d, asked %s", done.status, h.desk.last())
	}
	h.desk.evidence = api.NodeEvidence{}
	h.hears("hgx-1", h.now, machine)
	lacks(t, "bare", b.get("/ui/nodes/hgx-1"), ">nobody<", "Nothing is known of what it is made of", "◌</span> none")
	h.desk.fault = wire.Refuse(wire.CodeUnavailable, "the gateway has just started", "again in a moment")
	if got := b.get("/ui/nodes/hgx-1"); got.status != http.StatusServiceUnavailable {
		t.Errorf("without an answer: %d", got.status)
	}
}

// TestNodeUse: the page of a node says who has worked on its GPUs. What was not seen is a dash.
func TestNodeUse(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	h.placed()
	if got := b.get("/ui/nodes/hgx-3"); strings.Contains(got.body, "GPU use") {
		t.Error("nobody has worked there, and the page has a table of that")
	}
	h.desk.uses = api.GPUUseList{Total: 40, Uses: []api.GPUUse{
		{GPU: "GPU-0", Index: new(3), User: "ada", Program: "python3", Container: "3f1c2a90beef", Allocation: "a-train",
			Owner: "ada lovelace", From: h.now.Add(-time.Hour), Until: h.now, Now: true, MemoryMiB: new(int64(71680))},
		{GPU: "GPU-3f1c2a90-0000", User: hostile, Program: hostile, Allocation: "a-gone", From: h.now, Until: h.now}}}
	lacks(t, "use", b.get("/ui/nodes/hgx-3"), "GPU use", `title="GPU-0">3</td>`, ">ada</td>", ">python3</td>",
		"<code>3f1c2a90beef</code>", "70.0 GiB",
		`<a href="/ui/allocations/a-train">a-train</a> <span class="hint">of ada lovelace</span>`, `>a-gone</a></td>`, "</span> now",
		"&lt;script&gt;alert(1)",
		"<code>GPU-3f1c2a90</code>", "The last 2 of 40. All: <code>muster gpu history hgx-3</code>")
	whole(t, "use", b.get("/ui/nodes/hgx-3"))
	_, token := h.account(store.Account{Name: "none", Scopes: []string{api.ScopeNodesRead}})
	if got := h.browser(token).get("/ui/nodes/hgx-3"); !strings.Contains(got.body, "ada lovelace") || strings.Contains(got.body,
		"/ui/allocations") {
		t.Error("without the scope of placement: no owner, or a link")
	}
	h.desk.fault = wire.Refuse(wire.CodeUnavailable, "the gateway has just started", "again in a moment")
	if got := b.get("/ui/nodes/hgx-1"); got.status != http.StatusServiceUnavailable {
		t.Errorf("without an answer: %d", got.status)
	}
}

// TestPlacementScopes: an account sees and is offered what it may do, and no more.
func TestPlacementScopes(t *testing.T) {
	h := newHouse(t)
	h.placed()
	visit := func(name string, scopes ...string) *browser {
		_, token := h.account(store.Account{Name: name, Scopes: scopes})
		return h.browser(token)
	}
	reader := visit("reader", api.ScopePlacementRead, api.ScopeNodesRead)
	for _, path := range []string{"/ui/allocations/a-train", "/ui/slots", "/ui/nodes/hgx-3"} {
		if got := reader.get(path); got.status != http.StatusOK || strings.Contains(got.body, `method="post"`) {
			t.Errorf("%s: %d, or it offers a change", path, got.status)
		}
	}
	owner := visit("owner", api.ScopePlacementRead, api.ScopeAllocationsWrite)
	if got := owner.get("/ui/allocations/a-train"); !strings.Contains(got.body, "/extend\"") {
		t.Error("an owner is not offered to extend")
	}
	none := visit("none", api.ScopeNodesRead)
	if got := none.get("/ui/nodes/hgx-3"); got.status != http.StatusOK || strings.Contains(got.body, "Placement") ||
		strings.Contains(got.body, "/ui/allocations") {
		t.Errorf("without the scope: %d, or it tells of placement", got.status)
	}
	h.desk.fault = wire.Refuse(wire.CodeForbidden, "the allocation a-train belongs to ada", "ask its owner")
	if got := owner.post("/ui/allocations/a-train/extend", "for", "1h"); got.status != http.StatusForbidden || !strings.Contains(got.body,
		"belongs to ada") {
		t.Errorf("the API refuses: %d", got.status)
	}
	if got := owner.get("/ui/allocations?owner=ada"); got.status != http.StatusForbidden {
		t.Errorf("the list is refused: %d", got.status)
	}
}

// TestHostilePlacement: what people and machines wrote is text on every page.
func TestHostilePlacement(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	h.placed()
	at := h.now.Add(time.Hour)
	evil := api.Allocation{ID: hostile, Owner: hostile, Tenant: hostile, SKU: hostile, Wish: api.Wish{SKU: hostile, Selector: hostile},
		Note:  hostile,
		State: api.AllocationAllocated, ClaimedAt: &h.now, EndsAt: &at, WaitsFor: hostile, EndedWhy: hostile,
		Slots: []api.AllocatedSlot{{Slot: hostile, Node: hostile,
			NodeID: hostile, GPUs: []string{hostile}, State: api.SlotBlocked, Reason: hostile, Next: hostile}},
		User: &api.AllocationUser{Name: hostile}, Launch: &api.Launch{Type: hostile, Params: json.RawMessage(`"</code><script>"`)},
		Tasks: []api.AllocationTask{{ID: hostile, Node: hostile, Type: hostile, Status: hostile, Error: hostile}}}
	queued := evil
	queued.ID, queued.State, queued.Slots = "a-evil", api.AllocationWaiting, nil
	shown := evil
	shown.ID = "a-shown"
	h.desk.allocations = api.AllocationList{Allocations: []api.Allocation{evil, queued, shown}, Total: 3, Next: hostile}
	h.desk.quotas.Quotas[0].Tenant = hostile
	h.desk.slots = api.SlotList{Slots: []api.Slot{{ID: hostile, Node: hostile, Shape: hostile, SKUs: []string{hostile}, State: hostile,
		Reason: hostile, Next: hostile,
		Units: []api.Unit{{PCI: hostile, UUID: hostile}}, Allocation: hostile, DecidedBy: hostile}}}
	h.desk.decided.Slots = h.desk.slots.Slots
	h.desk.skus.SKUs = []api.SKU{{Name: hostile, Model: hostile, Shape: hostile}}
	h.desk.sku = api.SKUExplained{SKU: h.desk.skus.SKUs[0], Rules: []string{hostile}, Nearest: []string{hostile},
		Counts: []api.SKUCount{{Why: hostile}},
		List:   []api.SKUVerdict{{Node: hostile, Why: []string{hostile}}}}
	h.desk.evidence = api.NodeEvidence{Profile: hostile, Missing: []string{hostile}, Pending: hostile, Tags: []api.Tag{{Name: hostile,
		From: hostile}},
		Evidence: &wire.Evidence{Checks: []wire.Check{{Name: hostile, State: hostile, Saw: hostile}}},
		Figures:  []api.FigureBeside{{Figure: wire.Figure{Name: hostile, Unit: hostile}}}}
	h.picture.Placed("id-hgx-3", &api.NodePlacement{Capacity: hostile, Reasons: []string{hostile}, Holds: []api.GPUHold{{GPU: hostile,
		Allocation: hostile, Owner: hostile, Tenant: hostile, State: hostile, EndsAt: at}}})
	q := "?" + url.Values{"owner": {hostile}, "node": {hostile}, "selector": {hostile}, "sku": {hostile}, "range": {hostile}}.Encode()
	for _, path := range []string{"/ui/allocations", "/ui/allocations" + q, "/ui/allocations/a-shown", "/ui/allocations/a-evil", "/ui/slots",
		"/ui/slots" + q,
		"/ui/skus", "/ui/skus/x", "/ui/nodes/hgx-3"} {
		got := b.get(path)
		if got.status != http.StatusOK || !strings.Contains(got.body, "&lt;script&gt;alert(1)") {
			t.Errorf("%s: %d, or the text is not there", path, got.status)
		}
		whole(t, path, got)
	}
	for path, verb := range map[string]string{"/ui/allocations/a-shown/release": "", "/ui/slots/decide": "disable"} {
		got := b.post(path, "verb", verb, "slot", hostile)
		if !strings.Contains(got.body, "&lt;script&gt;alert(1)") {
			t.Errorf("%s: %d", path, got.status)
		}
		whole(t, path, got)
	}
}
