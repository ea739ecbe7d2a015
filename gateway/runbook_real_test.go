//go:build real

package main

import (
	"bytes"
	"context"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/gateway/internal/cli/help"
	"muster/gateway/internal/kit/maassim"
)

// runbook is a page of help that a test follows: each command that it types stands on the page, with names in place of the page's. At the
// end each command of the page's blocks was typed.
type runbook struct {
	*house
	sim   *maassim.Sim
	page  string
	typed map[string]bool
	mute  string // the machine whose agent does not come
	given string // the token that it got
	runs  map[string]*process
}

// racks is a gateway with a simulated MAAS in which nothing takes longer than a second, and agents that start with what MAAS hands out.
func racks(t *testing.T, page string) *runbook {
	t.Helper()
	r := &runbook{page: help.Text(page), typed: map[string]bool{}, runs: map[string]*process{}}
	r.sim = maassim.New(maassim.Config{Power: time.Second, Install: time.Second, Commission: time.Second, Erase: time.Second,
		OnBoot: func(m maassim.Machine, userData []byte) {
			token := nodeToken.FindString(string(userData))
			if m.Hostname == r.mute {
				r.given = token
				return
			}
			r.joins(m.Hostname, token)
		}})
	server := httptest.NewServer(r.sim)
	t.Cleanup(server.Close)
	key := filepath.Join(t.TempDir(), "maas.key")
	if err := os.WriteFile(key, []byte(r.sim.Key()), 0o600); err != nil {
		t.Fatal(err)
	}
	r.house = agentsHouse(t, carriedAgents(t), "--maas-url", server.URL+"/MAAS", "--maas-key-file", key)
	return r
}

// joins starts the agent of a machine that is installed: its disk has nothing from before.
func (r *runbook) joins(name, token string) {
	if before := r.runs[name]; before != nil {
		before.kill()
	}
	_ = os.RemoveAll(filepath.Join(r.data, "agent-"+name))
	r.runs[name] = r.agent(name, token, "--nvidia-smi", smi(r.t, 2), "--interval", "2s") // one that is busy must not be stale soon
}

// nodeToken is the token in user-data.
var nodeToken = regexp.MustCompile(`[0-9A-Za-z_]+\.[0-9A-Za-z]{28}\b`)

// types types a command of the page. put are pairs: what stands on the page, and what is typed in its place. It may end with any code.
func (r *runbook) types(line string, put ...string) (code int, said string) {
	r.t.Helper()
	code, said = r.quietly(line, put...)
	r.t.Logf("$ %s: %d\n%s", line, code, said)
	return code, said
}

func (r *runbook) quietly(line string, put ...string) (code int, said string) {
	r.t.Helper()
	if !strings.Contains(r.page, line) {
		r.t.Fatalf("the page has no %q", line)
	}
	r.typed[line] = true
	var out, errs bytes.Buffer
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	args := append([]string{"--data", r.data}, strings.Fields(strings.NewReplacer(put...).Replace(line))[1:]...)
	code = run(ctx, args, func(string) string { return "" }, strings.NewReader(""), &out, &errs)
	return code, out.String() + errs.String()
}

// done is a command of the page that does what it is for.
func (r *runbook) done(line string, put ...string) string {
	r.t.Helper()
	code, said := r.types(line, put...)
	if code != 0 {
		r.t.Fatalf("%s: exit %d\n%s", line, code, said)
	}
	return said
}

// soon is done for a command that is refused until muster has looked at MAAS again.
func (r *runbook) soon(line string, put ...string) string {
	r.t.Helper()
	for range 10 {
		if code, said := r.types(line, put...); code == 0 {
			return said
		}
		<-time.After(10 * time.Second)
	}
	r.t.Fatalf("%s does not work in any way", line)
	return ""
}

// sees waits until a command of the page says all words, whatever the blanks between them. MAAS is looked at every 30 seconds.
func (r *runbook) sees(line string, words ...string) {
	r.t.Helper()
	said := ""
	for range 60 {
		_, said = r.quietly(line)
		short := strings.Join(strings.Fields(said), " ")
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(short, word) }) {
			r.t.Logf("$ %s\n%s", line, said)
			return
		}
		<-time.After(2 * time.Second)
	}
	r.t.Fatalf("%s does not say %q:\n%s", line, words, said)
}

// end tells which commands in the page's blocks nobody has typed.
func (r *runbook) end() {
	r.t.Helper()
	for i, block := range strings.Split(r.page, "\n```") {
		for line := range strings.Lines(block) {
			line, _, _ = strings.Cut(line, "#")
			if line = strings.TrimSpace(line); i%2 == 1 && strings.HasPrefix(line, "muster ") && !r.typed[line] {
				r.t.Errorf("nobody has typed %q", line)
			}
		}
	}
}

// TestRunbookImages follows the page about a new kind of host.
func TestRunbookImages(t *testing.T) {
	t.Parallel()
	r := racks(t, "images")
	r.sim.Add(maassim.Machine{Hostname: "test-1", Tags: []string{"gpu-nvidia-h100"}})
	r.until("MAAS is seen", func() bool { return strings.Contains(r.muster("maas", "ls"), "1 machine, seen") })

	r.done("muster maas commission test-1 --wait")
	r.done("muster profile assign gpuaas-profile-baremetal test-1")
	const deploy = "muster maas deploy test-1 --series custom/h200-570 --wait"
	r.sees("muster maas ls", "test-1 ready test-1 ready gpuaas-profile-baremetal")
	r.done(deploy, "custom/h200-570", "ubuntu/noble")
	if _, said := r.types("muster node check test-1 --accept"); !strings.Contains(said, "driver 590.48.01, 2 GPUs") {
		t.Error("it was not looked at")
	}
	r.done("muster node show test-1")
	r.done("muster node exec test-1 -- reboot", "reboot", "true")
	r.done("muster node wait test-1")
	r.done("muster node drain test-1")
	r.done("muster maas release test-1 --erase --yes --wait")
	r.done(deploy, "custom/h200-570", "ubuntu/noble")
	r.done("muster slot ls --node test-1")
	r.end()
}

// TestRunbookLabDown follows the page about a lab in trouble: the power control of one machine is away, another never boots from the
// network, the third does not install, and the fourth is installed and cannot find the gateway. Then MAAS itself goes away, and comes back
// without its database.
func TestRunbookLabDown(t *testing.T) {
	t.Parallel()
	r := racks(t, "lab-down")
	const profile = "gpuaas-profile-baremetal"
	names := []string{"power", "dhcp", "pxe", "dns"}
	for _, name := range names {
		r.sim.Add(maassim.Machine{Hostname: name, UUID: "uuid-" + name, Status: 4, Passed: true, Tags: []string{profile}})
	}
	r.mute = "dns"
	r.sim.Define(profile, "")
	r.until("nodes are made", func() bool { return strings.Count(r.muster("maas", "ls"), "commissioned") == 4 })
	r.until("they have profiles", func() bool {
		code, _, _ := r.try(append([]string{"profile", "assign", profile}, names...)...)
		return code == 0
	})
	r.sees("muster maas ls", "power ready power ready", "dhcp ready dhcp ready", "pxe ready pxe ready", "dns ready dns ready")

	r.sim.Change(r.id("power"), func(m *maassim.Machine) { m.BMCAway, m.Seen = true, "error" })
	for _, name := range []string{"dhcp", "pxe"} {
		r.sim.Change(r.id(name), func(m *maassim.Machine) { m.Hangs = true })
	}
	r.muster("maas", "commission", "dhcp")
	r.muster("maas", "deploy", "pxe", "dns", "--yes")
	r.sees("muster maas ls", "power ready power ready gpuaas-profile-baremetal - power_error", "dhcp commissioning", "pxe deploying",
		"dns installed dns deploying")
	r.sees("muster maas plan", "power_error power", "check its BMC's address", "in_work pxe", "in_work dns")
	for name, says := range map[string]string{"power": "power error", "dhcp": "MAAS calls it commissioning", "pxe": "gives up in",
		"dns": "installed; MAAS calls it deployed"} {
		if said := strings.Join(strings.Fields(r.done("muster maas show NAME", "NAME", name)), " "); !strings.Contains(said, says) {
			t.Errorf("of %s it does not say %q", name, says)
		}
	}

	r.sim.Change(r.id("dhcp"), func(m *maassim.Machine) { m.Status, m.Owner = 2, "" })
	r.sim.Change(r.id("pxe"), func(m *maassim.Machine) { m.Status, m.Error = 11, "time-out during deployment" })
	r.sees("muster maas plan", "commissioning_failed dhcp", "last_work_failed pxe")
	r.done("muster maas show NAME", "NAME", "pxe")

	r.sim.Fail("*", maassim.RegionDown, -1)
	r.sees("muster maas ls", "MAAS cannot be seen since", "(unclear)")
	code, said := r.types("muster maas reset NAME --yes --wait", "NAME", "dhcp")
	if code == 0 || !strings.Contains(said, "cannot be seen now") {
		t.Errorf("something is done although MAAS is away: %d %s", code, said)
	}
	r.sim.Heal()
	for _, name := range names {
		r.sim.Change(r.id(name), func(m *maassim.Machine) { m.Hangs, m.BMCAway = false, false })
	}
	r.until("MAAS is seen again", func() bool { return !strings.Contains(r.muster("maas", "ls"), "cannot be seen") })

	r.joins("dns", r.given) // its name server knows the gateway now
	r.done("muster node wait NAME", "NAME", "dns")
	r.soon("muster maas reset NAME --yes --wait", "NAME", "dhcp")
	r.done("muster maas reset NAME --yes --wait", "NAME", "pxe")
	r.soon("muster maas deploy NAME --wait", "NAME", "pxe")
	r.done("muster node wait NAME", "NAME", "pxe")

	old := r.id("dhcp")
	r.sim.Remove(old)
	r.sim.Add(maassim.Machine{Hostname: "dhcp", UUID: "uuid-dhcp", Status: 4, Passed: true})
	r.sees("muster maas plan", "system_id_changed dhcp", "maas decommission "+old)
	r.end()
}

// TestRunbookFleetSilent follows the page about a fleet that is not heard: first the gateway is away, then the nodes are, and then one
// shows no values.
func TestRunbookFleetSilent(t *testing.T) {
	t.Parallel()
	r := &runbook{page: help.Text("fleet-silent"), typed: map[string]bool{}, runs: map[string]*process{}, house: newHouse(t)}
	program := agentBinary(t)
	for _, name := range []string{"gpu-1", "gpu-2"} {
		r.joins(name, r.token())
		r.muster("node", "wait", name)
	}
	agent := func(name string, args ...string) string {
		out, _ := exec.Command(program, append(args, "--state", filepath.Join(r.data, "agent-"+name))...).CombinedOutput()
		return string(out)
	}
	r.gateway.stop()
	if code, said := r.types("muster status"); code == 0 {
		t.Errorf("the gateway is away, and it says %s", said)
	}
	if code, said := r.types("muster doctor"); code == 0 || !strings.Contains(said, "failed") {
		t.Errorf("the gateway is away, and it says %d %s", code, said)
	}
	r.until("an agent says why", func() bool { return strings.Contains(agent("gpu-1", "status"), "refused") })
	t.Log(agent("gpu-1", "status"))
	out, _ := exec.Command(program, "join", "--check", "--gateway", r.url).CombinedOutput()
	t.Logf("join --check: %s", out)
	if !strings.Contains(string(out), "refused") {
		t.Errorf("join --check says %s", out)
	}

	r.runs["gpu-2"].kill()
	r.open()
	r.muster("node", "wait", "gpu-1")
	r.sees("muster node ls", "online?", "online")
	r.done("muster status")
	r.done("muster ls -o wide")
	r.runs["gpu-1"].stop()
	r.sees("muster node ls --status stale", "gpu-1")
	r.done("muster gateway ls")
	if _, err := parseSettings(strings.Fields("--data "+r.data+" --renew-grace 240h"), func(string) string { return "" }, io.Discard); err != nil ||
		!strings.Contains(r.page, "\nmuster serve --renew-grace 240h\n") {
		t.Errorf("a longer grace: %v", err)
	}
	r.typed["muster serve --renew-grace 240h"] = true
	r.done("muster node allow-recovery -l state!=retired --for 2h", "--for 2h", "--for 2h --yes")
	for _, line := range []string{"muster release status", "muster release pause", "muster release rollback"} {
		if code, said := r.types(line); code != 1 || !strings.Contains(said, "hint: ") {
			t.Errorf("%s without a release: %d %s", line, code, said)
		}
	}
	r.sees("muster gpus", "- ")
	r.done("muster account ls")
	r.done("muster logs ship ls")
	r.end()
}

// id is the system id of a machine.
func (r *runbook) id(hostname string) string {
	r.t.Helper()
	for _, m := range r.sim.Machines() {
		if m.Hostname == hostname {
			return m.ID
		}
	}
	r.t.Fatalf("MAAS has no %s", hostname)
	return ""
}
