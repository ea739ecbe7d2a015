package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/kit"
	"muster/store"
)

const (
	probeOK   = `"probe":{"state":"ok","took_ms":81,"sampled_at":"2026-11-21T09:59:56Z"}`
	probeHung = `"probe":{"state":"hung","since":"2026-11-21T09:56:00Z","error":"nvidia-smi passed its deadline"}`
	h100      = `"memory_source":"device","memory_total_mib":81559,"memory_used_mib":39233,"utilization_percent":99,` +
		`"temperature_celsius":64,"power_watts":512.25,"power_limit_watts":700,"mig":false,"health":[]`
)

// example is the fleet of the design's example.
func example(t testing.TB) *house {
	h := newHouse(t)
	h.node(store.Node{Name: "vast-h100-39467543", Tenant: "platform", Provider: "vast_ai", InstanceID: "39467543"}, 4*time.Second,
		`{`+probeOK+`,`+gpus(1, "NVIDIA H100 80GB HBM3",
			h100)+`,"driver_version":"590.48.01","cuda_version":"13.1","cpus":64,"memory_total_mib":515000,"memory_used_mib":9000,`+
			`"disk_total_mib":null,"disk_used_mib":null,"load1":1.25,"kernel":"6.8.0","boot_time":"2026-11-18T10:00:00Z"}`)
	h.node(store.Node{Name: "node-dgx-spark", Tenant: "platform"}, 12*time.Second,
		`{`+probeOK+`,`+gpus(1, "NVIDIA GB10",
			`"memory_source":"unified","memory_total_mib":122000,"memory_used_mib":900,"utilization_percent":3`)+`}`)
	return h
}

func TestNodeList(t *testing.T) {
	h := example(t)
	want := `NAME                TENANT    PROVIDER  GPU                MEMORY           UTIL  STATE   STATUS  SEEN
node-dgx-spark      platform  -         1x GB10            unified          3%    active  online  12s
vast-h100-39467543  platform  vast_ai   1x H100 80GB HBM3  39233/81559 MiB  99%   active  online  4s
2 nodes: 2 online, 0 stale
`
	h.node(store.Node{Name: "given-back", Tenant: "x"}, time.Second, "")
	h.done("node", "retire", "given-back", "--yes")
	if got := h.done("node", "ls"); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	for _, c := range []struct{ args, footer string }{
		{"node ls -l tier=sovereign,provider=vast_ai", "1 node: 1 online, 0 stale"},
		{"-o wide node ls --selector=name=node-dgx-spark", "1 node: 1 online, 0 stale"},
		{"node ls --status stale", "0 nodes: 0 online, 0 stale"},
		{"node --state drained ls", "0 nodes: 0 online, 0 stale"},
		{"node ls --all", "3 nodes: 2 online, 0 stale, 1 retired"},
	} {
		out := h.done(strings.Fields(c.args)...)
		if lines := strings.Split(strings.TrimSpace(out), "\n"); lines[len(lines)-1] != c.footer || !strings.HasPrefix(lines[0], "NAME") {
			t.Errorf("%s: got\n%s", c.args, out)
		}
	}
}

// TestNodeListFindings: the wide list says what rules of health have found on a node, each rule once.
func TestNodeListFindings(t *testing.T) {
	h := example(t)
	h.api.Overview.Load(t.Context())
	h.api.Overview.Findings("id-vast-h100-39467543", []api.Finding{{Rule: "gpu_hot", Severity: api.SeverityWarn, Text: "GPU 0: 95 C\x1b"},
		{Rule: "gpu_hot", Severity: api.SeverityWarn, Text: "GPU 1: 96 C"}, {Rule: "disk_full", Severity: api.SeverityWarn, Text: "97 %"}})
	if out := h.done("node", "ls", "-o", "wide"); !strings.Contains(out, `  disk_full: 97 %; gpu_hot: GPU 0: 95 C\x1b, and 1 more  `) {
		t.Error(out)
	}
	if out := h.done("node", "ls", "-o", "wide", "-l", "name=node-dgx-spark"); strings.Contains(out, "gpu_hot") {
		t.Error(out)
	}
}

// TestNodeListOfEveryKind lists nodes of which everything is unknown that can be, and nodes whose text could harm a terminal.
func TestNodeListOfEveryKind(t *testing.T) {
	h := example(t)
	partly := `"memory_total_mib":81559,"memory_used_mib":null,"utilization_percent":null`
	nodes := []struct {
		name, hardware string
		seen           time.Duration
	}{
		{"a-pending", "", -1},
		{"b-silent", "", 3 * time.Hour},
		{"c-eight", `{` + probeOK + `,` + gpus(8, "NVIDIA H100 80GB HBM3", h100) + `}`, 0},
		{"d-hung", `{` + probeHung + `,` + gpus(1, "NVIDIA H100 80GB HBM3", h100) + `}`, time.Second},
		{"e-failed", `{"probe":{"state":"failed"},"gpus":[]}`, time.Second},
		{"f-absent", `{"probe":{"state":"absent"},"gpus":[]}`, time.Second},
		{"g-missing", `{` + probeOK + `,` + gpus(7, "NVIDIA L40S", partly) + `}`, 49 * time.Hour},
		{"h-evil", `{` + probeOK + `,` + gpus(1, "x\u202ey 界", partly) + `}`, time.Minute},
		{"i-mixed", `{` + probeOK + `,"gpus":[` +
			`{"name":"NVIDIA L4","memory_total_mib":1,"memory_used_mib":0,"utilization_percent":0},` +
			`{"name":"Tesla T4","utilization_percent":1}]}`, time.Minute},
		{"j-strange", "", time.Minute}, // it sent heartbeats, and no reading
	}
	for _, n := range nodes {
		row := store.Node{Name: n.name, Tenant: "platform"}
		if n.name == "g-missing" {
			row.GPUsExpected = 8
		}
		h.node(row, n.seen, n.hardware)
	}
	h.notices = []string{"x\x1b[2Jy\u009b\x7f"}
	err := h.beat("h-evil", time.Minute, "")
	if err != nil {
		t.Fatal(err)
	}
	err = h.store.MoveNode(t.Context(), store.Move{NodeID: "id-d-hung", From: "active", To: "unavailable", At: h.now,
		AddReasons: []store.Reason{{Reason: "gpu_count_dropped", Since: h.now}}})
	if err != nil {
		t.Fatal(err)
	}
	kit.Golden(t, "node-ls.golden", h.done("node", "ls"))
	kit.Golden(t, "node-ls-wide.golden", h.done("node", "ls", "-o", "wide"))
	kit.Golden(t, "node-show.golden", h.done("node", "show", "vast-h100-39467543", "id-d-hung", "a-pending", "h-evil"))
	if out := h.done("node", "ls", "-o", "wide") + h.done("node", "show", "h-evil"); strings.ContainsAny(out, "\x1b\u009b\u202e\x7f") ||
		!strings.Contains(out, `\x1b[2J`) {
		t.Errorf("a control character reached the terminal, or the test's did not arrive:\n%q", out)
	}
	if out := h.done("node", "ls", "-o", "json"); strings.ContainsAny(out, "\x1b\u009b\x7f") || !strings.Contains(out, `\u009b`) {
		t.Error("a control character reached the terminal in JSON")
	}
}

func TestNodeListPages(t *testing.T) {
	h := newHouse(t)
	out := h.done("node", "ls", "-o", "json")
	if out != "{\"nodes\":[],\"next\":\"\",\"total\":0}\n" {
		t.Errorf("empty: %s", out)
	}
	if _, _, hint := h.muster("node", "ls"); !strings.Contains(hint, "muster token create") {
		t.Errorf("the hint of an empty fleet is %q", hint)
	}
	for i := range 1203 {
		h.node(store.Node{Name: fmt.Sprintf("n%04d", i), Tenant: "platform"}, -1, "")
	}
	var page struct {
		Nodes []struct{ Name string }
		Next  string
		Total int
	}
	if err := json.Unmarshal([]byte(h.done("node", "ls", "-o", "json")), &page); err != nil {
		t.Fatal(err)
	}
	if len(page.Nodes) != 1203 || page.Total != 1203 || page.Next != "" || page.Nodes[1202].Name != "n1202" {
		t.Errorf("%d nodes, total %d, next %q", len(page.Nodes), page.Total, page.Next)
	}
	lines := strings.Split(h.done("node", "ls"), "\n")
	if len(lines) != 1206 || lines[1204] != "1203 nodes: 0 online, 0 stale, 1203 pending" {
		t.Errorf("%d lines, the footer is %q", len(lines), lines[1204])
	}
}

func TestNodeShowJSON(t *testing.T) {
	h := example(t)
	var n struct {
		Name     string
		Hardware map[string]any
	}
	if err := json.Unmarshal([]byte(h.done("node", "show", "node-dgx-spark", "-o", "json")), &n); err != nil ||
		n.Name != "node-dgx-spark" || n.Hardware == nil {
		t.Errorf("got %+v, %v", n, err)
	}
	code, out, errs := h.muster("node", "show", "nobody", "node-dgx-spark")
	if code != 1 || !strings.Contains(out, "GB10") || !strings.Contains(errs, "nobody: no node is called") {
		t.Errorf("code %d\n%s\n%s", code, out, errs)
	}
}

func TestNodeMoves(t *testing.T) {
	for _, c := range []struct {
		name, args, stdin string
		interactive       bool
		code              int
		stdout, stderr    string
	}{
		{"drain by name", "node drain node-dgx-spark", "", false, 0, "node-dgx-spark: drained\n", ""},
		{"drain both by name", "node drain node-dgx-spark vast-h100-39467543", "", false, 0, "vast-h100-39467543: drained", ""},
		{"go on after a failure", "node drain nobody node-dgx-spark", "", false, 1, "node-dgx-spark: drained", "nobody: no node is called"},
		{"not legal", "node resume retired-one", "", false, 1, "", "cannot resume"},
		{"one selected, nobody there", "node drain -l provider=vast_ai", "", false, 0, "vast-h100-39467543: drained",
			"1 node: vast-h100-39467543"},
		{"two selected, nobody there", "node drain -l tier=sovereign", "", false, 2, "", "add --yes"},
		{"two selected, yes", "node drain -l tier=sovereign --yes", "", false, 0, "vast-h100-39467543: drained",
			"2 nodes: node-dgx-spark, vast-h100-39467543"},
		{"two selected, y", "node drain -l tier=sovereign", "y\n", true, 0, "vast-h100-39467543: drained", "drain these 2 nodes? [y/N]"},
		{"two selected, n", "node drain -l tier=sovereign", "n\n", true, 1, "", "nothing was done"},
		{"end of input", "node drain -l tier=sovereign", "", true, 1, "", "nothing was done"},
		{"retire, nobody there", "node retire node-dgx-spark", "", false, 2, "", "add --yes"},
		{"retire, asked", "node retire node-dgx-spark", "yes\n", true, 0, "node-dgx-spark: retired", "retire node-dgx-spark? [y/N]"},
		{"ban", "node ban --yes node-dgx-spark", "", false, 0, "node-dgx-spark: retired, banned", ""},
		{"nothing matches", "node drain -l tier=x", "", false, 1, "", "no node matches"},
		{"no nodes", "node drain", "", false, 2, "", "which nodes?"},
		{"both", "node drain a -l b", "", false, 2, "", "either named or selected"},
		{"bad selector", "node drain -l a,,b", "", false, 1, "", "hint: write terms"},
		{"a label that looks like a price", "node label node-dgx-spark price=2", "", false, 0, "", "is the label price_per_hour"},
		{"a price that is none", "node label node-dgx-spark price_per_hour=cheap", "", false, 1, "", "such as price_per_hour=1.99"},
		{"no channel", "node label node-dgx-spark channel=.", "", false, 1, "", "such as channel=stable"},
		{"no window", "node label node-dgx-spark maintenance-window=late", "", false, 1, "", "02:00-04:00"},
		{"label", "node label node-dgx-spark rack=7 tier-", "", false, 0, "node-dgx-spark: rack=7\n", ""},
		{"the last label", "node label node-dgx-spark tier-", "", false, 0, "node-dgx-spark: no labels\n", ""},
		{"label by selector", "node label -l tier=sovereign rack=7 -y", "", false, 0, "vast-h100-39467543: rack=7,tier=sovereign",
			"2 nodes"},
		{"label by selector, nobody there", "node label -l tier=sovereign rack=7", "", false, 2, "", "add --yes"},
		{"a label twice", "node label node-dgx-spark rack=7 rack=8", "", false, 2, "", `the label "rack" is given twice`},
		{"a label set and taken", "node label node-dgx-spark rack- rack=8", "", false, 2, "", `the label "rack" is given twice`},
		{"no label", "node label node-dgx-spark", "", false, 2, "", "no label to set"},
		{"reserved", "node label node-dgx-spark state=x", "", false, 1, "", "reserved"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := example(t)
			h.node(store.Node{Name: "retired-one", Tenant: "x"}, time.Second, "")
			h.done("node", "retire", "retired-one", "--yes")
			h.stdin = c.stdin
			h.interactive = c.interactive
			code, stdout, stderr := h.muster(strings.Fields(c.args)...)
			if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) {
				t.Errorf("code %d\n%s\n%s", code, stdout, stderr)
			}
			if states := h.done("node", "ls"); c.stdout == "" &&
				(strings.Contains(states, "drained") || strings.Contains(states, "retired")) {
				t.Errorf("something was done:\n%s", states)
			}
		})
	}
}

// TestNoWayBack: a ban and a retirement by selector show every node that they are for before they ask, and do nothing without a yes.
func TestNoWayBack(t *testing.T) {
	h := newHouse(t)
	var names []string
	for i := range 25 {
		name := fmt.Sprintf("gpu-%02d", i)
		h.node(store.Node{Name: name, Tenant: "platform"}, time.Second, "")
		names = append(names, name)
	}
	all := "25 nodes: " + strings.Join(names, ", ") + "\n"
	for _, c := range []struct {
		args, stdin string
		interactive bool
		code        int
		stderr      string
	}{
		{"node ban -l tenant=platform", "", false, 2, "add --yes"},
		{"node ban -l tenant=platform", "n\n", true, 1, "ban these 25 nodes? [y/N]"},
		{"node retire -l tenant=platform", "", true, 1, "retire these 25 nodes? [y/N]"},
		{"node ban -l name=gpu-07", "", false, 2, "1 node: gpu-07\n"},
	} {
		h.stdin = c.stdin
		h.interactive = c.interactive
		code, stdout, stderr := h.muster(strings.Fields(c.args)...)
		if code != c.code || stdout != "" || !strings.Contains(stderr, c.stderr) || !strings.Contains(c.args, "name=") &&
			!strings.HasPrefix(stderr, all) {
			t.Errorf("%s: code %d\n%s%s", c.args, code, stdout, stderr)
		}
	}
	if _, _, stderr := h.muster("node", "drain", "-l", "tenant=platform", "--yes"); !strings.Contains(stderr, "gpu-09, ...\n") {
		t.Errorf("what can be undone: %s", stderr)
	}
	h.interactive = false
	if code, stdout, stderr := h.muster("node", "ban", "-l", "tenant=platform", "--yes"); code != 0 || stderr != all ||
		strings.Count(stdout, ": retired, banned\n") != 25 {
		t.Errorf("with a yes: code %d\n%s%s", code, stdout, stderr)
	}
}

// TestUnheard: just after a start of the gateway, a node that was not heard since is online?, and is waited for.
func TestUnheard(t *testing.T) {
	h := newHouse(t)
	h.node(store.Node{Name: "a", Tenant: "x"}, 20*time.Second, "")
	h.node(store.Node{Name: "b", Tenant: "x"}, 0, "")
	h.restart(10 * time.Second)
	out := h.done("node", "ls")
	if !strings.Contains(out, "online?  30s") || !strings.Contains(out, "2 nodes: 0 online, 2 online?, 0 stale\n") {
		t.Errorf("got:\n%s", out)
	}
	if out := h.done("node", "show", "a"); !strings.Contains(out, "online?, seen 30s ago, before the gateway's start; not heard since") {
		t.Errorf("got:\n%s", out)
	}
	if out := h.done("node", "ls", "-o", "json"); strings.Count(out, `"status":"online","unheard":true`) != 2 {
		t.Errorf("got:\n%s", out)
	}
	if code, _, stderr := h.muster("node", "wait", "a", "--timeout", "3s"); code != 1 || !strings.Contains(stderr, "a: online?, active") {
		t.Errorf("code %d: %s", code, stderr)
	}
	if err := h.beat("a", 0, ""); err != nil {
		t.Fatal(err)
	}
	if out := h.done("node", "wait", "a"); out != "1 node: online\n" {
		t.Errorf("got %s", out)
	}
}

func TestNodeWait(t *testing.T) {
	h := example(t)
	if out := h.done("node", "wait", "node-dgx-spark", "vast-h100-39467543"); out != "2 nodes: online\n" {
		t.Errorf("got %q", out)
	}
	looks := 0
	h.pause = func(context.Context) error {
		switch looks++; looks {
		case 2:
			h.node(store.Node{Name: "late", Tenant: "platform"}, -1, "")
		case 4:
			return h.beat("late", 0, "")
		}
		return nil
	}
	code, out, progress := h.muster("node", "wait", "late", "--timeout", "1m")
	if code != 0 || out != "1 node: online\n" || progress != "late: not there yet\nlate: pending, ready\nlate: online, ready\n" ||
		looks != 4 {
		t.Errorf("code %d after %d looks: %q, %q", code, looks, out, progress)
	}
	h.pause = nil
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"node wait nobody --timeout 3s", 1, "after 3s, not online: 1 of 1 node"},
		{"node wait -l tier=x --timeout 3s", 1, "after 3s, no node matches \"tier=x\""},
		{"node wait late --state drained --timeout 1s", 1, "not drained"},
		{"node wait late --state ready --status online", 0, ""},
		{"node wait -l tenant=platform --status pending --timeout 1s", 1, "not pending: 3 of 3 nodes"},
		{"node wait", 2, "which nodes?"},
		{"node wait x -l y", 2, "which nodes?"},
		{"node wait x --status awake", 2, "one of pending, online, stale"},
		{"node wait x --state awake", 2, "one of commissioned"},
		{"node wait x --timeout soon", 2, "no duration"},
	} {
		if code, _, stderr := h.muster(strings.Fields(c.args)...); code != c.code || !strings.Contains(stderr, c.says) {
			t.Errorf("%s: code %d, %s", c.args, code, stderr)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	h.pause = func(context.Context) error { cancel(); return errors.New("woken") }
	if code, _, stderr := h.run(ctx, "--data", h.dir, "node", "wait", "nobody"); code != 1 || !strings.Contains(stderr, "interrupted") {
		t.Errorf("interrupted: code %d, %s", code, stderr)
	}
}

// TestRetirePriced: who retires a machine that has a price is told that it goes on costing.
func TestRetirePriced(t *testing.T) {
	h := example(t)
	h.done("node", "label", "node-dgx-spark", "price_per_hour=2", "--yes")
	if out := h.done("node", "retire", "node-dgx-spark", "--yes"); !strings.Contains(out, "goes on costing 2.00 an hour") {
		t.Errorf("priced: %s", out)
	}
	if out := h.done("node", "retire", "vast-h100-39467543", "--yes"); strings.Contains(out, "costs") {
		t.Errorf("without a price: %s", out)
	}
}
