package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/commands"
)

// market answers what companies run, and leaves the rest to the house. A machine that is asked to start again does what is next on its
// list.
type market struct {
	rest      http.Handler
	plan      providers.Plan
	mu        sync.Mutex
	instances map[string]providers.Instance  // by path
	next      map[string][]*providers.Rejoin // by path: what each look at a machine that was asked shows; the last one stays
	refuses   map[string]*wire.ErrorDetail   // by path, what is answered to an act
	asked     []string                       // acts
	left      map[string]int                 // answers to acts that are lost
	onLook    func()                         // nil: nothing
}

func (m *market) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, wire.PrefixAdmin)
	m.mu.Lock()
	defer m.mu.Unlock()
	var answer any = m.plan
	if path != api.PathProviderPlan {
		i, mine := m.instances[path]
		if !mine {
			m.rest.ServeHTTP(w, r)
			return
		}
		if r.Method == http.MethodPost {
			m.act(w, r, path)
			return
		}
		if m.onLook != nil && i.Rejoin != nil {
			m.onLook()
		}
		if steps := m.next[path]; i.Rejoin != nil && len(steps) > 0 {
			i.Rejoin, i.Node = steps[0], "back"
			m.instances[path] = i
			m.next[path] = steps[1:]
		}
		answer = i
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// act has a machine start again, or says no. The caller holds the lock.
func (m *market) act(w http.ResponseWriter, r *http.Request, path string) {
	body, _ := io.ReadAll(r.Body)
	m.asked = append(m.asked, path+" "+string(body))
	w.Header().Set("Content-Type", "application/json")
	if refusal := m.refuses[path]; refusal != nil {
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": refusal})
		return
	}
	i := m.instances[path]
	i.Rejoin = &providers.Rejoin{State: providers.RejoinAsked}
	m.instances[path] = i
	if m.left[path]--; m.left[path] == 0 {
		panic(http.ErrAbortHandler)
	}
	_ = json.NewEncoder(w).Encode(i)
}

const (
	atVast  = "providers/vast/instances/"
	emptied = "the disk is emptied"
)

// newMarket has three machines that muster has rented, that run and are not heard, of which one has no address, and others that are no
// matter of joining. The machine 7 somebody else has rented.
func newMarket(rest http.Handler) *market {
	m := &market{rest: rest, instances: map[string]providers.Instance{}, next: map[string][]*providers.Rejoin{},
		refuses: map[string]*wire.ErrorDetail{}, left: map[string]int{}}
	add := func(kind, id, node, ssh, state, status string) {
		m.plan.Findings = append(m.plan.Findings, providers.Finding{Kind: kind, Provider: "vast", Instance: id, Node: node})
		m.instances[atVast+id] = providers.Instance{Provider: "vast", Kind: "vast_ai", ID: id, Tenant: "research", State: state, SSH: ssh,
			Node: node, Status: status, Rental: "r" + id}
	}
	add(providers.FoundNeverEnrolled, "1", "", "root@gpu-1:39467", "running", "")
	add(providers.FoundBilledSilent, "2", "lost", "root@gpu-2:22", "running", "stale")
	add(providers.FoundNeverEnrolled, "3", "", "-oProxyCommand=x:22", "running", "")
	add(providers.FoundNeverEnrolled, "4", "", "root@gpu-4:22", "starting", "")
	add(providers.FoundBilledSilent, "5", "old", "root@gpu-5:22", "running", wire.StateRetired)
	add(providers.FoundStorage, "6", "", "root@gpu-6:22", "stopped", "")
	add(providers.FoundNeverEnrolled, "7", "", "root@gpu-7:22", "running", "")
	m.change("7", func(i *providers.Instance) { i.Rental = "" })
	return m
}

// change changes a machine.
func (m *market) change(id string, change func(*providers.Instance)) {
	i := m.instances[atVast+id]
	change(&i)
	m.instances[atVast+id] = i
}

// onboard runs the command at a market.
func onboard(t *testing.T, b *boxes, m *market, args ...string) (int, string, string) {
	t.Helper()
	return onboardUntil(t.Context(), t, b, m, args...)
}

func onboardUntil(ctx context.Context, t *testing.T, b *boxes, m *market, args ...string) (int, string, string) {
	t.Helper()
	dir := listen(t, m)
	var out, errs bytes.Buffer
	now := time.Now()
	code := cli.Run(ctx, cli.Env{Args: append([]string{"--data", dir, "provider", "onboard"}, args...),
		Getenv: func(string) string { return "" }, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Agents: b.agents,
		Now:   func() time.Time { return now },
		Pause: func(ctx context.Context, d time.Duration) error { now = now.Add(d); return ctx.Err() }}, commands.All())
	same := strings.NewReplacer("muster --data "+dir+" ", "muster ")
	return code, same.Replace(out.String()), same.Replace(errs.String())
}

// TestOnboard: machines that run and are not heard are joined over ssh under what their company calls them. What does not work is said
// with the command for doing it by hand. What muster has not rented and nobody has named is left alone.
func TestOnboard(t *testing.T) {
	b := newBoxes(t)
	one := b.box("gpu-1")
	two := b.box("gpu-2")
	seven := b.box("gpu-7")
	m := newMarket(b.api.Routes())
	m.change("2", func(i *providers.Instance) { i.GPUs = 8 })
	run := func(args ...string) (int, string, string) { t.Helper(); return onboard(t, b, m, args...) }
	code, out, errs := run("--plan")
	const first = "muster push root@gpu-1:39467 --provider vast_ai --instance-id 1 --tenant research\n"
	const second = "muster push root@gpu-2:22 --provider vast_ai --instance-id 2 --tenant research --name lost --gpus 8\n"
	if code != 0 || errs != "" || !strings.Contains(out, "run what its command prints:\n  muster token create --tenant research\n") ||
		!strings.HasSuffix(out, "What would be done:\n  "+first+"  "+second) || strings.Contains(out, "vast/4") || strings.Contains(out,
		"vast/5") || !strings.Contains(out, "1 machine not rented by muster, and left alone unless named:\n  muster provider onboard vast/7\n") {
		t.Errorf("plan: %d\n%s%s", code, out, errs)
	}
	if _, out, _ := run("--plan", "-o", "json", "vast/1", "vast/5"); strings.Count(out, `"instance":`) != 2 || strings.Contains(out,
		"box") {
		t.Errorf("json of those that are named: %s", out)
	}
	if code, _, errs := run(); code != 2 || !strings.Contains(errs, "join 2 machines over ssh needs a yes") {
		t.Errorf("without a yes: %d %s", code, errs)
	}
	if _, err := os.Stat(filepath.Join(one, "joined")); err == nil {
		t.Error("a plan joined a machine")
	}
	if code, out, errs = run("--yes"); code != 0 || !strings.Contains(out, "2 machines: 2 joined, 0 failed\n") {
		t.Errorf("joined: %d\n%s%s", code, out, errs)
	}
	const always = "join\n--gateway\nhttps://gw.example\n--root-pin\nsha256:0a\n--provider\nvast_ai\n--instance-id\n"
	if got := b.read(one, "joined"); got != always+"1\n--token-file\n-\n" {
		t.Errorf("the first was called with %q", got)
	}
	if got := b.read(two, "joined"); got != always+"2\n--name\nlost\n--token-file\n-\n" {
		t.Errorf("the second was called with %q", got)
	}
	if _, err := os.Stat(filepath.Join(seven, "joined")); err == nil {
		t.Error("a machine was joined that nobody has named")
	}
	if list := b.done("token", "ls", "--all", "-o", "json"); strings.Count(list, `"tenant":"research"`) != 2 ||
		!strings.Contains(list, `"gpus":8`) || b.liveTokens() != 0 {
		t.Errorf("the tokens are %s", list)
	}
	b.write(filepath.Join(two, "broken"), "")
	if code, out, errs = run("--yes"); code != 1 || !strings.Contains(out, "By hand, where it did not work:\n  "+second) ||
		!strings.Contains(errs, "vast/2: [2/2] failed: no GPU here") || strings.Contains(out, "  "+first) {
		t.Errorf("one that fails: %d\n%s%s", code, out, errs)
	}
	if code, _, errs := run("vast/6"); code != 1 || !strings.Contains(errs, "vast/6 is no machine that is paid for and not heard") {
		t.Errorf("one that is stopped: %d %s", code, errs)
	}
	if code, _, errs := run("gpu-9"); code != 1 || !strings.Contains(errs, "gpu-9 is no machine that is paid for and not heard") {
		t.Errorf("a name of nothing: %d %s", code, errs)
	}
	m.change("8", func(i *providers.Instance) { i.State, i.Foreign, i.RejoinCosts = "running", true, emptied })
	if code, out, errs := run("vast/8", "--rewrite", "--yes"); code != 1 || out != "" ||
		!strings.Contains(errs, "vast/8 was rented by another gateway, which may use it\n  hint: that gateway joins or ends it") {
		t.Errorf("one of another gateway: %d %s%s", code, out, errs)
	}
	if code, out, _ := run("vast/3"); code != 1 || !strings.Contains(out, "have no address for ssh") {
		t.Errorf("one without an address: %d %s", code, out)
	}
	if code, _, errs := run("vast/7", "--yes"); code != 0 || b.read(seven, "joined") == "" {
		t.Errorf("one that is named: %d %s", code, errs)
	}
	if len(m.asked) != 0 {
		t.Errorf("a company was asked for %q", m.asked)
	}
	m = &market{rest: b.api.Routes()}
	if code, out, _ := run(); code != 0 || !strings.HasPrefix(out, "Every machine that runs is in the fleet") {
		t.Errorf("none: %d %s", code, out)
	}
}

// rejoins are states that looks at a machine show one after the other.
func rejoins(states ...string) (all []*providers.Rejoin) {
	for _, state := range states {
		state, why, _ := strings.Cut(state, ": ")
		all = append(all, &providers.Rejoin{State: state, Why: why})
	}
	return all
}

// TestOnboardRewrite: where ssh does not get onto a machine, and somebody agrees to what that costs, its company starts it again, and the
// command waits for it. One that ssh gets onto keeps its disk. What is not agreed to is not done.
func TestOnboardRewrite(t *testing.T) {
	b := newBoxes(t)
	b.box("gpu-1") // gpu-2 is not reached
	m := newMarket(b.api.Routes())
	run := func(args ...string) (int, string, string) { t.Helper(); return onboard(t, b, m, args...) }
	for _, id := range []string{"1", "2", "3", "7"} {
		m.change(id, func(i *providers.Instance) { i.RejoinCosts = emptied })
	}
	code, out, errs := run("--plan")
	if code != 0 || strings.Count(out, "--rewrite\n    # "+emptied+"\n") != 3 || len(m.asked) != 0 {
		t.Errorf("a plan without it: %d\n%s%s", code, out, errs)
	}
	m.change("1", func(i *providers.Instance) { i.RejoinCosts = "" })
	code, out, errs = run("--plan", "--rewrite")
	const each = "  vast/1: not this one: its company cannot do that\n  vast/2: " + emptied + "\n  vast/3: " + emptied + "\n"
	if code != 0 || !strings.Contains(out, each) || strings.Contains(out, "no address for ssh") || len(m.asked) != 0 {
		t.Errorf("its plan: %d\n%s%s", code, out, errs)
	}
	const deed = "join 2 machines over ssh, else have up to 2 machines start again with a new start script (" + emptied + ") needs a yes"
	if code, _, errs := run("--rewrite"); code != 2 || !strings.Contains(errs, deed) || len(m.asked) != 0 {
		t.Errorf("without a yes: %d %s", code, errs)
	}
	const other = "muster provider onboard vast/2 --rewrite\n    # " + emptied
	if code, out, _ := run("--yes"); code != 1 || len(m.asked) != 0 || !strings.Contains(out, other) {
		t.Errorf("a yes without it: %d, asked for %q\n%s", code, m.asked, out)
	}
	m.next[atVast+"2"] = rejoins("asked", "asked: the answer is not clear", "joined")
	m.next[atVast+"3"] = rejoins("asked", "joined")
	m.left[atVast+"3"] = 1
	code, out, errs = run("--rewrite", "--yes")
	const act = ` {"act":"rejoin"}`
	if want := []string{atVast + "3" + act, atVast + "3" + act, atVast + "2" + act}; code != 0 || !slices.Equal(m.asked, want) {
		t.Errorf("%d, asked for %q, want %q\n%s%s", code, m.asked, want, out, errs)
	}
	for _, line := range []string{"vast/2: joined as back\n", "vast/3: joined as back\n"} {
		if !strings.Contains(out, line) {
			t.Errorf("it lacks %q:\n%s", line, out)
		}
	}
	if strings.Count(errs, "vast/2: it starts again; it is running there; the answer is not clear\n") != 1 {
		t.Errorf("its progress is\n%s", errs)
	}
}

// TestOnboardRewriteFails: what a company or the gateway refuses, and what does not come up, is said with the next step. A person who
// leaves is told how to come back; the same command then waits, and asks for nothing again.
func TestOnboardRewriteFails(t *testing.T) {
	b := newBoxes(t)
	m := newMarket(b.api.Routes())
	run := func(args ...string) (int, string, string) { t.Helper(); return onboard(t, b, m, args...) }
	m.change("3", func(i *providers.Instance) { i.RejoinCosts = emptied })
	m.refuses[atVast+"3"] = &wire.ErrorDetail{Code: wire.CodeIllegalMove, Message: "the node lost is in use", Hint: "end that first"}
	if code, _, errs := run("vast/3", "--rewrite", "--yes"); code != 1 || !strings.Contains(errs, "vast/3: the node lost is in use") ||
		!strings.Contains(errs, "end that first") {
		t.Errorf("a refusal: %d %s", code, errs)
	}
	delete(m.refuses, atVast+"3")
	m.next[atVast+"3"] = rejoins("failed: its agent was not heard")
	if code, _, errs := run("vast/3", "--rewrite", "--yes"); code != 1 || !strings.Contains(errs, "did not join: its agent was not heard") ||
		!strings.Contains(errs, "muster token create") || !strings.Contains(errs, "muster provider destroy vast/3 ends it") {
		t.Errorf("one that does not come up: %d %s", code, errs)
	}
	two := b.box("gpu-2")
	m.change("2", func(i *providers.Instance) { i.RejoinCosts = emptied })
	before := len(m.asked)
	for what, spoil := range map[string]func(){
		"does not join":      func() { b.write(filepath.Join(two, "broken"), "") },
		"is another machine": func() { b.write(filepath.Join(b.folder, "gpu-2", "bin", "uname"), "#!/bin/sh\necho Darwin\n") },
	} {
		spoil()
		if code, out, _ := run("vast/2", "--rewrite", "--yes"); code != 1 || len(m.asked) != before || !strings.Contains(out, "By hand, where") {
			t.Errorf("one that ssh gets onto, and that %s: %d, asked for %q\n%s", what, code, m.asked[before:], out)
		}
	}
	ctx, leave := context.WithCancel(t.Context())
	looks := 0
	m.onLook = func() {
		if looks++; looks == 3 {
			leave()
		}
	}
	m.change("3", func(i *providers.Instance) { i.Rejoin = nil })
	if code, _, errs := onboardUntil(ctx, t, b, m, "vast/3", "--rewrite", "--yes"); code != 130 ||
		!strings.Contains(errs, "It goes on. muster provider onboard vast/3 shows how far it is.") {
		t.Errorf("who leaves: %d %s", code, errs)
	}
	m.mu.Lock()                          // the look that was left may still be at work
	m.onLook, m.plan.Findings = nil, nil // it starts again, and is nothing to find
	m.next[atVast+"3"] = rejoins("asked", "joined")
	m.mu.Unlock()
	before = len(m.asked)
	if code, out, errs := run("vast/3"); code != 0 || !strings.Contains(out, "vast/3: joined as back") || len(m.asked) != before {
		t.Errorf("who comes back: %d, asked for %q\n%s%s", code, m.asked[before:], out, errs)
	}
	if code, _, errs := run("vast/3"); code != 1 || !strings.Contains(errs, "vast/3 is no machine that is paid for and not heard") {
		t.Errorf("when it is there: %d %s", code, errs)
	}
}
