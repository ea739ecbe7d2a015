//go:build real

package main

import (
	"strings"
	"testing"

	"muster/gateway/internal/kit/maassim"
)

// TestConsoleMAAS looks at the page of MAAS, and at the pages of nodes that are machines there, in both sizes and colours: machines in all
// kinds of states, with what muster says of them. The pictures are in bin/console.
func TestConsoleMAAS(t *testing.T) {
	t.Parallel()
	c := newChromium(t)
	r := racks(t, "maas")
	const long = "Failed to power on the machine: Could not contact node's BMC: Connection timed out while performing power action. " +
		"Check BMC configuration and connectivity and try again; ipmipower: timed out"
	gpus := []string{"gpu-nvidia-h200", "rack-b", "site-fra"}
	for _, m := range []maassim.Machine{
		{Hostname: "rack-01", Status: 4, Passed: true, Tags: gpus},
		{Hostname: "rack-02", Status: 4, Passed: true, Tags: append([]string{"gpuaas-profile-slice-vm"}, gpus...)},
		{Hostname: "rack-03", Status: 11, Owner: "muster", Error: long, Tags: gpus},
		{Hostname: "rack-04", Status: 6, Owner: "ada", Power: "on", OSystem: "ubuntu", Series: "noble", Tags: gpus},
		{Hostname: "rack-05", Status: 8, Owner: "muster", Error: "its GPU 3 fell off the bus", Passed: true, Locked: true},
		{Hostname: "rack-06", Status: 2, Power: "on"},
		{Hostname: "rack-07", Status: 1, Hangs: true, Power: "on", Owner: "muster"},
		{Hostname: "rack-08", Status: 14, Hangs: true, Power: "on", Owner: "muster", Passed: true},
		{Hostname: "rack-09", Status: 4, Passed: true, BMCAway: true, Seen: "error"},
		{Hostname: "rack-10", Status: 0},
		{Hostname: "rack-11", Status: 17, Owner: "muster", Power: "on"},
		{Hostname: "rack-12-with-a-name-that-is-as-long-as-hostnames-may-well-get", Status: 9, Hangs: true, Owner: "muster", Power: "on"},
	} {
		r.sim.Add(m)
	}
	nodes := func(n int) func() bool {
		return func() bool { return strings.Count(r.muster("maas", "ls"), "commissioned") >= n }
	}
	r.until("nodes are made", nodes(3))
	r.muster("profile", "assign", "gpuaas-profile-baremetal", "rack-01", "rack-02")
	r.sees("muster maas ls", "rack-01 ready rack-01 ready")
	r.sim.Change(r.id("rack-01"), func(m *maassim.Machine) { m.Hangs = true })
	r.muster("maas", "deploy", "rack-01")
	r.sees("muster maas ls", "rack-01 deploying")

	link, _, _ := strings.Cut(r.muster("login"), "\n")
	c.looks(1440, 900, "light")
	c.open(link)
	c.see(`location.pathname === "/ui/fleet" && location.hash === ""`)
	for _, look := range []struct {
		name   string
		width  int
		scheme string
	}{{"1440", 1440, "light"}, {"1440", 1440, "dark"}, {"390", 390, "light"}, {"390", 390, "dark"}} {
		for name, path := range map[string]string{"maas": "/ui/maas", "maas-failed": "/ui/maas?state=failed", "maas-node": "/ui/nodes/rack-01",
			"maas-conflict": "/ui/nodes/rack-02"} {
			c.looks(look.width, 900, look.scheme)
			c.open(r.url + path)
			if c.eval(`document.documentElement.scrollWidth > innerWidth`) == true {
				t.Errorf("%s at %s is wider than the window", name, look.name)
			}
			c.looks(look.width, int(c.eval(`document.documentElement.scrollHeight`).(float64)), look.scheme)
			c.shot(name + "-" + look.scheme + "-" + look.name)
		}
	}
	for _, said := range c.complaints() {
		t.Errorf("the browser says %s", said)
	}
}
