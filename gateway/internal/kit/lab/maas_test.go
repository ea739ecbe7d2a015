//go:build real

package lab_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/api/machines"
	"muster/gateway/internal/kit/lab"
	"muster/gateway/internal/kit/maassim"
)

const (
	rackProfile = "lab-baremetal"
	// rackLife is so short that the node renews while the test looks, and long enough for a machine under load to join.
	rackLife = "45s"
)

// rackConfig is what the profile asks for. It needs no packages: the lab has no archive of them.
const rackConfig = `#cloud-config
write_files:
- path: /etc/lab/rack.conf
  permissions: '0600'
  content: |
    one owner at a time
runcmd:
- /var/lib/muster-agent/current/muster-agent profile show >/etc/lab/applied
- test ! -e /var/lib/muster-agent/identity.json && touch /etc/lab/before-joining
`

// bootstrapToken is one in user-data.
var bootstrapToken = regexp.MustCompile(`[0-9A-Za-z_]+\.[0-9A-Za-z]{28}\b`)

// prepare gives the machine's node a profile, whose tag MAAS gets.
func (r *region) prepare() {
	r.Helper()
	r.lab.Within(twoLooks, "the machine is a node", func() bool {
		return contains(r.gateway.Muster("maas", "ls", "-o", "json"), r.id, `"`+wire.StateCommissioned+`"`)
	})
	text, err := json.Marshal(api.Profile{Name: rackProfile, About: "for a rack", Checks: []string{"disk_room", "driver"},
		Slots:       api.ProfileSlots{Shapes: []string{"node"}},
		CloudConfig: rackConfig, Erase: true, Restart: true})
	if err != nil {
		r.Fatal(err)
	}
	file := filepath.Join(r.lab.Dir, "profile.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		r.Fatal(err)
	}
	r.gateway.Muster("profile", "push", file)
	took := r.lab.Within(twoLooks, "the profile is assigned", func() bool { // a node that was just made is not in the view yet
		out, err := r.gateway.Try("profile", "assign", rackProfile, rack)
		if err != nil && !strings.Contains(out, "try again in some seconds") {
			r.Fatalf("profile assign: %s", out)
		}
		return err == nil
	})
	r.Logf("the profile is assigned after %s", took.Round(time.Millisecond))
	r.ready()
	if tags := r.here().Tags; !slices.Contains(tags, rackProfile) || !slices.Contains(r.there().Tags, rackProfile) {
		r.Errorf("the profile's tag was not written and read back: %q, and MAAS has %q", tags, r.there().Tags)
	}
}

// deploy has a command get the machine installed, and boots it when MAAS says so, for the first time, with the user-data that it got.
func (r *region) deploy(args ...string) (box *lab.Box) {
	r.Helper()
	deploy := r.lab.Start(args[0]+" "+args[1], r.gateway.Command(args...))
	var b booted
	r.lab.Within(twoLooks, "MAAS has installed the machine", func() bool {
		if deploy.Ended() {
			r.Fatalf("%q has ended: %s", args, deploy.Text())
		}
		r.sim.Tick()
		select {
		case b = <-r.booted:
			return true
		default:
			return false
		}
	})
	token := bootstrapToken.FindString(b.userData)
	if b.machine.ID != r.id || !strings.HasPrefix(b.userData, "#!/bin/sh\n") || token == "" || len(b.userData) > 16<<10 {
		r.Fatalf("machine %s got %d bytes of user-data:\n%s", b.machine.ID, len(b.userData), b.userData)
	}
	if m := r.here(); m.NodeState != wire.StateDeploying || m.State == machines.StateDeployed {
		r.Errorf("before its agent reports the machine is %s, and its node %s", m.State, m.NodeState)
	}
	box = r.blank()
	box.Write("/usr/bin/nvidia-smi", idleGPU, 0o755)
	box.Seed(b.userData)
	secret := minted{Token: token}.secret()
	watched := r.lab.Watch(secret)
	start := time.Now()
	box.Begin()
	box.Restarted(firstBoot) // for its profile, before it joins
	r.lab.Within(twoLooks, "the machine goes on after its restart", func() bool {
		out, _ := box.Try("root", "cat /run/muster-bootstrap.status")
		return strings.HasPrefix(out, "0 ")
	})
	r.Logf("first boot, and the restart: %s", time.Since(start).Round(time.Millisecond))
	if seen := watched(); len(seen) > 0 {
		r.Errorf("the token's secret stood in these processes' arguments: %q", seen)
	}
	log := box.Sh("cat /var/log/cloud-init-output.log")
	if !contains(box.Console(), "muster bootstrap of "+rack+": joined") {
		r.Fatalf("the machine has not joined:\n%s", log)
	}
	for _, found := range box.Holding(secret) {
		if !strings.HasPrefix(found, "/var/lib/cloud/") { // where cloud-init keeps the user-data
			r.Errorf("the token's secret is still in %s", found)
		}
	}
	for script, want := range map[string]string{
		"cat /etc/muster/profile /etc/lab/applied":                                rackProfile + "\n" + rackProfile,
		"cat /etc/muster/profile-restarted":                                       rackProfile,
		"stat -c %a /etc/lab/rack.conf":                                           "600",
		"cat /etc/lab/rack.conf":                                                  "one owner at a time",
		"ls /etc/lab/before-joining":                                              "/etc/lab/before-joining",
		"systemctl is-active " + unit:                                             "active",
		"ls /etc/muster /run | grep -e token -e first-hop -e muster-bootstrap.sh": "",
	} {
		if got, _ := box.Try("root", script); strings.TrimSpace(got) != want {
			r.Errorf("%s\n gives %q, want %q\n%s", script, strings.TrimSpace(got), want, log)
		}
	}
	r.lab.Within(twoLooks, "the command that had it deployed ends", deploy.Ended)
	r.Log(deploy.Text())
	m := r.here()
	if m.State != machines.StateDeployed || m.NodeState != wire.StateActive || m.Work != nil || !r.heard(rack, start) ||
		r.there().Status != 6 {
		r.Fatalf("the machine: %+v", m)
	}
	return box
}

// identity is what the box has of its node.
func (r *region) identity(box *lab.Box) *renewer {
	return &renewer{t: r.T, lab: r.lab, state: box.Path("/var/lib/muster-agent")}
}

// work gives the node a task. It is done, and the node's own certificate stands for that.
func (r *region) work(box *lab.Box) {
	r.Helper()
	var prints []string // it may renew meanwhile
	look := func() {
		_, chain := r.identity(box).identity()
		prints = append(prints, fmt.Sprintf("%x", sha256.Sum256(chain[0].Raw)))
	}
	look()
	var task api.Task
	text := r.gateway.Muster("task", "run", rack, wire.TaskProvisionUser, "username=ada", "--wait", "-o", "json")
	if err := json.Unmarshal([]byte(text), &task); err != nil {
		r.Fatal(err)
	}
	look()
	if task.Status != wire.TaskCompleted || task.NodeID != r.node(rack).ID || task.SigningKeyID == "" || task.Proof == "" ||
		!slices.Contains(prints, task.ClaimFingerprint) || task.ClaimedAt == nil || task.FinishedAt == nil {
		r.Errorf("the task: %+v", task)
	}
	box.Sh("id ada")
}

// allocate gives the whole machine to somebody and takes it back, which cleans it.
func (r *region) allocate() {
	r.Helper()
	r.lab.Within(twoLooks, "a slot is proposed", func() bool { return strings.Contains(r.gateway.Muster("slot", "ls"), "proposed") })
	r.gateway.Muster("slot", "approve", "--node", rack, "--yes")
	var a api.Allocation
	text := r.gateway.Muster("alloc", "create", "--gpu", "h100", "--ttl", "1h", "--tenant", "platform", "--wait", "-o", "json")
	if err := json.Unmarshal([]byte(text), &a); err != nil || a.State != api.AllocationAllocated {
		r.Fatalf("alloc create: %v\n%s", err, text)
	}
	r.gateway.Muster("node", "drain", rack)
	if out, err := r.gateway.Try("maas", "release", rack, "--erase", "--yes"); err == nil || !contains(out, "allocation") {
		r.Errorf("a machine of which somebody has a part is released: %v\n%s", err, out)
	}
	r.gateway.Muster("alloc", "release", a.ID)
	r.lab.Within(2*time.Minute, "the allocation is over, and its GPU clean", func() bool {
		err := json.Unmarshal([]byte(r.gateway.Muster("alloc", "show", a.ID, "-o", "json")), &a)
		return err == nil && a.State == api.AllocationReleased
	})
}

// release has a command give the machine back, with its disks erased. Its agent, while it still runs, is refused.
func (r *region) release(box *lab.Box, args ...string) {
	r.Helper()
	refused := func() bool {
		out, _ := box.Try("root", "/var/lib/muster-agent/current/muster-agent status -o json")
		return strings.Contains(out, "revoked")
	}
	if refused() {
		r.Error("the agent is refused before the release")
	}
	r.sim.Change(r.id, func(m *maassim.Machine) { m.Erased = "" })
	release := r.lab.Start(args[0]+" "+args[1], r.gateway.Command(args...))
	r.lab.Within(twoLooks, "the agent's certificate is refused", refused)
	box.PowerCut()
	r.lab.Within(3*time.Minute, "MAAS has released it, and the command ends", func() bool { return r.there().Status == 4 && release.Ended() })
	r.Log(release.Text())
	if m := r.there(); m.Erased != "secure" || m.Status != 4 || m.Owner != "" || m.Power != "off" {
		r.Errorf("MAAS has not erased and released the machine: %+v", m)
	}
	r.ready()
}

// demand has an allocation that no slot is free for get the machine. A dry run says so before, and does nothing.
func (r *region) demand() (box *lab.Box, allocation string) {
	r.Helper()
	wish := []string{"alloc", "create", "--gpu", "h100", "--ttl", "1h", "--tenant", "platform"}
	said := r.gateway.Muster(append(wish, "--dry-run")...)
	if m := r.here(); m.Work != nil || !contains(said, "With --wait, it would wait for the machine "+rack+", which MAAS installs",
		"Nothing was done.") {
		r.Errorf("the dry run says %s, and the machine is %+v", said, m)
	}
	r.gateway.Muster("slot", "approve", "-l", "provider=maas", "--keep", "racks", "--yes")
	box = r.deploy(append(wish, "--wait", "-o", "json")...)
	var l api.AllocationList
	text := r.gateway.Muster("alloc", "ls", "-o", "json")
	if err := json.Unmarshal([]byte(text), &l); err != nil || len(l.Allocations) != 1 || l.Allocations[0].State != api.AllocationAllocated ||
		len(l.Allocations[0].Slots) != 1 || l.Allocations[0].Slots[0].Node != rack {
		r.Fatalf("what was allocated: %v\n%s", err, text)
	}
	return box, l.Allocations[0].ID
}

// returned checks that the agent has cleaned the GPUs of an allocation before its machine was given back, and that both lists say so.
func (r *region) returned(allocation string) {
	r.Helper()
	var a api.Allocation
	text := r.gateway.Muster("alloc", "show", allocation, "-o", "json")
	if err := json.Unmarshal([]byte(text), &a); err != nil || a.State != api.AllocationReleased ||
		!slices.ContainsFunc(a.Tasks, func(t api.AllocationTask) bool {
			return t.Type == wire.TaskGPUClean && t.Status == wire.TaskCompleted && t.Node == rack
		}) {
		r.Errorf("the allocation: %v\n%s", err, text)
	}
	if list := strings.Fields(r.gateway.Muster("maas", "ls")); !contains(strings.Join(list, " "), rack+" ready "+rack+" ready") {
		r.Errorf("maas ls: %q", list)
	}
	if n := r.node(rack); n.State != wire.StateReady { // of node ls
		r.Errorf("the node: %+v", n)
	}
}

// TestMAAS takes a machine all the way: it was commissioned and tagged in MAAS, boots with cloud-init, gets its profile, joins with the
// one-time token, works, renews its certificate, is drained, cleaned, and released with erasure, and is ready again. Then an allocation has
// it installed a second time: its disks are empty, and it is the same node with another key. The end of the allocation gives it back.
func TestMAAS(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, issuer string
		flags        func(*testing.T, *lab.Lab) []string
	}{
		{"built-in CA", "muster intermediate CA", func(*testing.T, *lab.Lab) []string { return []string{"--cert-ttl", rackLife} }},
		{"step-ca", "Lab Intermediate CA", func(t *testing.T, l *lab.Lab) []string {
			flags := newStepCA(t, l).flags("JWK")
			flags[slices.Index(flags, shortLife)] = rackLife
			return flags
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := lab.New(t)
			r := newRegion(t, l, c.flags(t, l)...)
			r.step("prepare")
			r.prepare()
			was := r.node(rack)
			r.step("deploy")
			box := r.deploy("maas", "deploy", rack, "--wait")
			if now := r.node(rack); now.ID != was.ID {
				t.Errorf("the node is %s, and was made as %s", now.ID, was.ID)
			}
			r.step("a task")
			r.work(box)
			r.step("the certificate is renewed")
			r.identity(box).renews(r.gateway, c.issuer)
			r.step("an allocation, and its end")
			r.allocate()
			r.step("release")
			_, before := r.identity(box).identity()
			r.release(box, "maas", "release", rack, "--erase", "--yes", "--wait")
			r.step("an allocation has it deployed again")
			box, allocation := r.demand()
			_, after := r.identity(box).identity()
			if now := r.node(rack); now.ID != was.ID || bytes.Equal(before[0].RawSubjectPublicKeyInfo, after[0].RawSubjectPublicKeyInfo) {
				t.Errorf("the node is %s, and was made as %s", now.ID, was.ID)
			}
			r.step("a task of the second life")
			r.work(box)
			r.step("the end of the allocation gives it back")
			r.release(box, "alloc", "release", allocation)
			r.returned(allocation)
			if counts := r.sim.Counts(); counts["deploy"] != 2 || counts["release"] != 2 || counts["power_on"] != 0 {
				t.Errorf("what MAAS was asked: %v", counts)
			}
		})
	}
}
