//go:build real

package lab_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"muster/agent/wire"
	"muster/gateway/api/machines"
	"muster/gateway/internal/kit/lab"
	"muster/gateway/internal/kit/maassim"
)

const (
	maasAddress = "127.0.0.1:5240"
	rack        = "rack-7"
	twoLooks    = 90 * time.Second // of muster at MAAS, which are 30 seconds apart
)

// booted is a machine that has fetched its user-data.
type booted struct {
	machine  maassim.Machine
	userData string
}

// region is a simulated MAAS, with a machine that was commissioned and tagged there, and a gateway that has its key.
type region struct {
	*site
	sim    *maassim.Sim
	id     string // of the machine
	booted chan booted
}

func newRegion(t *testing.T, l *lab.Lab, flags ...string) *region {
	t.Helper()
	r := &region{booted: make(chan booted, 1)}
	r.sim = maassim.New(maassim.Config{Power: time.Second, Install: 3 * time.Second, Erase: 15 * time.Second,
		OnBoot: func(m maassim.Machine, userData []byte) { r.booted <- booted{m, string(userData)} }})
	const model = "gpu-nvidia-h100"
	r.sim.Define(model, "")
	r.id = r.sim.Add(maassim.Machine{Hostname: rack, Status: 4, Passed: true, Tags: []string{model}})
	server := &http.Server{Handler: r.sim, ReadHeaderTimeout: time.Minute}
	t.Cleanup(func() { _ = server.Close() })
	listener := l.Listen(maasAddress)
	go func() { _ = server.Serve(listener) }()
	key := filepath.Join(l.Dir, "maas.key")
	if err := os.WriteFile(key, []byte(r.sim.Key()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.site = openSite(t, l, append([]string{"--bootstrap-install-container-runtime=false", "--maas-url", "http://" + maasAddress + "/MAAS",
		"--maas-key-file", key, "--maas-tenant", "platform"}, flags...)...)
	return r
}

// here is the machine as muster shows it.
func (r *region) here() (m machines.Machine) {
	r.Helper()
	if err := json.Unmarshal([]byte(r.gateway.Muster("maas", "show", r.id, "-o", "json")), &m); err != nil {
		r.Fatal(err)
	}
	return m
}

// there is the machine as MAAS has it.
func (r *region) there() maassim.Machine {
	r.Helper()
	m, ok := r.sim.Machine(r.id)
	if !ok {
		r.Fatal("MAAS has the machine no more")
	}
	return m
}

func (r *region) step(what string) {
	r.Helper()
	r.Logf("-- %s", what)
}

// ready waits until machine and node are both ready, and nothing is about to be done.
func (r *region) ready() {
	r.Helper()
	r.lab.Within(twoLooks, "machine and node are ready", func() bool {
		m := r.here()
		return m.State == machines.StateReady && m.NodeState == wire.StateReady && m.Work == nil
	})
	var plan machines.Plan
	err := json.Unmarshal([]byte(r.gateway.Muster("maas", "plan", "-o", "json")), &plan)
	if err != nil || len(plan.Steps) > 0 || !plan.MAAS.Known {
		r.Errorf("nothing is to be done: %+v, %v", plan, err)
	}
}
