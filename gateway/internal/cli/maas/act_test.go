package maas_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"muster/agent/wire"
	"muster/gateway/api/machines"
	"muster/gateway/internal/cli/commands"
	"muster/gateway/internal/cli/scripted"
	"muster/gateway/internal/kit"
)

// acting is a gateway with three machines, by each of their names.
func acting(t *testing.T) *scripted.Gateway {
	t.Helper()
	g := scripted.New(t, commands.All())
	g.On("GET", "maas/machines/rack-1", ready())
	g.On("GET", "maas/machines/abc123", ready())
	g.On("GET", "maas/machines/rack-2", failed())
	g.On("GET", "maas/machines/new7", fresh())
	return g
}

// TestActs: what each command sends, and what it says of a machine that is refused.
func TestActs(t *testing.T) {
	t.Parallel()
	g := acting(t)
	g.On("POST", "maas/machines", machines.Acted{Machines: []machines.Machine{deploying(machines.StateInstalled, "", "")}})
	const ids = `"machines":["abc123"]`
	for args, want := range map[string]string{
		"deploy rack-1": `{"act":"deploy",` + ids + `}`,
		"deploy rack-1 --series ubuntu/noble --profile slice-vm": `{"act":"deploy",` + ids + `,"series":"ubuntu/noble","profile":"slice-vm"}`,
		"deploy rack-1 --reimage -y":                             `{"act":"deploy",` + ids + `,"reimage":true}`,
		"release rack-1":                                         `{"act":"release",` + ids + `}`,
		"release rack-1 --erase --force -y":                      `{"act":"release",` + ids + `,"erase":true,"force":true}`,
		"release rack-1 --erase=false":                           `{"act":"release",` + ids + `,"erase":false}`,
		"reset rack-1":                                           `{"act":"reset",` + ids + `}`,
		"commission rack-1":                                      `{"act":"commission",` + ids + `}`,
		"decommission rack-1 -y":                                 `{"act":"decommission",` + ids + `}`,
		"cancel rack-1":                                          `{"act":"cancel",` + ids + `}`,
	} {
		g.Requests()
		code, out, errs := g.Muster(strings.Fields("maas " + args)...)
		asked := g.Requests()
		act, _, _ := strings.Cut(args, " ")
		stays := ""
		if slices.Contains([]string{machines.ActRelease, machines.ActReset, machines.ActDecommission}, act) {
			stays = "; what is on its disks stays"
		}
		if code != 0 || asked[len(asked)-1] != "POST maas/machines "+want ||
			out != "rack-1: "+act+" has begun"+stays+"; muster maas show abc123 says how far it is\n" {
			t.Errorf("%s: %d %s%s%q", args, code, out, errs, asked)
		}
	}
	g.On("POST", "maas/machines", machines.Acted{Machines: []machines.Machine{deploying(machines.StateReady, "", "")},
		Refused: map[string]string{"bad9": "it is failed in MAAS (muster maas reset bad9)"}})
	g.Requests()
	code, out, errs := g.Muster("maas", "deploy", "rack-1", "rack-2", "--dry-run")
	asked := g.Requests()
	if code != 1 || asked[2] != `POST maas/machines {"act":"deploy","machines":["abc123","bad9"],"dry_run":true}` ||
		out != "rack-1: would begin; first, deploy: waits for: its agent\n" ||
		!strings.Contains(errs, "rack-2: it is failed in MAAS (muster maas reset bad9)") {
		t.Errorf("a plan: %d %s%s%q", code, out, errs, asked)
	}
	if code, out, _ := g.Muster("maas", "deploy", "rack-1", "-o", "json"); code != 1 || !strings.HasPrefix(out, `{"machines":[{"system_id":`) {
		t.Errorf("json: %d %s", code, out)
	}
	g.On("POST", "maas/machines", &wire.ErrorDetail{Code: wire.CodeUnavailable, Message: "the machines cannot be seen now",
		Hint: "muster maas ls"})
	if code, _, errs := g.Muster("maas", "reset", "rack-2"); code != 1 || !strings.Contains(errs, "the machines cannot be seen now") {
		t.Errorf("refused: %d %s", code, errs)
	}
}

// TestAsks: several machines, and what is lost, need a yes. Without it nothing is done.
func TestAsks(t *testing.T) {
	t.Parallel()
	g := acting(t)
	erased := deploying(machines.StateInstalled, "", "")
	erased.Work.Erase = true
	plan := machines.Acted{Machines: []machines.Machine{deploying(machines.StateInstalled, "", ""), erased}}
	g.On("POST", "maas/machines", plan)
	for args, deed := range map[string]string{
		"release rack-1":                     "release 1 machine, and erase what is on the disks", // as its profile says
		"deploy rack-1 new7":                 "deploy 2 machines",
		"deploy rack-1 --reimage":            "deploy 1 machine anew: what is on the disks is lost",
		"release rack-1 --erase":             "release 1 machine, and erase what is on the disks",
		"release rack-1 --force":             "release 1 machine, and erase what is on the disks, although somebody may work there",
		"reset rack-1 --erase=false --force": "reset 1 machine, although somebody may work there",
		"decommission new7":                  "decommission 1 machine, and erase what is on the disks",
	} {
		code, out, errs := g.Muster(strings.Fields("maas " + args)...)
		if code != 2 || out != "" || !strings.Contains(errs, "to "+deed+" needs a yes") || !strings.Contains(errs, "add --yes") {
			t.Errorf("%s: %d %s%s", args, code, out, errs)
		}
	}
	theirs := ready()
	theirs.Finding = machines.FindingElsewhere
	g.On("GET", "maas/machines/rack-5", theirs)
	if _, _, errs := g.Muster("maas", "release", "rack-5", "new7", "--force"); !strings.Contains(errs, "to release 2 machines, "+
		"and erase what is on the disks, although another gateway or person with muster's key has rack-1 needs a yes") {
		t.Errorf("another gateway's: %s", errs)
	}
	if code, out, errs := g.Muster("maas", "release", "rack-1", "--dry-run"); code != 0 || errs != "" ||
		!strings.HasPrefix(out, "rack-1: would begin; what is on its disks stays; first, ") ||
		!strings.Contains(out, "\nrack-1: would begin; its disks are erased; first, ") {
		t.Errorf("a plan: %d %s%s", code, out, errs)
	}
	const shown = "  rack-1 (abc123): ready in MAAS, node rack-1 (ready)\n  new7 (new7): new in MAAS, no node\n"
	plan.Machines = plan.Machines[:1]
	g.On("POST", "maas/machines", plan)
	g.Persons, g.Stdin = true, "n\n"
	if code, _, errs := g.Muster("maas", "release", "rack-1", "new7"); code != 1 || !strings.HasPrefix(errs,
		shown+"release 2 machines? [y/N] ") {
		t.Errorf("a no: %d %s", code, errs)
	}
	for _, asked := range g.Requests() {
		if strings.Contains(asked, "POST") && !strings.Contains(asked, `"dry_run":true`) {
			t.Errorf("something was done: %s", asked)
		}
	}
	for name, args := range map[string][]string{"given twice": {"rack-1", "abc123"}, "there is no": {"none"}} {
		if code, _, errs := g.Muster(append([]string{"maas", "deploy", "-y"}, args...)...); code == 0 || !strings.Contains(errs, name) {
			t.Errorf("%s: %d %s", name, code, errs)
		}
	}
	if code, _, errs := g.Muster("maas", "deploy", "rack-1", "--erase"); code != 2 || !strings.Contains(errs, "takes no --erase") {
		t.Errorf("a flag of another act: %d %s", code, errs)
	}
}

// TestWait: each step is told once, through a gateway and a MAAS that are away, until each work has ended, well or not.
func TestWait(t *testing.T) {
	t.Parallel()
	g := acting(t)
	second := deploying(machines.StateReady, "", "")
	second.SystemID, second.Hostname = "bad9", "rack-2"
	list := func(m ...machines.Machine) machines.List { return machines.List{MAAS: seen(), Machines: m} }
	broken := failed()
	broken.Ended = &machines.Ended{Act: machines.ActDeploy, At: *at(0), Why: "its agent was not heard within 45m0s"}
	away := list(deploying(machines.StateDeploying, "install", ""), second)
	away.MAAS.FailedAt, away.MAAS.Error = at(-1), "HTTP 502"
	g.On("POST", "maas/machines", machines.Acted{Machines: []machines.Machine{deploying(machines.StateReady, "", ""), second}})
	g.On("GET", "maas/machines", list(deploying(machines.StateAllocated, "deploy", "HTTP 503"), second),
		&wire.ErrorDetail{Code: wire.CodeUnavailable, Message: "the gateway stops"},
		list(deploying(machines.StateDeploying, "install", "its agent"), second),
		away, list(deploying(machines.StateDeploying, "install", ""), second), away,
		list(deployed(), broken))
	code, out, errs := g.Muster("maas", "deploy", "rack-1", "rack-2", "--wait", "-y")
	if code != 1 {
		t.Errorf("code %d", code)
	}
	kit.Golden(t, "maas-wait.golden", out+"---\n"+errs)

	g = acting(t)
	g.On("POST", "maas/machines", machines.Acted{Machines: []machines.Machine{deploying(machines.StateReady, "", "")}})
	g.On("GET", "maas/machines", list(deploying(machines.StateDeploying, "install", "")), list(deployed()))
	if code, out, _ := g.Muster("maas", "deploy", "rack-1", "--wait", "-o", "json"); code != 0 || strings.Count(out, "\n") != 1 ||
		!strings.Contains(out, `"state":"deployed"`) {
		t.Errorf("json: %d %s", code, out)
	}
	g.On("GET", "maas/machines", list())
	if code, _, errs := g.Muster("maas", "release", "rack-1", "--wait"); code != 1 || !strings.Contains(errs, "did not succeed: it is gone") {
		t.Errorf("a machine that vanishes: %d %s", code, errs)
	}
	erased := deploying(machines.StateInstalled, "", "")
	erased.Work.Act, erased.Work.Erase = machines.ActRelease, true
	given := ready()
	given.Ended = &machines.Ended{Act: machines.ActRelease, At: *at(0)}
	g.On("POST", "maas/machines", machines.Acted{Machines: []machines.Machine{erased}})
	g.On("GET", "maas/machines", list(given))
	if code, out, _ := g.Muster("maas", "release", "rack-1", "--wait", "--erase", "-y"); code != 0 ||
		out != "rack-1: release is done: ready in MAAS, node rack-1 ready; its disks are erased\n" {
		t.Errorf("a release with erase: %d %s", code, out)
	}
	g.On("POST", "maas/machines", machines.Acted{Machines: []machines.Machine{deploying(machines.StateReady, "", "")}})
	out1 := ready()
	out1.Node, out1.NodeState, out1.Ended = "", "", &machines.Ended{Act: machines.ActDecommission, At: *at(0)}
	g.On("GET", "maas/machines", list(out1))
	if code, out, _ := g.Muster("maas", "decommission", "rack-1", "--wait", "-y"); code != 0 ||
		out != "rack-1: decommission is done: ready in MAAS\n" {
		t.Errorf("decommission: %d %s", code, out)
	}
	other := deploying(machines.StateReady, "", "")
	other.Work.Since, other.Ended = *at(1), &machines.Ended{Act: machines.ActReset, At: *at(0)}
	g.On("GET", "maas/machines", list(other))
	if code, out, _ := g.Muster("maas", "reset", "rack-1", "--wait"); code != 0 || !strings.Contains(out, "reset is done") {
		t.Errorf("another work came after it: %d %s", code, out)
	}
	old := ready()
	old.Ended = &machines.Ended{Act: machines.ActReset, At: *at(-9)}
	g.On("GET", "maas/machines", list(old))
	if code, _, errs := g.Muster("maas", "reset", "rack-1", "--wait"); code != 1 || !strings.Contains(errs, "did not succeed") {
		t.Errorf("only an earlier one was done: %d %s", code, errs)
	}
	g.On("GET", "maas/machines", &wire.ErrorDetail{Code: wire.CodeForbidden, Message: "no more"})
	if code, _, errs := g.Muster("maas", "reset", "rack-1", "--wait"); code != 1 || !strings.Contains(errs, "muster: no more") {
		t.Errorf("it may not be looked at: %d %s", code, errs)
	}
}

// TestWaitLeave: ^C leaves the work, and says how to look.
func TestWaitLeave(t *testing.T) {
	t.Parallel()
	g := acting(t)
	g.On("POST", "maas/machines", machines.Acted{Machines: []machines.Machine{deploying(machines.StateReady, "", "")}})
	g.On("GET", "maas/machines", machines.List{MAAS: seen(), Machines: []machines.Machine{deploying(machines.StateReady, "", "")}})
	ctx, cancel := context.WithCancel(t.Context())
	g.Pause = func(ctx context.Context) error {
		cancel()
		return ctx.Err()
	}
	if code, _, errs := g.Run(ctx, "maas", "deploy", "rack-1", "--wait"); code != 130 || !strings.Contains(errs,
		"\nIt goes on: muster maas show abc123\n") {
		t.Errorf("code %d %s", code, errs)
	}
}

// TestCancel: what ended at once is told so. --wait follows what is taken back, of a work that is not its own.
func TestCancel(t *testing.T) {
	t.Parallel()
	g := acting(t)
	g.On("POST", "maas/machines", machines.Acted{Machines: []machines.Machine{ready()}})
	if code, out, errs := g.Muster("maas", "cancel", "rack-1"); code != 0 || out != "rack-1: cancel is done\n" {
		t.Errorf("at once: %d %s%s", code, out, errs)
	}
	goes := deploying(machines.StateDeploying, "install", "ada canceled it")
	over := ready()
	over.Ended = &machines.Ended{Act: machines.ActDeploy, At: *at(0), Why: "ada canceled it", Canceled: true}
	for begun, then := range map[*machines.Machine]machines.Machine{&goes: over, &over: over} {
		g.On("POST", "maas/machines", machines.Acted{Machines: []machines.Machine{*begun}})
		g.On("GET", "maas/machines", machines.List{MAAS: seen(), Machines: []machines.Machine{then}})
		code, out, errs := g.Muster("maas", "cancel", "rack-1", "--wait")
		if code != 0 || out != "rack-1: cancel is done: ready in MAAS, node rack-1 ready\n" {
			t.Errorf("waited for: %d %s%s", code, out, errs)
		}
	}
	over.Ended.Canceled = false // it was there before
	g.On("GET", "maas/machines", machines.List{MAAS: seen(), Machines: []machines.Machine{over}})
	g.On("POST", "maas/machines", machines.Acted{Machines: []machines.Machine{goes}})
	if code, _, errs := g.Muster("maas", "cancel", "rack-1", "--wait"); code != 1 || !strings.Contains(errs, "cancel did not succeed") {
		t.Errorf("it was not canceled: %d %s", code, errs)
	}
}
