package cli_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/commands"
)

// market answers what companies run, and leaves the rest to the house.
type market struct {
	rest      http.Handler
	plan      providers.Plan
	instances map[string]providers.Instance // by path
}

func (m *market) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, wire.PrefixAdmin)
	var answer any = m.plan
	if path != api.PathProviderPlan {
		i, mine := m.instances[path]
		if !mine {
			m.rest.ServeHTTP(w, r)
			return
		}
		answer = i
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// newMarket has three machines that run and are not heard, of which one has no address, and others that are no matter of joining.
func newMarket(rest http.Handler) *market {
	m := &market{rest: rest, instances: map[string]providers.Instance{}}
	add := func(kind, id, node, ssh, state, status string) {
		m.plan.Findings = append(m.plan.Findings, providers.Finding{Kind: kind, Provider: "vast", Instance: id, Node: node})
		m.instances["providers/vast/instances/"+id] = providers.Instance{Provider: "vast", Kind: "vast_ai", ID: id, Tenant: "research",
			State: state,
			SSH:   ssh, Node: node, Status: status}
	}
	add(providers.FoundNeverEnrolled, "1", "", "root@gpu-1:39467", "running", "")
	add(providers.FoundBilledSilent, "2", "lost", "root@gpu-2:22", "running", "stale")
	add(providers.FoundNeverEnrolled, "3", "", "-oProxyCommand=x:22", "running", "")
	add(providers.FoundNeverEnrolled, "4", "", "root@gpu-4:22", "starting", "")
	add(providers.FoundBilledSilent, "5", "old", "root@gpu-5:22", "running", wire.StateRetired)
	add(providers.FoundStorage, "6", "", "root@gpu-6:22", "stopped", "")
	return m
}

// TestOnboard: machines that run and are not heard are joined over ssh under what their company calls them. What does not work is said
// with the command for doing it by hand.
func TestOnboard(t *testing.T) {
	b := newBoxes(t)
	one := b.box("gpu-1")
	two := b.box("gpu-2")
	dir := listen(t, newMarket(b.api.Routes()))
	onboard := func(args ...string) (int, string, string) {
		var out, errs bytes.Buffer
		code := cli.Run(t.Context(), cli.Env{Args: append([]string{"--data", dir, "provider", "onboard"}, args...),
			Getenv: func(string) string { return "" }, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Agents: b.agents}, commands.All())
		same := strings.NewReplacer("muster --data "+dir+" ", "muster ")
		return code, same.Replace(out.String()), same.Replace(errs.String())
	}
	code, out, errs := onboard("--plan")
	const first = "muster push root@gpu-1:39467 --provider vast_ai --instance-id 1 --tenant research\n"
	const second = "muster push root@gpu-2:22 --provider vast_ai --instance-id 2 --tenant research --name lost\n"
	if code != 0 || errs != "" || !strings.Contains(out, "run what its command prints:\n  muster token create --tenant research\n") ||
		!strings.HasSuffix(out, "What would be done:\n  "+first+"  "+second) || strings.Contains(out, "vast/4") || strings.Contains(out,
		"vast/5") {
		t.Errorf("plan: %d\n%s%s", code, out, errs)
	}
	if _, out, _ := onboard("--plan", "-o", "json", "vast/1", "vast/5"); strings.Count(out, `"instance":`) != 2 || strings.Contains(out,
		"box") {
		t.Errorf("json of those that are named: %s", out)
	}
	if code, _, errs := onboard(); code != 2 || !strings.Contains(errs, "join 2 machines over ssh needs a yes") {
		t.Errorf("without a yes: %d %s", code, errs)
	}
	if _, err := os.Stat(filepath.Join(one, "joined")); err == nil {
		t.Error("a plan joined a machine")
	}
	if code, out, errs = onboard("--yes"); code != 0 || !strings.Contains(out, "2 machines: 2 joined, 0 failed\n") {
		t.Errorf("joined: %d\n%s%s", code, out, errs)
	}
	const always = "join\n--gateway\nhttps://gw.example\n--root-pin\nsha256:0a\n--provider\nvast_ai\n--instance-id\n"
	if got := b.read(one, "joined"); got != always+"1\n--token-file\n-\n" {
		t.Errorf("the first was called with %q", got)
	}
	if got := b.read(two, "joined"); got != always+"2\n--name\nlost\n--token-file\n-\n" {
		t.Errorf("the second was called with %q", got)
	}
	if list := b.done("token", "ls", "--all", "-o", "json"); strings.Count(list, `"tenant":"research"`) != 2 || b.liveTokens() != 0 {
		t.Errorf("the tokens are %s", list)
	}
	b.write(filepath.Join(two, "broken"), "")
	if code, out, errs = onboard("--yes"); code != 1 || !strings.Contains(out, "By hand, where it did not work:\n  "+first+"  "+second) ||
		!strings.Contains(errs, "vast/2: [2/2] failed: no GPU here") {
		t.Errorf("one that fails: %d\n%s%s", code, out, errs)
	}
	if code, _, errs := onboard("vast/6"); code != 1 || !strings.Contains(errs, "vast/6 is no machine that is paid for and not heard") {
		t.Errorf("one that is stopped: %d %s", code, errs)
	}
	if code, out, _ := onboard("vast/3"); code != 1 || !strings.Contains(out, "have no address for ssh") {
		t.Errorf("one without an address: %d %s", code, out)
	}
	dir = listen(t, &market{rest: b.api.Routes()})
	if code, out, _ := onboard(); code != 0 || !strings.HasPrefix(out, "Every machine that runs is in the fleet") {
		t.Errorf("none: %d %s", code, out)
	}
}
