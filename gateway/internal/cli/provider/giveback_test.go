package provider_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/providers"
	"muster/gateway/internal/cli/commands"
	"muster/gateway/internal/cli/scripted"
)

// givenBack is a node that is retired already, with the machine that it was.
func givenBack(name, id string) api.Node {
	return api.Node{ID: "id-" + name, Name: name, State: wire.StateRetired, Provider: "vast_ai", InstanceID: id, Labels: map[string]string{}}
}

// TestReturnDestroy: what each machine is and costs is shown first, then it is destroyed, and counts as gone once a complete view lacks it.
func TestReturnDestroy(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	g.On("GET", "providers", providers.List{Providers: accounts().Providers[:1]})
	g.On("GET", "providers/vast/instances", machines(), providers.InstanceList{Instances: machines().Instances[1:]}, // of an old view
		machines(), providers.InstanceList{Known: true, Instances: machines().Instances[1:]})
	g.On("GET", "nodes/gpu-7", givenBack("gpu-7", "39467543"))
	g.On("GET", "nodes/id-gpu-7", givenBack("gpu-7", "39467543"))
	g.On("GET", "nodes/gpu-9", givenBack("gpu-9", "elsewhere"))
	g.On("GET", "nodes/id-gpu-9", givenBack("gpu-9", "elsewhere"))
	ending := silentOne()
	ending.Lease = &providers.Lease{State: providers.LeaseEnding, Why: "HTTP 503: busy"}
	gone := &wire.ErrorDetail{Code: wire.CodeNotFound, Message: "there is no such instance"}
	g.On("GET", "providers/vast/instances/39467543", ending, ending, ending, ending, ending, ending, ending, gone)
	g.On("POST", "leases", providers.Lease{State: providers.LeaseEnding})
	code, out, errs := g.Muster("node", "return", "gpu-7", "gpu-9", "--destroy")
	const shown = "  gpu-7: vast/39467543, 8x H100 SXM, running, 2.125 an hour\n  gpu-9: no account of muster has its machine, which stays\n"
	if code != 2 || !strings.HasPrefix(errs, shown) || !strings.Contains(errs,
		"to clean and give back 2 nodes, and destroy 1 machine needs a yes") ||
		strings.Contains(strings.Join(g.Requests(), "\n"), "POST") {
		t.Fatalf("without a yes: %d %s%s", code, out, errs)
	}
	g.On("GET", "providers/vast/instances", machines(), providers.InstanceList{Instances: machines().Instances[1:]},
		machines(), providers.InstanceList{Known: true, Instances: machines().Instances[1:]})
	code, out, errs = g.Muster("node", "return", "gpu-7", "gpu-9", "--destroy", "--yes")
	asked := strings.Join(g.Requests(), "\n")
	for _, want := range []string{"gpu-7: vast/39467543 is being destroyed\n",
		"gpu-7: vast/39467543 is running there for 30s: HTTP 503: busy\n",
		"gpu-7: vast/39467543 is gone\n", "still to be destroyed at the provider:\n  vast_ai elsewhere (gpu-9)\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s%s", want, out, errs)
		}
	}
	if code != 0 || strings.Contains(out, "39467543 (gpu-7)") || strings.Count(asked, "GET providers/vast/instances\n") < 3 ||
		!strings.Contains(asked, `POST leases {"provider":"vast","instance_id":"39467543","act":"destroy","end":true}`) {
		t.Errorf("code %d\n%s%s\n%s", code, out, errs, asked)
	}
}

// TestReturnLost: a node that is not heard cannot be cleaned, and its machine is destroyed as it is. One whose machine no account has
// stays.
func TestReturnLost(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	g.On("GET", "providers", providers.List{Providers: accounts().Providers[:1]})
	g.On("GET", "providers/vast/instances", machines())
	ended := silentOne()
	ended.Lease = &providers.Lease{State: providers.LeaseEnded}
	g.On("GET", "providers/vast/instances/39467543", ended)
	g.On("POST", "leases", *ended.Lease)
	for name, instance := range map[string]string{"gpu-7": "39467543", "gpu-9": "elsewhere"} {
		lost := givenBack(name, instance)
		lost.State, lost.Status = wire.StateDrained, wire.StatusStale
		g.On("GET", "nodes/"+name, lost)
		g.On("GET", "nodes/id-"+name, lost)
		g.On("POST", "nodes/id-"+name+"/retire", lost)
	}
	code, out, errs := g.Muster("node", "return", "gpu-7", "gpu-9", "--destroy", "--yes")
	if code != 1 || !strings.Contains(errs, "2.125 an hour; its node is stale, so it is destroyed as it is\n") ||
		!strings.Contains(out, "gpu-7: retired, not cleaned: it is stale\n") || !strings.Contains(out, "gpu-7: vast/39467543 is gone\n") ||
		!strings.Contains(errs, "gpu-9: it is stale\n") || strings.Contains(strings.Join(g.Requests(), "\n"), "nodes/id-gpu-9/retire") {
		t.Errorf("code %d\n%s%s\n%s", code, out, errs, strings.Join(g.Requests(), "\n"))
	}
}

// TestReturnGone: a node whose machine is gone is retired, whatever could not be cleaned there, and nothing is left to be destroyed.
func TestReturnGone(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	g.On("GET", "providers", providers.List{Providers: accounts().Providers[:1]})
	g.On("GET", "providers/vast/instances", providers.InstanceList{Known: true, Gone: []string{"id-gpu-7"}})
	lost := givenBack("gpu-7", "39467543")
	lost.State, lost.Status = wire.StateActive, wire.StatusStale
	g.On("GET", "nodes/gpu-7", lost)
	g.On("GET", "nodes/id-gpu-7", lost)
	g.On("POST", "nodes/id-gpu-7/drain", lost)
	g.On("POST", "nodes/id-gpu-7/retire", lost)
	code, out, errs := g.Muster("node", "return", "gpu-7", "--destroy", "--yes")
	const says = "gpu-7: drained\ngpu-7: retired: its machine is gone at vast already\n"
	if code != 0 || out != says || errs != "  gpu-7: its machine is gone at vast already\n" ||
		!strings.Contains(strings.Join(g.Requests(), "\n"), "POST nodes/id-gpu-7/retire") {
		t.Errorf("code %d\n%s%s\n%s", code, out, errs, strings.Join(g.Requests(), "\n"))
	}
	lost.State = wire.StateRetired
	g.On("GET", "nodes/id-gpu-7", lost)
	if code, out, errs := g.Muster("node", "return", "gpu-7", "--destroy", "--yes"); code != 0 || !strings.HasSuffix(out,
		"gpu-7: is retired already\n") {
		t.Errorf("again: %d\n%s%s", code, out, errs)
	}
}

// TestReturnTwice: where somebody else gives a node back at the same time, its retirement is the end of both.
func TestReturnTwice(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	there := givenBack("gpu-7", "39467543")
	there.State, there.Status = wire.StateDrained, wire.StatusOnline
	g.On("GET", "nodes/gpu-7", there)
	g.On("GET", "nodes/id-gpu-7", there, givenBack("gpu-7", "39467543"))
	g.On("POST", "tasks", api.Task{ID: "t1", Status: wire.TaskQueued})
	g.On("GET", "tasks/t1", api.Task{ID: "t1", Status: wire.TaskLost, Error: "the node was retired"})
	code, out, errs := g.Muster("node", "return", "gpu-7", "--yes")
	if code != 0 || !strings.HasPrefix(out, "gpu-7: was given back by somebody else meanwhile\n") || errs != "  gpu-7: its machine stays\n" {
		t.Errorf("code %d\n%s%s\n%s", code, out, errs, strings.Join(g.Requests(), "\n"))
	}
}

// TestReturnStays: a machine that does not go is said to be charged still, and so is one that nobody can look at.
func TestReturnStays(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	g.On("GET", "providers", providers.List{Providers: accounts().Providers[:1]})
	g.On("GET", "providers/vast/instances", machines())
	g.On("GET", "nodes/gpu-7", givenBack("gpu-7", "39467543"))
	g.On("GET", "nodes/id-gpu-7", givenBack("gpu-7", "39467543"))
	g.On("GET", "providers/vast/instances/39467543", silentOne())
	g.On("POST", "leases", providers.Lease{State: providers.LeaseEnding})
	const goesOn = "being destroyed, which goes on; muster lease ls shows how far it is:\n  vast/39467543 (gpu-7)\n"
	const still = "still to be destroyed at the provider:\n  vast/39467543 (gpu-7)\n" +
		"it is charged on until then: muster provider destroy vast/39467543\n"
	code, out, errs := g.Muster("node", "return", "gpu-7", "--destroy", "--yes")
	if code != 1 || !strings.HasSuffix(out, goesOn) || !strings.Contains(errs, "vast/39467543 is still there after 30m") ||
		!strings.Contains(errs, "muster provider plan") {
		t.Errorf("it stays: %d %s%s", code, out, errs)
	}
	g.On("POST", "leases", &wire.ErrorDetail{Code: wire.CodeForbidden, Message: "no"})
	if code, out, errs := g.Muster("node", "return", "gpu-7", "--destroy", "--yes"); code != 1 || !strings.HasSuffix(out, still) ||
		!strings.Contains(errs, "gpu-7: no") {
		t.Errorf("it may not be ended: %d %s%s", code, out, errs)
	}
	lost := &wire.ErrorDetail{Code: wire.CodeNotFound, Message: "there is no account vast"}
	g.On("POST", "leases", lost)
	g.On("GET", "providers/vast/instances/39467543", lost)
	g.On("GET", "providers/vast/instances", machines(), lost)
	if code, out, errs := g.Muster("node", "return", "gpu-7", "--destroy", "--yes"); code != 1 || !strings.HasSuffix(out, still) ||
		!strings.Contains(errs, "there is no account vast") {
		t.Errorf("the account went meanwhile: %d %s%s", code, out, errs)
	}
	ended := silentOne()
	ended.Lease = &providers.Lease{State: providers.LeaseEnded}
	g.On("GET", "providers/vast/instances", machines())
	g.On("GET", "providers/vast/instances/39467543", ended)
	g.On("POST", "leases", *ended.Lease)
	if code, out, _ := g.Muster("node", "return", "gpu-7", "--destroy", "--yes"); code != 0 || strings.Contains(out, "still to be") {
		t.Errorf("it has ended: %d %s", code, out)
	}
	g.On("GET", "providers", &wire.ErrorDetail{Code: wire.CodeForbidden, Message: "this account lacks the scope providers:read"})
	if code, out, errs := g.Muster("node", "return", "gpu-7", "--destroy", "--yes"); code != 1 || out != "" || !strings.Contains(errs,
		"providers:read") {
		t.Errorf("without the scope nothing is begun: %d %s%s", code, out, errs)
	}
}

// TestReturnThroughRestart: while the gateway starts anew the command waits, says so once, and goes on where it was.
func TestReturnThroughRestart(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	away := &wire.ErrorDetail{Code: wire.CodeUnavailable, Message: "it has just started"}
	there, heard := givenBack("gpu-7", "39467543"), givenBack("gpu-7", "39467543")
	there.State, there.Status = wire.StateActive, wire.StatusOnline
	heard.State, heard.Status = wire.StateDrained, wire.StatusOnline
	done := api.Task{ID: "t1", Status: wire.TaskCompleted}
	ended := silentOne()
	ended.Lease = &providers.Lease{State: providers.LeaseEnded}
	g.On("GET", "providers", providers.List{Providers: accounts().Providers[:1]})
	g.On("GET", "providers/vast/instances", machines())
	g.On("GET", "nodes/gpu-7", there)
	g.On("GET", "nodes/id-gpu-7", away, away, there, away, givenBack("gpu-7", "39467543"))
	g.On("POST", "nodes/id-gpu-7/drain", away, heard)
	g.On("POST", "tasks", func() {}, func() {}, func() {}, done)
	g.On("GET", "tasks/t1", away, done)
	g.On("POST", "leases", away, *ended.Lease)
	g.On("GET", "providers/vast/instances/39467543", away, ended)
	code, out, errs := g.Muster("node", "return", "gpu-7", "--destroy", "--yes")
	if code != 0 || !strings.HasSuffix(out, "gpu-7: vast/39467543 is gone\n") || strings.Contains(out, "still") ||
		!strings.Contains(errs, "the gateway does not answer now (it has just started); it goes on when it is back\n") {
		t.Errorf("code %d\n%s%s\n%s", code, out, errs, strings.Join(g.Requests(), "\n"))
	}
	var ids []string
	for _, one := range g.Requests() {
		if strings.HasPrefix(one, "POST tasks") && !slices.Contains(ids, one) {
			ids = append(ids, one)
		}
	}
	if len(ids) != 3 {
		t.Errorf("three steps are tasks %q", ids)
	}
}

// TestReturnLeft: who presses ^C is told what goes on, what does not, and how to go on with that.
func TestReturnLeft(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	there := givenBack("gpu-7", "39467543")
	there.State, there.Status = wire.StateDrained, wire.StatusOnline
	g.On("GET", "providers", providers.List{Providers: accounts().Providers[:1]})
	g.On("GET", "providers/vast/instances", machines())
	g.On("GET", "providers/vast/instances/39467543", silentOne())
	g.On("POST", "leases", providers.Lease{State: providers.LeaseEnding})
	g.On("POST", "tasks", api.Task{ID: "t1", Status: wire.TaskQueued})
	g.On("GET", "tasks/t1", api.Task{ID: "t1", Status: wire.TaskQueued})
	for _, c := range []struct {
		node api.Node
		want string
	}{
		{there, "\nnot given back yet:\n  gpu-7\nto go on: muster node return gpu-7 --destroy\n"},
		{givenBack("gpu-7", "39467543"),
			"\nbeing destroyed, which goes on; muster lease ls shows how far it is:\n  vast/39467543 (gpu-7)\n"},
	} {
		g.On("GET", "nodes/gpu-7", c.node)
		g.On("GET", "nodes/id-gpu-7", c.node)
		ctx, cancel := context.WithCancel(t.Context())
		g.Pause = func(context.Context) error { cancel(); return ctx.Err() }
		if code, out, errs := g.Run(ctx, "node", "return", "gpu-7", "--destroy", "--yes"); code != 130 || !strings.HasSuffix(errs, c.want) {
			t.Errorf("code %d\n%s%s", code, out, errs)
		}
	}
}

// TestReturnCharged: without --destroy too it is said what a machine costs, and how to end that.
func TestReturnCharged(t *testing.T) {
	t.Parallel()
	g := scripted.New(t, commands.All())
	g.Persons, g.Stdin, g.Screen = true, "y\n", 60
	g.On("GET", "providers", providers.List{Providers: accounts().Providers[:1]})
	g.On("GET", "providers/vast/instances", machines())
	g.On("GET", "nodes/gpu-7", givenBack("gpu-7", "39467543"))
	g.On("GET", "nodes/id-gpu-7", givenBack("gpu-7", "39467543"))
	code, out, errs := g.Muster("node", "return", "gpu-7")
	const asks = "  gpu-7: vast/39467543, 8x H100 SXM, running,\n    2.125 an hour; it stays, and is charged\n" +
		"clean and give back 1 node? [y/N] "
	const next = "still to be destroyed at the provider:\n  vast/39467543 (gpu-7)\n" +
		"it is charged on until then: muster provider destroy vast/39467543\n"
	if code != 0 || errs != asks || !strings.HasSuffix(out, next) {
		t.Errorf("code %d\n%s%s", code, out, errs)
	}
	g.On("GET", "providers", &wire.ErrorDetail{Code: wire.CodeForbidden, Message: "this account lacks the scope providers:read"})
	if code, out, errs := g.Muster("node", "return", "gpu-7"); code != 0 || !strings.HasPrefix(errs, "  gpu-7: its machine stays\n") ||
		!strings.HasSuffix(out, "still to be destroyed at the provider:\n  vast_ai 39467543 (gpu-7)\n") {
		t.Errorf("without the scope: code %d\n%s%s", code, out, errs)
	}
}
