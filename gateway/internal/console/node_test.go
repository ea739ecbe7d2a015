package console_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/console/picture"
	"muster/gateway/internal/history"
	"muster/gateway/internal/view"
	"muster/store"
)

func some[T any](v T) *T { return &v }

// board is a GPU of which everything is told. what stands in for each text.
func board(index int, what string) wire.GPU {
	return wire.GPU{
		Index: index, UUID: fmt.Sprintf("GPU-%d-%s", index, what), Name: "H200 " + what, BusID: "00:01 " + what, Vendor: wire.VendorNVIDIA,
		ComputeCapability: some("9.0"), MemoryTotalMiB: some[int64](143771), MemoryUsedMiB: some[int64](71885),
		MemoryReservedMiB: some[int64](600), MemorySource: wire.MemoryDevice, UtilizationPercent: some(99.0),
		MemoryUtilizationPercent: some(41.0), EncoderUtilizationPercent: some(0.0), DecoderUtilizationPercent: some(0.0),
		TemperatureCelsius: some(64.0), MemoryTemperatureCelsius: some(71.0), FanPercent: some(33.0), PowerWatts: some(612.5),
		PowerLimitWatts: some(700.0), PowerMaxLimitWatts: some(700.0), PerformanceState: some(0), PersistenceMode: some(true),
		Clocks: &wire.Clocks{SMMHz: some[int64](1980), MemoryMHz: some[int64](2619), Reasons: []string{"sw_power_cap"}},
		PCIe:   &wire.PCIe{Generation: some(4), GenerationMax: some(5), Width: some(16), WidthMax: some(16)},
		ECC: &wire.ECC{Enabled: some(true), CorrectedVolatile: some[int64](3), UncorrectedVolatile: some[int64](1),
			CorrectedAggregate: some[int64](5), UncorrectedAggregate: some[int64](2)},
		RemappedRows:        &wire.Remaps{Correctable: some[int64](1), Uncorrectable: some[int64](2), Pending: some(true), Failure: some(true)},
		RetiredPagesPending: some(false), RecoveryAction: some("reset"), Fabric: &wire.Fabric{State: some("completed"), Status: some("success")},
		NVLinks: &wire.NVLinks{Total: some(18), Down: some(1)}, MIG: some(true),
		MIGInstances: []wire.MIGInstance{{Profile: "1g.10gb"}, {Profile: "1g.10gb"}, {Profile: "3g.40gb"}},
		Processes:    &wire.Processes{Count: some(3), MemoryUsedMiB: some[int64](20480)}, Health: []string{"ill " + what},
	}
}

// machine is a reading of a node with two such GPUs.
func machine(at time.Time, what string) *wire.Hardware {
	return &wire.Hardware{Probe: wire.Probe{State: wire.ProbeOK, SampledAt: &at, TookMS: some[int64](41)}, DriverVersion: some("590 " + what),
		CUDAVersion: some("13.1"),
		GPUs:        []wire.GPU{board(0, what), board(1, what)}, CPUs: some(96), MemoryTotalMiB: some[int64](1547000),
		MemoryUsedMiB: some[int64](212000), DiskTotalMiB: some[int64](7200000), DiskUsedMiB: some[int64](1900000), Load1: some(12.5),
		Kernel: some("6.1 " + what), BootTime: &at,
		Xids: &wire.Xids{State: wire.KernelRead, Events: []wire.Xid{{At: at, Kind: wire.XidReport, Code: some(79), Text: "Xid " + what}}}}
}

// hears has the gateway hear a node, as of then. Without hardware it says nothing of it.
func (h *house) hears(name string, at time.Time, hardware *wire.Hardware, notices ...string) {
	h.t.Helper()
	text := ""
	if hardware != nil {
		raw, err := json.Marshal(hardware)
		h.must(err)
		text = string(raw)
	}
	beat := store.Beat{NodeID: "id-" + name, At: at, RunID: "0123456789abcdef", Counter: 1, Interval: 30 * time.Second, SkewMillis: 1500,
		Address: "203.0.113.7", Agent: `{"version":"1.4.0","os":"linux","arch":"amd64"}`, Notices: notices, Hardware: text,
		Cost: `{"rss_kib":6400,"cpu_ms":250,"probe_ms":41,"starts":{"recent":4,"crashes":2,"why":"a signal"}}`, Enrolment: "e-" + name,
		Runs: []store.Run{{ID: "0123456789abcdef", Fingerprint: "print-" + name, Address: "203.0.113.7", First: at, Last: at, LastBeat: 1}}}
	h.must(h.store.SaveBeats(h.t.Context(), []store.Beat{beat}, at))
}

// happens puts an event of a node on record.
func (h *house) happens(name, kind string) {
	h.t.Helper()
	h.must(h.store.AddEvents(h.t.Context(), store.Event{At: h.now, Kind: kind, NodeID: "id-" + name, NodeName: name, Tenant: "platform",
		Outcome: store.OutcomeOK}))
}

// remembers puts samples of a node into the history, one each 30 seconds, and leaves some minutes out.
func (h *house) remembers(name string, minutes int, without func(minute int) bool) {
	h.t.Helper()
	h.history.Turn(h.t.Context())
	begin := h.now.Add(-time.Duration(minutes) * time.Minute)
	var samples []view.Sample
	for i := range 2 * minutes {
		at := begin.Add(time.Duration(i) * 30 * time.Second)
		if !without(i / 2) {
			samples = append(samples, view.Sample{NodeID: "id-" + name, At: at, Interval: 30 * time.Second, Hardware: machine(at, "x"),
				Cost: &wire.Cost{RSSKiB: some[int64](6400), ProbeMillis: some[int64](41)}})
		}
	}
	h.history.Take(h.t.Context(), samples)
	h.history.Turn(h.t.Context())
}

// TestNodePage: the page of a node that is well says all that is known of it, and its plots have a gap if nothing was heard.
func TestNodePage(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	h.enrolled("gpu-1", "platform", map[string]string{"price_per_hour": "1.99", "tier": "spot"})
	h.hears("gpu-1", h.now, machine(h.now, "x"))
	h.happens("gpu-1", "node.enrolled")
	h.remembers("gpu-1", 50, func(minute int) bool { return minute >= 20 && minute < 30 })
	got := b.get("/ui/nodes/gpu-1")
	whole(t, "node", got)
	for _, want := range []string{"<h1>gpu-1</h1>", "online", "active", "1.99 an hour", "tier=spot", "H200 x", "99 %", "70.2 GiB / 140.4 GiB",
		"612 / 700 W", "64 °C", "MIG 2 × 1g.10gb, 1 × 3g.40gb", "gen 4 x16 of gen 5 x16", "18 links, 1 down", "1.5 s behind the gateway",
		"12.5 on 96 CPUs", "Xid x", "6.2 MiB memory, 41 ms in nvidia-smi", "4 lately, 2 after a crash: a signal", "590 x, CUDA 13.1", "linux amd64",
		"generation", "The last hour", `action="/ui/nodes/id-gpu-1/drain"`, "/ui/tasks/new?node=gpu-1", "node.enrolled",
		`data-stream="/ui/api/stream?kinds=node%2Ctask%2Cevent&amp;selector=name%3Dgpu-1"`} {
		if !strings.Contains(strings.ToLower(got.body), strings.ToLower(want)) {
			t.Errorf("the page lacks %q", want)
		}
	}
	figures := strings.Split(got.body, "<figure")[1:]
	if len(figures) != len(picture.Charts()) {
		t.Fatalf("%d plots", len(figures))
	}
	lines := regexp.MustCompile(`data-gpu="(GPU-[^"]*)" d="M[^"M]*M[^"M]*"`).FindAllString(figures[0], -1)
	gaps := strings.Count(figures[0], `class="gap"`)
	if len(lines) != 2 || gaps != 2 || !strings.Contains(figures[0], ">GPU 1 <b") || !strings.Contains(figures[0], ">100</text>") {
		t.Errorf("%d lines with one break, %d gaps: the one in the middle and the one before: %s", len(lines), gaps, figures[0])
	}
	for _, c := range []struct{ query, want string }{{"day", "The last day"}, {"week", "The last week"}, {"month", "The last month"},
		{"eternity", "The last hour"}} {
		got := b.get("/ui/nodes/gpu-1?range=" + c.query)
		if !strings.Contains(got.body, c.want) || !strings.Contains(got.body, `aria-current="true"`) {
			t.Errorf("%s: %d", c.query, got.status)
		}
		whole(t, c.query, got)
	}
	light := b.get("/ui/nodes/gpu-1?plots=off")
	if strings.Contains(light.body, "<figure") || !strings.Contains(light.body, "H200 x") {
		t.Error("without plots the page is not what it is with them, but for the plots")
	}
	series := regexp.MustCompile(`data-series="([^"]*)"`).FindStringSubmatch(figures[0])[1]
	var told api.Series
	if answer := b.get(strings.ReplaceAll(series, "&amp;", "&")); json.Unmarshal([]byte(answer.body), &told) != nil || len(told.Series) != 2 {
		t.Errorf("%s: %d %.300s", series, answer.status, answer.body)
	}
}

// TestNodeTroubles: what is wrong comes with what to do, and what is not known is not 0.
func TestNodeTroubles(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	h.history.Turn(t.Context())
	has := func(name string, wants ...string) {
		t.Helper()
		got := b.get("/ui/nodes/" + name)
		whole(t, name, got)
		for _, want := range wants {
			word, not := strings.CutPrefix(want, "!")
			if strings.Contains(got.body, word) == not {
				t.Errorf("%s: %q is wrong", name, want)
			}
		}
	}
	h.enrolled("never", "platform", nil)
	has("never", "It has not reported yet", "never heard", "Help: not-joining", "!0 %", "Nothing is known of the last hour", "!<figure")

	h.enrolled("none", "platform", nil)
	without := machine(h.now, "x")
	without.GPUs = nil
	without.Probe = wire.Probe{State: wire.ProbeAbsent}
	h.hears("none", h.now, without)
	h.history.Take(t.Context(), []view.Sample{{NodeID: "id-none", At: h.now.Add(-time.Minute), Interval: time.Minute, Hardware: without}})
	has("none", "This machine has no GPU", "!values are old", "!<th>Utilisation", "!gpu_power_watts", "metric=load1")

	h.enrolled("mute", "platform", nil)
	mute := machine(h.now, "x")
	mute.GPUs = []wire.GPU{{Index: 0, UUID: "GPU-0", Name: "NVIDIA GB10", MemorySource: wire.MemoryUnified}}
	mute.MemoryUsedMiB = nil
	h.hears("mute", h.now, mute)
	has("mute", "memory is shared with the CPU", "!>0 %", "!>0 °C", "!>0 W", `class="hatched"`)

	h.enrolled("hung", "platform", nil)
	hung := machine(h.now.Add(-12*time.Minute), "x")
	hung.Probe.State = wire.ProbeHung
	hung.Probe.Error = "it did not end within 20 s"
	hung.Probe.Since = some(h.now.Add(-11 * time.Minute))
	h.hears("hung", h.now, hung)
	h.health.Take(t.Context(), []view.Sample{{NodeID: "id-hung", At: h.now, Interval: time.Minute, Hardware: hung}})
	h.health.Counts("id-hung", time.Minute, []string{wire.HealthProbeHung}, map[string]string{wire.HealthProbeHung: "it did not end"})
	h.must(h.store.MoveNode(t.Context(), store.Move{NodeID: "id-hung", From: wire.StateActive, To: wire.StateUnavailable, At: h.now,
		AddReasons: []store.Reason{{Reason: wire.HealthProbeHung}}}))
	has("hung", "it did not end within 20 s", "these values are old", `class="cards gpus old"`, "What is wrong", "severe", "!Why it is",
		"a stuck driver rarely comes back by itself", "Help: no-telemetry")
}

// TestNodeSilent: of a node that died quietly the page says since when, what that has cost, its last words, and what to do.
func TestNodeSilent(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	h.enrolled("gone", "platform", map[string]string{"price_per_hour": "1.50"})
	h.enrolled("free", "platform", nil)
	h.hears("gone", h.now, machine(h.now, "x"), "the disk is full")
	h.hears("free", h.now, nil)
	h.happens("gone", "node.enrolled")
	h.now = h.now.Add(4 * time.Hour)
	got := b.get("/ui/nodes/gone").body
	for _, want := range []string{"Silent and still billing", "At 1.5 an hour it has cost <b>6.00</b>", "the disk is full", "GPU 0: 99 %",
		"its agent had ended before: a signal", "muster node retire gone", "Help: stale-node", "node.enrolled", "4 h ago",
		`action="/ui/nodes/id-gone/retire"`} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	got = b.get("/ui/nodes/free").body
	if !strings.Contains(got, "Silent</span>") || strings.Contains(got, "has cost") {
		t.Error("a node without a price is not told as one")
	}
	h.history.Turn(t.Context())
	got = b.get("/ui/nodes/free").body
	if !strings.Contains(got, "Nothing is known of the last hour") ||
		!strings.Contains(got, `range=day#plots" data-range="day">The last day<`) {
		t.Error("empty plots do not lead to the time in which it was heard")
	}
	b.post("/ui/nodes/free/retire", "sure", "yes")
	got = b.get("/ui/nodes/id-free").body
	if strings.Contains(got, "Silent") || strings.Contains(got, "/retire") || strings.Contains(got, "data-stream") {
		t.Error("a node that was given back is told as a silent one")
	}
}

// TestNodeHostile: no text that a node can send leaves its place in the page.
func TestNodeHostile(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	h.enrolled("gpu-1", "platform", map[string]string{"note": hostile, "price_per_hour": "1"})
	h.hears("gpu-1", h.now, machine(h.now, hostile), hostile)
	hung := machine(h.now, hostile)
	h.health.Take(t.Context(), []view.Sample{{NodeID: "id-gpu-1", At: h.now, Interval: time.Minute, Hardware: hung}})
	h.health.Counts("id-gpu-1", time.Minute, []string{wire.HealthProbeHung}, map[string]string{wire.HealthProbeHung: hostile})
	h.must(h.store.AddEvents(t.Context(), store.Event{At: h.now, Kind: hostile, NodeID: "id-gpu-1", NodeName: "gpu-1", Tenant: "platform",
		Actor: hostile, Outcome: hostile, Detail: map[string]string{hostile: hostile}}))
	h.must(h.store.MoveNode(t.Context(), store.Move{NodeID: "id-gpu-1", From: wire.StateActive, To: wire.StateUnavailable, At: h.now,
		AddReasons: []store.Reason{{Reason: wire.ReasonConflict, Detail: hostile}, {Reason: hostile}}}))
	b.post("/ui/tasks", "node", "gpu-1", "type", wire.TaskDiagCollect)
	h.remembers("gpu-1", 5, func(int) bool { return false })
	got := b.get("/ui/nodes/gpu-1")
	whole(t, "hostile", got)
	if strings.Count(got.body, "&lt;script&gt;alert(1)") < 12 || !strings.Contains(got.body, "Keep this one") {
		t.Errorf("the page does not show it: %d", strings.Count(got.body, "&lt;script&gt;alert(1)"))
	}
	h.now = h.now.Add(time.Hour)
	whole(t, "hostile and silent", b.get("/ui/nodes/gpu-1"))
	whole(t, "a question", b.post("/ui/nodes/gpu-1/labels", "set", "a="+strings.ReplaceAll(hostile, ",", "")))
	whole(t, "a refusal", b.post("/ui/nodes/gpu-1/labels", "remove", hostile, "sure", "yes"))
}

// TestTwins: two machines with one certificate are one choice, and what is not known of a node's GPUs is no 0.
func TestTwins(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	h.enrolled("gpu-1", "platform", nil)
	gone := wire.Hardware{Probe: wire.Probe{State: wire.ProbeAbsent, Error: "no nvidia-smi on this machine"}}
	h.must(h.store.SetGPUs(t.Context(), "id-gpu-1", 8, true))
	var runs []store.Run
	for i, print := range []string{"first", "second", "first"} {
		runs = append(runs, store.Run{ID: fmt.Sprint("5f1c0a9e77d2b34", i), Fingerprint: print, First: h.now, Last: h.now, LastBeat: 1})
	}
	raw, err := json.Marshal(gone)
	h.must(err)
	h.must(h.store.SaveBeats(t.Context(), []store.Beat{{NodeID: "id-gpu-1", At: h.now.Add(time.Second), Interval: time.Minute,
		Hardware: string(raw), Enrolment: "e-gpu-1", Runs: runs}}, h.now))
	h.must(h.store.MoveNode(t.Context(), store.Move{NodeID: "id-gpu-1", From: wire.StateActive, To: wire.StateUnavailable, At: h.now,
		AddReasons: []store.Reason{{Reason: wire.ReasonConflict}}}))
	got := b.get("/ui/nodes/gpu-1")
	buttons, copies := strings.Count(got.body, "Keep this one"), strings.Count(got.body, "the same certificate")
	if buttons != 2 || copies != 1 {
		t.Errorf("%d choices, %d copies", buttons, copies)
	}
	if !strings.Contains(got.body, "– of 8 expected") || strings.Contains(got.body, "has no GPU") {
		t.Errorf("%s", got.body)
	}
}

// TestNodeActs: each act names what happens and waits for a yes. The API's refusal stands on the page.
func TestNodeActs(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	h.enrolled("gpu-1", "platform", nil)
	for _, step := range []struct {
		verb   string
		fields []string
		asks   string
		event  string
	}{
		{"drain", nil, "A drained node gets no new work", "node.drained"},
		{"resume", nil, "A resumed node gets work again", "node.resumed"},
		{"labels", []string{"set", "tier=a, site=b", "remove", "old"}, "Set tier=a.", "node.labelled"},
		{"gpus", []string{"gpus", "7"}, "It should have 7 GPUs", "node.gpus_expected"},
		{"gpus", nil, "as many GPUs as are seen", "node.gpus_expected"},
		{"allow-recovery", nil, "For an hour its certificate may renew", "node.recovery_allowed"},
		{"retire", nil, "Its certificates end at once", "node.retired"},
	} {
		path := "/ui/nodes/id-gpu-1/" + step.verb
		before := len(h.events(step.event))
		asks := b.post(path, step.fields...)
		if asks.status != http.StatusOK || !strings.Contains(asks.body, step.asks) || !strings.Contains(asks.body, "gpu-1") ||
			!strings.Contains(asks.body, `name="sure"`) || len(h.events(step.event)) != before {
			t.Errorf("%s does not ask: %d %s", step.verb, asks.status, asks.body)
		}
		got := b.post(path, append(step.fields, "sure", "yes")...)
		if got.status != http.StatusSeeOther || got.header.Get("Location") != "/ui/nodes/gpu-1" || len(h.events(step.event)) != before+1 {
			t.Errorf("%s: %d %d", step.verb, got.status, len(h.events(step.event))-before)
		}
	}
	h.enrolled("gpu-2", "platform", nil)
	for _, c := range []struct {
		path   string
		fields []string
		status int
		says   string
	}{
		{"gpu-2/labels", nil, http.StatusBadRequest, "there is no label to set"},
		{"gpu-2/labels", []string{"set", "tier"}, http.StatusBadRequest, "<h1>gpu-2</h1>"},
		{"gpu-2/gpus", []string{"gpus", "many"}, http.StatusBadRequest, "gpus is no whole number"},
		{"gpu-2/allow-recovery", []string{"fingerprint", "nonsense", "sure", "yes"}, http.StatusBadRequest, "<h1>gpu-2</h1>"},
		{"gpu-2/dance", nil, http.StatusNotFound, "a node cannot do this"},
		{"gpu-2/resume", []string{"sure", "yes"}, http.StatusSeeOther, ""},
		{"id-gpu-1/drain", []string{"sure", "yes"}, http.StatusConflict, "cannot drain"},
		{"nobody/drain", []string{"sure", "yes"}, http.StatusNotFound, "nobody"},
	} {
		got := b.post("/ui/nodes/"+c.path, c.fields...)
		if got.status != c.status || !strings.Contains(got.body, c.says) {
			t.Errorf("%s: %d %.2000s", c.path, got.status, got.body)
		}
	}
	asks := b.post("/ui/nodes/gpu-2/allow-recovery", "fingerprint", "print-gpu-2")
	if !strings.Contains(asks.body, "The certificate print-gpu-2 becomes the only good one") {
		t.Errorf("keeping one certificate does not ask: %d", asks.status)
	}
	asks = b.post("/ui/nodes/gpu-2/ban")
	if !strings.Contains(asks.body, "are refused from now on") {
		t.Errorf("ban does not ask: %d", asks.status)
	}
	b.post("/ui/nodes/gpu-2/ban", "sure", "yes")
	if got := b.get("/ui/nodes/id-gpu-2"); !strings.Contains(got.body, "banned") {
		t.Errorf("a banned node is not shown as one: %d", got.status)
	}
}

// TestNodeScopes: an account sees what it may see, and no button for what it may not do.
func TestNodeScopes(t *testing.T) {
	h := newHouse(t)
	h.operator()
	h.enrolled("gpu-1", "platform", nil)
	h.hears("gpu-1", h.now, machine(h.now, "x"))
	_, token := h.account(store.Account{Name: "viewer", Tenant: "platform", Scopes: []string{api.ScopeNodesRead}})
	got := h.browser(token).get("/ui/nodes/gpu-1")
	if got.status != http.StatusOK || strings.Contains(got.body, `method="post" action="/ui/nodes`) ||
		strings.Contains(got.body, "node.enrolled") || strings.Contains(got.body, "/ui/tasks") || !strings.Contains(got.body, "kinds=node&amp;") {
		t.Errorf("a viewer's page: %d %s", got.status, got.body)
	}
	if got := h.browser(token).post("/ui/nodes/gpu-1/drain", "sure", "yes"); got.status != http.StatusForbidden {
		t.Errorf("a viewer drains a node: %d", got.status)
	}
}

// TestNodeWithoutHistory: where the gateway has no history, the page says so in the place of the plots.
func TestNodeWithoutHistory(t *testing.T) {
	h := newHouse(t)
	h.enrolled("gpu-1", "platform", nil)
	got := h.operator().get("/ui/nodes/gpu-1")
	if got.status != http.StatusOK || !strings.Contains(got.body, "history&#39;s file is not open") || strings.Contains(got.body, "<figure") {
		t.Errorf("got %d", got.status)
	}
}

// TestCharts: each plot shows a metric that history keeps, and says rightly whose it is.
func TestCharts(t *testing.T) {
	kept := map[string]bool{}
	for _, m := range history.Metrics() {
		kept[m.Name] = m.PerGPU
	}
	for _, c := range picture.Charts() {
		if perGPU, known := kept[c.Metric]; !known || perGPU != c.GPU {
			t.Errorf("history keeps no metric %s", c.Metric)
		}
	}
}

// TestNodeInLinks: a name stands in paths and queries as it must there.
func TestNodeInLinks(t *testing.T) {
	h := newHouse(t)
	b := h.operator()
	h.enrolled("a.b_c", "platform", nil)
	got := b.get("/ui/nodes/" + url.PathEscape("a.b_c"))
	if got.status != http.StatusOK || !strings.Contains(got.body, `href="/ui/nodes/a.b_c?range=week#plots"`) {
		t.Errorf("got %d", got.status)
	}
}
