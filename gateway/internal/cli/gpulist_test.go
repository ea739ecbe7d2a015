package cli_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/store"
)

// device is one GPU of a reading.
func device(index, utilization, used int) string {
	return fmt.Sprintf(`{"index":%d,"uuid":"GPU-%d","name":"NVIDIA H100 80GB HBM3","memory_total_mib":81559,"memory_used_mib":%d,
		"utilization_percent":%d,"power_watts":70,"power_limit_watts":700,"temperature_celsius":30,"memory_source":"device"}`,
		index, index, used, utilization)
}

func (h *house) devices(rows ...string) string {
	return fmt.Sprintf(`{"probe":{"state":"ok","sampled_at":%q},"gpus":[%s]}`, h.now.Format(time.RFC3339), strings.Join(rows, ","))
}

// TestGPUList: room first, and what is not known is shown as -.
func TestGPUList(t *testing.T) {
	h := newHouse(t)
	h.node(store.Node{Name: "busy", Tenant: "x"}, 0, h.devices(device(0, 99, 70000), device(1, 0, 10)))
	h.node(store.Node{Name: "free", Tenant: "x"}, 0, h.devices(device(0, 0, 0)))
	h.node(store.Node{Name: "dark", Tenant: "y"}, 0, h.devices(`{"index":0,"uuid":"GPU-9","name":"Orin (nvgpu)"}`))
	h.node(store.Node{Name: "drained", Tenant: "x"}, 0, h.devices(device(0, 0, 0)))
	h.done("node", "drain", "drained")
	h.done("node", "label", "busy", "price_per_hour=3", "--yes")
	want := `NODE     GPU  MODEL            FREE      TOTAL     UTIL  USE    PRICE  POWER  TEMP  IDLE FOR  STATE    STATUS
free     0    H100 80GB HBM3   79.6 GiB  79.6 GiB  0%    quiet  -      70 W   30 C  -         active   online
busy     1    H100 80GB HBM3   79.6 GiB  79.6 GiB  0%    quiet  1.50   70 W   30 C  -         active   online
busy     0    H100 80GB HBM3   11.3 GiB  79.6 GiB  99%   busy   1.50   70 W   30 C  -         active   online
dark     0    Orin (nvgpu)     -         -         -     -      -      -      -     -         active   online
drained  0    H100 80GB HBM3   79.6 GiB  79.6 GiB  0%    quiet  -      70 W   30 C  -         drained  online
5 GPUs on 4 nodes: 3 quiet, 1 busy, 1 not known
`
	want = strings.ReplaceAll(want, "HBM3   ", "HBM3  ")
	want = strings.ReplaceAll(want, "(nvgpu)     ", "(nvgpu)    ")
	want = strings.ReplaceAll(want, "MODEL            ", "MODEL           ")
	if got := h.done("gpu", "ls"); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	for args, want := range map[string]string{
		"gpu ls --free-memory 40GiB":            "2 GPUs on 2 nodes: 2 quiet\nleft out: 1 GPU whose use is unknown\n",
		"gpu ls --model h100 --free-memory 40g": "2 GPUs on 2 nodes: 2 quiet\n",
		"gpu ls free dark":                      "2 GPUs on 2 nodes: 1 quiet, 1 not known\n",
		"gpu ls --free free":                    "0 GPUs on 0 nodes\nleft out: 1 GPU quiet for",
		"gpu ls --model h200":                   "0 GPUs on 0 nodes\nno GPU here has that name: NVIDIA H100 80GB HBM3, Orin (nvgpu)\n",
		"gpu ls --free --model nvgpu":           "0 GPUs on 0 nodes\nleft out: 1 GPU whose use is unknown\n",
		"gpu ls --free": "0 GPUs on 0 nodes\nleft out: 1 GPU whose use is unknown, 2 GPUs quiet for less than 10 minutes\n" +
			"muster gpus lists",
		"gpu ls --sort price --limit 3":                          "3 of 5 GPUs on 2 nodes: 1 quiet, 1 busy, 1 not known\n",
		"gpu ls --free-memory 11GiB -l name=busy":                "2 GPUs on 1 node",
		"gpu ls --free-memory 80GiB":                             "0 GPUs on 0 nodes",
		"gpu ls --tenant y":                                      "1 GPU on 1 node",
		"gpu ls --state drained":                                 "1 GPU on 1 node",
		"gpu ls --status stale":                                  "0 GPUs on 0 nodes",
		"gpu ls --idle":                                          "0 GPUs on 0 nodes\nleft out: 3 GPUs quiet for",
		"gpu ls -o json -l name=free":                            `"node":"free"`,
		"node ls --idle":                                         "0 nodes idle\n",
		"node ls --idle -o json":                                 `{"nodes":[],"next":"","total":0}`,
		"gpu ls --selector tenant=x,name!=busy,name!=drained -a": "",
	} {
		code, out, errs := h.muster(strings.Fields(args)...)
		if want == "" && code != 2 || want != "" && (code != 0 || !strings.Contains(out, want)) {
			t.Errorf("%s: code %d\n%s%s", args, code, out, errs)
		}
	}
	for args, says := range map[string]string{
		"gpu ls --free-memory 40":      "such as 40GiB",
		"gpu ls box-9":                 `no node is called "box-9"`,
		"gpu ls --sort speed":          "one of price, memory, util, name",
		"gpu ls --limit 0":             "limit",
		"gpu ls -l price_per_hour<two": `"two" is no number`,
		"gpu ls --idle=perhaps":        "takes no value",
		"gpu ls -l =":                  "selector",
		"node ls --idle=perhaps":       "takes no value",
		"node ls --idle -l =":          "selector",
		"gpu ls --output colourful":    "one of table",
	} {
		if code, _, errs := h.muster(strings.Fields(args)...); code == 0 || !strings.Contains(errs, says) {
			t.Errorf("%s: code %d, %s", args, code, errs)
		}
	}
}

// TestHeldGPU: a GPU that a program keeps is busy and no room, whatever it does.
func TestHeldGPU(t *testing.T) {
	h := newHouse(t)
	run := `"runs":[{"name":"train","task":"t-1","state":"running","gpus":["GPU-0"],"started_at":"2026-11-21T00:00:00Z"}]}`
	h.node(store.Node{Name: "box", Tenant: "x"}, 0, strings.TrimSuffix(h.devices(device(0, 0, 0), device(1, 0, 0)), "}")+","+run)
	h.done("node", "label", "box", "price_per_hour=2", "--yes")
	if out := h.done("gpu", "ls", "-o", "wide"); !strings.Contains(out, " busy ") || !strings.Contains(out, "1 quiet, 1 busy") ||
		!strings.Contains(out, "train") {
		t.Errorf("got:\n%s", out)
	}
	out := h.done("gpu", "ls", "--sort", "name", "-o", "json")
	if held, other, _ := strings.Cut(out, "\n"); !strings.Contains(held, `"use":"busy"`) || !strings.Contains(held, `"ready":false`) ||
		!strings.Contains(held, `"run":"train"`) || !strings.Contains(other, `"ready":true`) {
		t.Errorf("got:\n%s", out)
	}
	if out := h.done("gpu", "ls", "--free-memory", "40GiB", "--sort", "price"); !strings.Contains(out, "box   1") ||
		!strings.HasSuffix(out, "\n1 GPU on 1 node: 1 quiet\n") {
		t.Errorf("got:\n%s", out)
	}
}

// TestIdleList: after ten minutes in which nothing works on a node, with what that costs.
func TestIdleList(t *testing.T) {
	h := newHouse(t)
	h.node(store.Node{Name: "rests", Tenant: "x"}, 0, h.devices(device(0, 0, 0)))
	h.node(store.Node{Name: "half", Tenant: "x"}, 0, h.devices(device(0, 0, 0), device(1, 90, 0)))
	h.done("node", "label", "rests", "price_per_hour=6", "--yes")
	h.done("node", "label", "half", "price_per_hour=4", "--yes")
	minute := func() {
		h.done("gpu", "ls") // the picture is read anew
		h.now = h.now.Add(time.Minute)
		for name, rows := range map[string]string{"rests": h.devices(device(0, 0, 0)), "half": h.devices(device(0, 0, 0), device(1, 90, 0))} {
			if err := h.beat(name, 0, rows); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 11 {
		minute()
	}
	if out := h.done("node", "ls", "--idle"); !strings.Contains(out, "rests") || strings.Contains(out, "half") ||
		!strings.Contains(out, "1 node idle: 6.00 an hour, - today") { // nothing was watched yet
		t.Errorf("got:\n%s", out)
	}
	for range 60 {
		minute()
		for range 6 { // the last of these counts nothing twice
			h.api.Costs.Look(t.Context())
			h.now = h.now.Add(10 * time.Second)
		}
		h.now = h.now.Add(-time.Minute)
	}
	for args, parts := range map[string][]string{
		"node ls --idle": {"NAME   TENANT  PROVIDER  GPUS  IDLE FOR  COST/H  IDLE TODAY  WATCHED  STATE",
			"rests  x       -         1     1h        6.00    "},
		"node ls --idle -o json":   {`"total":1`, `"name":"rests"`},
		"gpu ls --idle":            {"2 GPUs on 2 nodes", "IDLE FOR  TODAY"},
		"gpu ls --idle -o json":    {`"node_idle_cost_today":`},
		"node show rests":          {"today ", "idle GPU hours, which cost "},
		"node show rests -o json":  {`"today":{"day":"2026-11-21"`},
		"node ls --idle -l name=x": {"0 nodes idle"},
	} {
		out := h.done(strings.Fields(args)...)
		for _, part := range parts {
			if !strings.Contains(out, part) {
				t.Errorf("%s has no %q:\n%s", args, part, out)
			}
		}
	}
}

// TestFindRoom: the cheapest GPUs that are free. What has work, is ill, cannot take work or is not known is left out, and what is not known
// is counted.
func TestFindRoom(t *testing.T) {
	h := newHouse(t)
	rest := device(0, 0, 0)
	ill := strings.TrimSuffix(rest, "}") + `,"health":["gpu_fault"]}`
	small := strings.ReplaceAll(rest, "81559", "24000")
	dark := `{"index":0,"uuid":"GPU-9","name":"Orin (nvgpu)"}`
	nodes := map[string]struct {
		price string
		rows  []string
	}{
		"cheap": {"1", []string{rest, device(1, 0, 0)}}, "dear": {"9", []string{rest}}, "priceless": {"", []string{rest}},
		"busy": {"0.1", []string{device(0, 90, 70000)}}, "ill": {"0.1", []string{ill}}, "small": {"0.1", []string{small}},
		"drained": {"0.1", []string{rest}}, "dark": {"0.1", []string{dark}}, "bare": {"5", nil},
	}
	for name, n := range nodes {
		h.node(store.Node{Name: name, Tenant: "x"}, 0, h.devices(n.rows...))
		if n.price != "" {
			h.done("node", "label", name, "price_per_hour="+n.price, "--yes")
		}
	}
	h.done("node", "drain", "drained")
	h.node(store.Node{Name: "unread", Tenant: "x"}, 0, "")
	for range 11 {
		h.done("gpu", "ls") // the picture is read anew
		h.now = h.now.Add(time.Minute)
		for name, n := range nodes {
			if err := h.beat(name, 0, h.devices(n.rows...)); err != nil {
				t.Fatal(err)
			}
		}
		if err := h.beat("unread", 0, ""); err != nil {
			t.Fatal(err)
		}
	}
	out := h.done("gpu", "ls", "--free", "--free-memory", "40GiB", "--sort", "price", "--limit", "2")
	lines := strings.Split(out, "\n")
	if len(lines) != 6 || !strings.HasPrefix(lines[1], "cheap  0 ") || !strings.HasPrefix(lines[2], "cheap  1 ") ||
		!strings.Contains(lines[1], " free  0.50 ") || lines[3] != "2 of 4 GPUs on 1 node: 2 free" ||
		lines[4] != "left out: 1 GPU whose use is unknown, 1 node without a reading" {
		t.Errorf("got:\n%s", out)
	}
	for args, want := range map[string]string{
		"gpu ls --free --sort price":                      "small0 cheap0 cheap1 dear0 priceless0",
		"gpu ls --free --sort memory --limit 1":           "cheap0",
		"gpu ls --free-memory 1GiB --sort price":          "busy0 small0 cheap0 cheap1 dear0 priceless0",
		"gpu ls --sort util -l name!=unread":              "cheap0 cheap1 dear0 drained0 ill0 priceless0 small0 busy0 dark0",
		"gpu ls --sort name --limit 3":                    "busy0 cheap0 cheap1",
		"gpu ls --free -l price_per_hour<2":               "cheap0 cheap1 small0",
		"gpu ls --free --sort price -l price_per_hour>=9": "dear0",
		"gpu ls --free -l gpus>=2":                        "cheap0 cheap1",
		"gpu ls --idle -l name=drained":                   "drained0",
	} {
		var got []string
		for line := range strings.Lines(h.done(append(strings.Fields(args), "-o", "json")...)) {
			var r struct {
				Node         string
				Index        int
				Free         bool
				Use          string
				PricePerHour *float64 `json:"price_per_hour"`
			}
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(args, "--free ") && (!r.Free || r.Use != "idle") || r.Node == "priceless" && r.PricePerHour != nil ||
				r.Node == "cheap" && *r.PricePerHour != 0.5 {
				t.Errorf("%s: %s", args, line)
			}
			got = append(got, fmt.Sprint(r.Node, r.Index))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %s, want %s", args, strings.Join(got, " "), want)
		}
	}
	if code, _, errs := h.muster("gpu", "ls", "--free", "-o", "json"); code != 0 || !strings.Contains(errs, "left out: 1 GPU") {
		t.Errorf("code %d: %s", code, errs)
	}
	for selector, want := range map[string]string{
		"name!=drained": "\n9 nodes: 9 online, 0 stale · 15.40 an hour, of that 10.20 idle · 2 without a price\n",
		"gpus<1":        "\n1 node: 1 online, 0 stale · 5.00 an hour\n",
	} {
		if out := h.done("node", "ls", "-l", selector); !strings.HasSuffix(out, want) {
			t.Errorf("%s: got:\n%s", selector, out)
		}
	}
}
