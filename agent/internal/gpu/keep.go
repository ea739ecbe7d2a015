package gpu

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"muster/agent/wire"
)

// RecordFile holds, in the state directory, what outlives a run of the agent. It names GPUs, nothing secret.
const RecordFile = "gpus.json"

// kept is what is remembered of this machine's GPUs. Expected is what the gateway said last, or the most that were seen
// since; Devices are those of the last reading in which none was missing.
type kept struct {
	Expected *int       `json:"expected,omitempty"`
	Devices  []device   `json:"devices,omitempty"`
	At       *time.Time `json:"at,omitempty"` // when the devices were seen first
}

// device is a GPU by what stays: its UUID, and the slot that it is in.
type device struct {
	UUID   string `json:"uuid"`
	Bus    string `json:"bus_id"`
	Index  int    `json:"index"`
	Name   string `json:"name"`
	Memory string `json:"memory_source"`
}

func deviceOf(g wire.GPU) device { return device{g.UUID, g.BusID, g.Index, g.Name, g.MemorySource} }

// row is the device as a reading shows it while no look of this run has read it: there, with nothing known of now.
func (d device) row() wire.GPU {
	return wire.GPU{UUID: d.UUID, BusID: d.Bus, Index: d.Index, Name: d.Name, MemorySource: d.Memory, Health: []string{}}
}

// Forget drops what a state directory remembers of its GPUs: a new enrolment counts them anew.
func Forget(dir string) error {
	err := os.Remove(filepath.Join(dir, RecordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// remember reads the record, once. Without one, what the credential said is expected. The caller holds mu.
func (p *Prober) remember() {
	if p.remembered {
		return
	}
	p.remembered = true
	p.expected = min(max(p.Expected, 0), wire.MaxGPUs)
	if p.State == "" {
		return
	}
	var r kept
	raw, err := os.ReadFile(filepath.Join(p.State, RecordFile))
	if err != nil || json.Unmarshal(raw, &r) != nil {
		return
	}
	if len(r.Devices) <= wire.MaxGPUs && r.At != nil {
		p.roster, p.rosterAt = r.Devices, *r.At
		p.reading.Probe.SampledAt = r.At
		for _, d := range r.Devices {
			p.reading.GPUs = append(p.reading.GPUs, d.row())
		}
	}
	if r.Expected != nil && *r.Expected >= 0 && *r.Expected <= wire.MaxGPUs {
		p.expected = *r.Expected
	}
}

// keep writes the record. No reader waits for the disk meanwhile.
func (p *Prober) keep() {
	if p.State == "" || p.ReadOnly {
		return
	}
	p.keeping.Lock()
	defer p.keeping.Unlock()
	p.mu.Lock()
	raw, err := json.Marshal(kept{Expected: &p.expected, Devices: p.roster, At: &p.rosterAt})
	p.mu.Unlock()
	if err == nil {
		err = replace(filepath.Join(p.State, RecordFile), raw, true)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trouble = ""
	if err != nil {
		p.trouble = fmt.Sprintf("what GPUs there are cannot be remembered over a restart: %v", err)
	}
}

// Expect takes over how many GPUs the gateway's record of this node has, up or down. Where that is news, the next look comes
// at once.
func (p *Prober) Expect(n int) {
	if n >= 0 && n <= wire.MaxGPUs && p.expect(n) {
		p.keep()
	}
}

// expect reports whether the number is news. What the looks have shown so far is overruled by it: it does not raise the number again.
func (p *Prober) expect(n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.remember(); p.expected == n {
		return false
	}
	p.expected, p.overruled = n, p.shown
	select {
	case p.nudged() <- struct{}{}:
	default:
	}
	return true
}

// nudged is where Run hears that a look is wanted now. The caller holds mu.
func (p *Prober) nudged() chan struct{} {
	if p.nudge == nil {
		p.nudge = make(chan struct{}, 1)
	}
	return p.nudge
}

// Trouble says why something could not be kept on the disk; empty: nothing.
func (p *Prober) Trouble() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trouble
}

// count raises what is expected to what is known to exist, and takes over the devices of a whole reading. It reports whether
// that is news. The caller holds mu.
func (p *Prober) count(o outcome) (changed bool) {
	p.remember()
	expected := p.expects(o.exist)
	changed = expected != p.expected
	p.expected, p.shown = expected, max(p.shown, o.exist)
	if o.whole && len(o.gpus) >= p.expected {
		if seen := devicesOf(o.gpus); seen != nil && !slices.Equal(seen, p.roster) {
			p.roster, p.rosterAt, changed = seen, p.now(), true
		}
	}
	return changed
}

// expects is how many GPUs there should be where so many are known to exist. The gateway's word holds until there are more than
// there were when it was given: a person may have given up a GPU that nvidia-smi still names. The caller holds mu.
func (p *Prober) expects(exist int) int {
	if exist <= p.overruled {
		return p.expected
	}
	return max(p.expected, exist)
}

// devicesOf lists rows by what stays of them; nil where one does not say who it is.
func devicesOf(gpus []wire.GPU) []device {
	all := make([]device, len(gpus))
	for i, g := range gpus {
		if all[i] = deviceOf(g); g.UUID == "" {
			return nil
		}
	}
	return all
}

// replace writes a file beside the old one and renames it over it; durable: it is on the disk before that.
func replace(path string, content []byte, durable bool) error {
	file, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err == nil && durable {
		err = file.Sync()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		os.Remove(path + ".new")
	}
	return err
}
