package cli_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/kit"
	"muster/store"
)

// crowd is a fleet with everything that a screen has trouble with: long names, many kinds of GPU, ills, old readings.
func crowd(t *testing.T) *house {
	t.Helper()
	h := example(t)
	row := func(i int, name, rest string) string {
		return fmt.Sprintf(`{"index":%d,"uuid":"GPU-5ca1ab1e-0000-4000-8000-%012d","name":%q,"bus_id":"00000000:0%d:00.0",`+
			`"memory_source":"device",`+
			`"memory_total_mib":81559,"memory_used_mib":39233,"utilization_percent":99%s}`, i, i, name, i, rest)
	}
	many := func(n int, name, rest string) string {
		rows := make([]string, n)
		for i := range rows {
			rows[i] = row(i, name, rest)
		}
		return `"gpus":[` + strings.Join(rows, ",") + `]}`
	}
	const fine = `,"health":[]`
	const ill = `,"health":["ecc_uncorrected","row_remap_pending"]`
	const old = `{"probe":{"state":"hung","since":"2026-11-21T09:40:00Z","error":"nvidia-smi does not answer",` +
		`"sampled_at":"2026-11-21T09:40:00Z"},`
	kinds := map[string]string{
		"a-node-whose-name-has-all-of-the-sixty-three-letters-that-it-may": `{` + probeOK + `,` + many(8, "NVIDIA H100 80GB HBM3", fine),
		"eight-of-one-kind": `{` + probeOK + `,` + many(8, "NVIDIA H100 80GB HBM3", fine),
		"mixed": `{` + probeOK + `,"gpus":[` + row(0, "NVIDIA RTX 6000 Ada Generation", fine) + `,` +
			row(1, "NVIDIA L4", fine) + `,` + row(2, "Tesla T4", fine) + `]}`,
		"divided": `{` + probeOK + `,` +
			strings.ReplaceAll(many(8, "NVIDIA A100-SXM4-80GB", `,"mig":true,"health":[]`), `"utilization_percent":99`,
				`"utilization_percent":null`),
		"ill":    `{` + probeOK + `,` + many(8, "NVIDIA H100 80GB HBM3", ill),
		"hung":   old + many(8, "NVIDIA H100 80GB HBM3", fine),
		"seven":  `{` + probeOK + `,` + many(7, "NVIDIA H100 80GB HBM3", fine),
		"gone":   `{"probe":{"state":"absent","sampled_at":"2026-11-21T09:59:00Z"},` + many(8, "NVIDIA H100 80GB HBM3", fine),
		"no-gpu": `{"probe":{"state":"absent"},"gpus":[],"cpus":4}`,
	}
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		h.node(store.Node{Name: name, Tenant: "a-tenant-of-a-longer-name", Provider: "vast_ai", InstanceID: "39467543"}, 4*time.Second,
			kinds[name])
	}
	for _, name := range []string{"seven", "gone"} {
		if err := h.store.SetGPUs(t.Context(), "id-"+name, 8, false); err != nil {
			t.Fatal(err)
		}
		err := h.store.MoveNode(t.Context(),
			store.Move{NodeID: "id-" + name, From: "active", To: "unavailable", At: h.now,
				AddReasons: []store.Reason{{Reason: "gpu_count_dropped",
					Detail: "GPU-5ca1ab1e-0000-4000-8000-000000000007 at 00000000:07:00.0 does not answer any more"}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// lists is every command that prints a list.
var lists = [...]string{"node ls", "token ls --all", "account ls --all", "psk ls", "events", "audit"}

const bootstrapped = "a-node-that-waits-for-its-bootstrap"

// furnish puts something into every list.
func (h *house) furnish() {
	h.t.Helper()
	h.done("token", "create", "--tenant", "a-tenant-of-a-longer-name", "--label", "a-long-key/of-a-label=a-long-value-of-a-label", "--gpus",
		"8")
	h.done("psk", "set", "--generate")
	h.done("account", "create", "an-account-with-a-name-of-more-than-forty-letters", "--scope",
		"nodes:read,nodes:write,tokens:read,tokens:write,events:read", "--ttl", "90d")
	h.scripts()
	h.done("node", "create", bootstrapped, "--tenant", "a-tenant-of-a-longer-name", "-o", "json")
}

// TestListsFitTheScreen: whatever stands in a list, no row is wider than the terminal; elsewhere, and with -o wide, everything is there.
func TestListsFitTheScreen(t *testing.T) {
	h := crowd(t)
	h.furnish()
	for _, h.screen = range []int{40, 60, 80, 100, 140, 300} {
		for _, command := range lists {
			out := h.done(strings.Fields(command)...)
			for _, line := range strings.Split(out, "\n") {
				if n := utf8.RuneCountInString(line); n > h.screen {
					t.Errorf("%s on %d columns has a row of %d: %s", command, h.screen, n, line)
				}
			}
		}
	}
	for _, h.screen = range []int{80, 100, 140} {
		kit.Golden(t, fmt.Sprintf("node-ls-%d"+".golden", h.screen), h.done("node", "ls"))
	}
	h.screen = 80
	kit.Golden(t, "events-80.golden", h.done("events", "--kind", "node.created")+h.done("audit", "--kind", "account.created"))
	kit.Golden(t, "node-show-80.golden", h.done("node", "show", "gone", "ill"))
	wide := h.done("node", "ls", "-o", "wide")
	h.screen = 0
	if out := h.done("node", "ls", "-o", "wide"); out != wide {
		t.Error("-o wide depends on the screen")
	}
	if strings.Contains(wide, "…") ||
		!strings.Contains(wide, "gpu_count_dropped: GPU-5ca1ab1e-0000-4000-8000-000000000007 at 00000000:07:00.0 "+
			"does not answer any more") {
		t.Errorf("-o wide does not have everything:\n%s", wide)
	}
	if out := h.done("token", "ls"); !strings.Contains(out, "  "+bootstrapped+"  ") {
		t.Errorf("token ls does not say for which node a bootstrap token is:\n%s", out)
	}
	if out := h.done("node", "ls"); strings.Contains(out, "…") || !strings.Contains(out, "PROVIDER") {
		t.Errorf("what is no terminal gets less than everything:\n%s", out)
	}
}

// TestTrustFitsTheScreen does the same for what nodes trust.
func TestTrustFitsTheScreen(t *testing.T) {
	h := newTrustHouse(t)
	for _, h.screen = range []int{40, 80, 100} {
		for _, command := range []string{"ca show", "key ls"} {
			for _, line := range strings.Split(h.done(strings.Fields(command)...), "\n") {
				if n := utf8.RuneCountInString(line); n > h.screen && !strings.HasPrefix(line, "trust domain") {
					t.Errorf("%s on %d columns has a row of %d: %s", command, h.screen, n, line)
				}
			}
		}
	}
}

// TestOldReadings: a reading is old when it is much older than the pace at which the node looks, by the gateway's clock.
func TestOldReadings(t *testing.T) {
	h := newHouse(t)
	for name, probe := range map[string]string{ // the node's clock is 1.5 s ahead
		"a-fresh":        `"state":"ok","sampled_at":"2026-11-21T09:58:40Z"`,
		"b-old":          `"state":"ok","sampled_at":"2026-11-21T09:58:20Z"`,
		"c-slow-pace":    `"state":"ok","sampled_at":"2026-11-21T09:52:00Z","interval_seconds":300`,
		"d-behind-it":    `"state":"ok","sampled_at":"2026-11-21T09:44:00Z","interval_seconds":300`,
		"e-absurd-pace":  `"state":"ok","sampled_at":"2026-11-21T09:44:00Z","interval_seconds":1e300`,
		"f-never-looked": `"state":"ok","sampled_at":null`,
		"g-hung":         `"state":"hung","sampled_at":"2026-11-21T09:59:40Z","since":"2026-11-21T09:59:50Z"`,
		"h-failed":       `"state":"failed","sampled_at":"2026-11-21T09:59:40Z","since":"2026-11-21T09:59:50Z"`,
		"j-warned":       `"state":"ok","error":"infoROM is corrupted","sampled_at":"2026-11-21T09:59:50Z"`,
		"i-some-failed":  `"state":"failed","sampled_at":"2026-11-21T09:59:50Z","since":"2026-11-21T09:59:50Z"`,
	} {
		h.node(store.Node{Name: name, Tenant: "x"}, time.Second,
			`{"probe":{`+probe+`},`+gpus(1, "NVIDIA L4", `"memory_source":"device","utilization_percent":5,"health":[]`)+`}`)
	}
	out := h.done("node", "ls")
	for name, old := range map[string]bool{"a-fresh": false, "b-old": true, "c-slow-pace": false, "d-behind-it": true,
		"e-absurd-pace": true, "f-never-looked": false,
		"g-hung": true, "h-failed": true, "i-some-failed": false} {
		_, line, _ := strings.Cut(out, name+" ")
		line, _, _ = strings.Cut(line, "\n")
		if strings.Contains(line, "~1x L4") != old || strings.Contains(line, "~5%") != old {
			t.Errorf("%s: %s", name, line)
		}
	}
	if wide := h.done("node", "ls", "-o", "wide"); !strings.Contains(wide, "  8m  ") ||
		!strings.Contains(wide, "  hung 11s  ") || // not 10s
		!strings.Contains(wide, "warning: infoROM is corrupted") || strings.Contains(h.done("node", "ls", "-o", "json"), "~") {
		t.Errorf("got\n%s", wide)
	}
}

// TestHintsFitTheScreen: what goes wrong is said in lines that the terminal holds, and a command in them stays whole. Elsewhere a hint is
// one line.
func TestHintsFitTheScreen(t *testing.T) {
	h := newHouse(t)
	h.node(store.Node{Name: "gpu-7", Tenant: "platform"}, time.Second, "")
	h.done("token", "create")
	for _, args := range []string{"node create gpu-7", "node shwo gpu-7", "token create --uses none", "node show gpu-8", "help nothing",
		"node allow-recovery gpu-7 --fingerprint 1234", "release add sha256:12 --reference x", "events --since never"} {
		h.screen = 0
		_, _, whole := h.muster(strings.Fields(args)...)
		if strings.Count(whole, "\n") > 2 {
			t.Errorf("%s: without a screen:\n%s", args, whole)
		}
		h.screen = 80
		_, _, folded := h.muster(strings.Fields(args)...)
		if got, want := strings.Fields(folded), strings.Fields(whole); !slices.Equal(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", args, folded, whole)
		}
		for line := range strings.Lines(folded) {
			if len(line) > 81 {
				t.Errorf("%s: %d columns: %s", args, len(line)-1, line)
			}
		}
	}
	if got, want := screen.Fold("the operator lets it in with: muster node allow-recovery gpu-7; or not", 44, "  "),
		"the operator lets it in with:\n  muster node allow-recovery gpu-7; or not"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
