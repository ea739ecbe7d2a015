package placement_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/cli/commands"
	"muster/gateway/internal/cli/scripted"
	"muster/gateway/internal/kit"
)

// TestCreate: the request has what the flags say, and an id of its own.
func TestCreate(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	key := write(t, "id.pub", "# mine\nssh-ed25519 AAAA ada\n\nssh-ed25519 BBBB ada\n")
	launch := write(t, "train.json", `{"name":"train","command":["python","train.py"]}`)
	g.On("GET", "tenants", api.TenantList{Tenants: []api.Tenant{{Tenant: "lab"}}})
	g.On("POST", "allocations", allocatedOne())
	code, out, errs := g.Muster("alloc", "create", "--gpu", "h100", "--count", "2", "-l", "tier=spot", "--ttl", "2h", "--max-price", "4.5",
		"--priority", "-5", "--spread", "--note", "the demo", "--user", "ada", "--ssh-key", key, "--sudo", "--launch", launch, "--tenant", "lab",
		"--wait", "--rent", "--yes")
	asked := g.Requests()
	if code != 0 || len(asked) != 2 || !strings.Contains(out, "next        muster alloc extend "+allocation+" --for 2h\n") {
		t.Fatalf("code %d\n%s%s\n%q", code, out, errs, asked)
	}
	id := strings.SplitN(asked[1], `"`, 5)[3]
	want := `POST allocations {"id":"` + id + `","tenant":"lab","gpu":"h100","count":2,"selector":"tier=spot","max_price":4.5,"spread":true,` +
		`"rent":true,` +
		`"ttl_seconds":7200,"priority":-5,"wait":true,"note":"the demo",` +
		`"user":{"name":"ada","ssh_public_keys":["ssh-ed25519 AAAA ada","ssh-ed25519 BBBB ada"],"sudo":true},` +
		`"launch":{"type":"workload.process","params":{"name":"train","command":["python","train.py"]}}}`
	if asked[1] != want || wire.CheckTaskID(id) != nil {
		t.Errorf("got\n%s\nwant\n%s", asked[1], want)
	}
}

// TestCreateAgain: a request whose answer got lost is made again with the same id.
func TestCreateAgain(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	g.On("POST", "allocations", func() {}, allocatedOne())
	code, out, errs := g.Muster("alloc", "create", "--sku", "x", "-o", "json")
	if asked := g.Requests(); code != 0 || len(asked) != 2 || asked[0] != asked[1] || !strings.HasPrefix(out, `{"id":"`+allocation) {
		t.Errorf("code %d\n%s%s\n%q", code, out, errs, asked)
	}
}

// TestDryRun says what there would be.
func TestDryRun(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	g.On("POST", "allocations", allocatedOne(), waitingOne())
	_, out, _ := g.Muster("alloc", "create", "--gpu", "h100", "--dry-run")
	if !strings.Contains(out, "slot   sl-1 on gpu-1: GPU-1\n") || !strings.HasSuffix(out, "3.98 an hour\nNothing was allocated.\n") {
		t.Errorf("got\n%s", out)
	}
	code, out, _ := g.Muster("alloc", "create", "--gpu", "h100", "--dry-run", "--wait")
	if code != 0 || out != "It would wait for 2 free h100 on one node; 1 ahead of it\nNothing was done.\n" {
		t.Errorf("%d %s", code, out)
	}
	g.On("POST", "allocations", waitingOne())
	if _, out, _ := g.Muster("alloc", "create", "--gpu", "h100", "--dry-run"); !strings.HasPrefix(out,
		"It would be refused. With --wait, it would wait for 2 free h100 on one node; 1 ahead of it\n") {
		t.Errorf("without --wait: %s", out)
	}
}

// TestDryRunRents says what the gateway says of it. The help says that price and end are needed.
func TestDryRunRents(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	g.On("POST", "allocations", waitingOne())
	code, out, _ := g.Muster("alloc", "create", "--gpu", "h100", "--dry-run", "--rent", "--max-price", "5")
	const want = "It would wait for 2 free h100 on one node; 1 ahead of it\nNothing was done.\n"
	if code != 0 || out != want {
		t.Errorf("%d %s", code, out)
	}
	_, out, _ = g.Muster("alloc", "create", "--help")
	if !strings.Contains(strings.Join(strings.Fields(out), " "), "It needs --max-price. On a terminal it says") {
		t.Errorf("the help is\n%s", out)
	}
}

// TestRentAlone: without --wait the command ends at once, and says what the allocation waits for and what may be done with it. With --yes
// it asks nobody.
func TestRentAlone(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	g.On("POST", "allocations", waitingOne())
	code, out, errs := g.Muster("alloc", "create", "--gpu", "h100", "--rent", "--max-price", "5", "--ttl", "2h", "--yes")
	if code != 0 || len(g.Requests()) != 1 || !strings.Contains(out, "waits for   2 free h100 on one node; 1 ahead of it\n") ||
		errs != "muster alloc show "+allocation+" shows it, muster alloc release "+allocation+" gives it up.\n" {
		t.Errorf("%d\n%s%s", code, out, errs)
	}
}

// TestRentAsks: what may cost money is shown with the most that it can cost, and needs a yes and an end. Where free slots fit, nobody is
// asked, and nothing may be rented.
func TestRentAsks(t *testing.T) {
	t.Parallel()
	const asks = "It waits for 2 free h100 on one node; 1 ahead of it.\n" +
		"rent for 2h (at most 5.00 an hour: 10.00, and what starting and cleaning take)? [y/N] "
	rent := []string{"alloc", "create", "--gpu", "h100", "--rent", "--max-price", "5", "--ttl", "2h"}
	for _, c := range []struct {
		name         string
		args         []string
		persons      bool
		answer       string
		plan         api.Allocation
		code, made   int
		says, isRent string
	}{
		{"a person says yes", rent, true, "y\n", waitingOne(), 0, 1, asks, `"rent":true`},
		{"a person says no", rent, true, "n\n", waitingOne(), 1, 0, asks, ""},
		{"nobody is there", rent, false, "", waitingOne(), 0, 1, "", `"rent":true`},
		{"free slots fit", rent, true, "", allocatedOne(), 0, 1, "", `"ttl_seconds":7200`},
	} {
		g := scripted.New(t, commands.All())
		g.Persons, g.Stdin = c.persons, c.answer
		g.On("POST", "allocations", c.plan, allocatedOne())
		code, out, errs := g.Muster(c.args...)
		made := 0
		for _, one := range g.Requests() {
			if !strings.Contains(one, `"dry_run":true`) {
				made++
				if !strings.Contains(one, c.isRent) || strings.Contains(one, `"rent":true`) != strings.Contains(c.isRent, "rent") {
					t.Errorf("%s: it asked %s", c.name, one)
				}
			}
		}
		if code != c.code || made != c.made || !strings.Contains(errs, c.says) {
			t.Errorf("%s: %d, %d made\n%s%s", c.name, code, made, out, errs)
		}
	}
}

// TestWait: a person sees each change of what an allocation waits for, once, and then what it has got.
func TestWait(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	first := waitingOne()
	first.Ahead = 0
	g.On("POST", "allocations", waitingOne())
	g.On("GET", "allocations/"+allocation, waitingOne(), &wire.ErrorDetail{Code: wire.CodeUnavailable, Message: "it has just started"},
		first, first, allocatedOne())
	code, out, errs := g.Muster("alloc", "create", "--gpu", "h100", "--wait")
	want := allocation + " waits for 2 free h100 on one node; 1 ahead of it; ^C leaves it in the queue\n" +
		"the gateway does not answer now (it has just started); it goes on when it is back\n" +
		allocation + " waits for 2 free h100 on one node; ^C leaves it in the queue\n"
	if code != 0 || errs != want || !strings.Contains(out, "state       allocated\n") {
		t.Errorf("code %d\n%s\n%s", code, out, errs)
	}
	gone := releasingOne()
	g.On("GET", "allocations/"+allocation, gone)
	if code, out, errs := g.Muster("alloc", "create", "--gpu", "h100", "--wait", "-o", "json"); code != 1 || out != "" ||
		!strings.Contains(errs, "is releasing: ") {
		t.Errorf("it was released: %d %s%s", code, out, errs)
	}
	g.On("GET", "allocations/"+allocation, &wire.ErrorDetail{Code: wire.CodeForbidden, Message: "no more"})
	if code, _, errs := g.Muster("alloc", "create", "--gpu", "h100", "--wait"); code != 1 || !strings.Contains(errs, "muster: no more") {
		t.Errorf("it may not be looked at: %d %s", code, errs)
	}
}

// TestLeave: ^C leaves an allocation in the queue, and says how to go on.
func TestLeave(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	ctx, cancel := context.WithCancel(t.Context())
	g.Pause = func(ctx context.Context) error {
		cancel()
		return ctx.Err()
	}
	g.On("POST", "allocations", waitingOne())
	g.On("GET", "allocations/"+allocation, waitingOne())
	code, out, errs := g.Run(ctx, "alloc", "create", "--gpu", "h100", "--wait")
	if code != 130 || out != "" || !strings.Contains(errs, allocation+" waits on in the queue.\nmuster alloc show ") ||
		!strings.Contains(errs, "gives it up.\n") {
		t.Errorf("code %d\n%s%s", code, out, errs)
	}
	ctx, cancel = context.WithCancel(t.Context())
	g.On("POST", "allocations", cancel)
	if code, _, errs := g.Run(ctx, "alloc", "create", "--gpu", "h100"); code != 130 || !strings.Contains(errs, " was made is not known.\n") {
		t.Errorf("before the answer: %d %s", code, errs)
	}
}

// TestCheck: a check is waited for, and what it has found is shown. What is missing fails the command.
func TestCheck(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	old := g.Now.Add(-time.Hour)
	fresh := g.Now.Add(time.Minute)
	pending := evidence(&old)
	pending.Pending = "t1"
	start := func(answers ...any) {
		g.On("GET", "nodes/gpu-1/check", append([]any{evidence(&old)}, answers...)...)
		g.On("POST", "nodes/gpu-1/check", api.CheckStarted{Task: "t1"})
		g.On("GET", "tasks/t1", api.Task{ID: "t1", Status: wire.TaskCompleted})
		g.Requests()
	}
	start(pending, evidence(&old), evidence(&fresh, "ecc: unknown: nvidia-smi does not say"))
	code, out, errs := g.Muster("node", "check", "gpu-1", "--accept", "--image", "h/p@sha256:1", "--login", "ngc", "--", "dcgmi", "diag",
		"-r", "1")
	asked := g.Requests()
	const sent = `POST nodes/gpu-1/check {"accept":true,"image":"h/p@sha256:1","command":["dcgmi","diag","-r","1"],"login":"ngc"}`
	if code != 1 || asked[1] != sent || errs != "task t1 looks at gpu-1\n" {
		t.Errorf("code %d %s\n%q", code, errs, asked)
	}
	kit.Golden(t, "node-check.golden", out)
	start(evidence(&fresh))
	if code, out, _ = g.Muster("node", "check", "gpu-1", "--accept"); code != 1 || !strings.Contains(out, "missing: ecc: unknown: ") {
		t.Errorf("an acceptance with something unknown: %d\n%s", code, out)
	}
	g.Screen = 60
	start(evidence(&fresh))
	code, out, _ = g.Muster("node", "check", "gpu-1", "--wait")
	if code != 0 || !strings.HasSuffix(out, "\nNothing is missing. Its slots: muster slot ls --node gpu-1\n") {
		t.Errorf("nothing is missing: %d\n%s", code, out)
	}
	bare := evidence(&fresh)
	bare.Profile = ""
	bare.Figures, bare.Tags = nil, nil
	start(bare)
	if code, out, _ = g.Muster("node", "check", "gpu-1"); code != 0 || !strings.HasPrefix(out, "gpu-1: no profile, ") ||
		!strings.HasSuffix(out, "muster profile assign PROFILE gpu-1\n") || strings.Contains(out, "FIGURE") || strings.Contains(out, "TAG") {
		t.Errorf("no profile: %d\n%s", code, out)
	}
	start(evidence(&fresh, "x"))
	if code, out, _ := g.Muster("node", "check", "gpu-1", "-o", "json"); code != 1 || !strings.HasPrefix(out, `{"node":"gpu-1",`) {
		t.Errorf("json: %d %s", code, out)
	}
}

// TestCheckFails: a check that ends without evidence, or does not end, is an error that says where to look.
func TestCheckFails(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	pending := evidence(nil)
	pending.Pending = "t1"
	g.On("POST", "nodes/gpu-1/check", api.CheckStarted{Task: "t1"})
	g.On("GET", "tasks/t1", api.Task{ID: "t1", Status: wire.TaskRunning}, api.Task{ID: "t1", Status: wire.TaskFailed, Error: "no nvidia-smi"})
	g.On("GET", "nodes/gpu-1/check", evidence(nil))
	if code, _, errs := g.Muster("node", "check", "gpu-1"); code != 1 || !strings.Contains(errs, "the check is failed: no nvidia-smi") ||
		!strings.Contains(errs, "muster task show t1") {
		t.Errorf("the task failed: %d %s", code, errs)
	}
	g.On("GET", "tasks/t1", &wire.ErrorDetail{Code: wire.CodeForbidden, Message: "no"})
	if code, _, errs := g.Muster("node", "check", "gpu-1", "--timeout", "10s"); code != 1 ||
		!strings.Contains(errs, "after 10s, gpu-1 has not been looked at") {
		t.Errorf("who may not see tasks: %d %s", code, errs)
	}
	g.On("GET", "nodes/gpu-1/check", pending)
	if code, _, errs := g.Muster("node", "check", "gpu-1"); code != 1 || !strings.Contains(errs, "after 30m, gpu-1 has not been looked at") {
		t.Errorf("it does not end: %d %s", code, errs)
	}
	ctx, cancel := context.WithCancel(t.Context())
	g.Pause = func(ctx context.Context) error {
		cancel()
		return ctx.Err()
	}
	if code, _, errs := g.Run(ctx, "node", "check", "gpu-1"); code != 1 || !strings.Contains(errs, "The check goes on. muster node show") {
		t.Errorf("^C: %d %s", code, errs)
	}
	g.On("GET", "nodes/gpu-1/check", evidence(nil), &wire.ErrorDetail{Code: wire.CodeRetired, Message: "it is retired"})
	if code, _, errs := g.Muster("node", "check", "gpu-1"); code != 1 || !strings.Contains(errs, "it is retired") {
		t.Errorf("the node is retired meanwhile: %d %s", code, errs)
	}
}
