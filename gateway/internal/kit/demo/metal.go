package main

import (
	"fmt"
	"net/http"
	"time"

	"muster/gateway/internal/kit/cloudsim"
	"muster/gateway/internal/kit/cloudsim/guest"
	"muster/gateway/internal/kit/maassim"
)

// Statuses of MAAS.
const (
	fresh    = 0
	failed   = 2 // its commissioning
	ready    = 4
	deployed = 6
)

// metal is a simulated MAAS with three machines, on which agents run while they are installed and switched on.
type metal struct {
	sim     *maassim.Sim
	guests  *guest.Guests
	address string
}

func newMetal(g *guest.Guests) *metal {
	m := &metal{guests: g}
	m.sim = maassim.New(maassim.Config{Power: 2 * time.Second, Commission: 5 * time.Second, Install: 8 * time.Second, Erase: 8 * time.Second,
		OnBoot: m.boot})
	const model = "gpu-nvidia-h100"
	m.sim.Define(model, "")
	for i, status := range []int{fresh, ready, failed} {
		m.sim.Add(maassim.Machine{Hostname: fmt.Sprint("rack-", i+1), Status: status, Passed: status == ready, Tags: []string{model}})
	}
	return m
}

func (m *metal) url() string { return "http://" + m.address + "/MAAS" }

// boot is the first start of a machine that was installed anew: its user data is that of muster.
func (m *metal) boot(of maassim.Machine, userData []byte) {
	m.guests.Forget(of.Hostname)
	m.guests.Start(cloudsim.Machine{ID: of.Hostname, Name: of.Hostname, Script: string(userData), GPUs: 8, MiB: mib})
}

// tick has what is due happen. No agent runs on a machine that is off, or on which nothing is installed any more.
func (m *metal) tick() {
	m.sim.Tick()
	for _, one := range m.sim.Machines() {
		if one.Power == "off" || one.Status != deployed {
			m.guests.Kill(one.Hostname)
		}
	}
}

// control breaks a machine: what is done with it next fails (fail), it hangs at its next start (hang), or it is as before (mend).
func (m *metal) control() http.Handler {
	acts := map[string]func(*maassim.Machine){
		"fail": func(of *maassim.Machine) { of.Fails = true },
		"hang": func(of *maassim.Machine) { of.Hangs = true },
		"mend": func(of *maassim.Machine) { of.Fails, of.Hangs = false, false },
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{name}/{what}", func(w http.ResponseWriter, r *http.Request) {
		act := acts[r.PathValue("what")]
		for _, one := range m.sim.Machines() {
			if act != nil && one.Hostname == r.PathValue("name") {
				m.sim.Change(one.ID, act)
				return
			}
		}
		http.NotFound(w, r)
	})
	return mux
}
