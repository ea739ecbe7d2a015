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

	"muster/agent/disk"
	"muster/agent/wire"
)

// RecordFile holds, in the state directory, what the next run of the agent must know. It names GPUs and nothing secret.
const RecordFile = "gpus.json"

// kept is what is remembered of this machine's GPUs. Expected is what the gateway said last, or the most that were seen since.
// Devices are those of the last reading in which no GPU was missing.
type kept struct {
	Expected *int       `json:"expected,omitempty"`
	Devices  []device   `json:"devices,omitempty"`
	At       *time.Time `json:"at,omitempty"` // when exactly these devices were first seen
}

// device is what of a GPU does not change.
type device struct {
	UUID   string `json:"uuid"`
	Bus    string `json:"bus_id"`
	Index  int    `json:"index"`
	Name   string `json:"name"`
	Memory string `json:"memory_source"`
	Vendor string `json:"vendor"`
}

func deviceOf(g wire.GPU) device {
	return device{g.UUID, g.BusID, g.Index, g.Name, g.MemorySource, g.Vendor}
}

// row is the device in a reading before the first look of this run: it is there, and none of its values is known.
func (d device) row() wire.GPU {
	return wire.GPU{UUID: d.UUID, BusID: d.Bus, Index: d.Index, Name: d.Name, MemorySource: d.Memory, Vendor: d.Vendor, Health: []string{}}
}

// Forget removes what a state directory remembers of its GPUs. After a new enrolment they are counted from the start.
func Forget(dir string) error {
	err := os.Remove(filepath.Join(dir, RecordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// remember reads the record once. Without a record, as many GPUs are expected as the credential named. The caller holds mu.
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
		p.roster = r.Devices
		p.rosterAt = *r.At
		p.reading.Probe.SampledAt = r.At
		for _, d := range r.Devices {
			p.reading.GPUs = append(p.reading.GPUs, d.row())
		}
	}
	if r.Expected != nil && *r.Expected >= 0 && *r.Expected <= wire.MaxGPUs {
		p.expected = *r.Expected
	}
}

// keep writes the record. It does not hold mu while it writes, so no reader waits for the disk.
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
		err = disk.Replace(filepath.Join(p.State, RecordFile), raw, 0o600)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trouble = ""
	if err != nil {
		p.trouble = fmt.Sprintf("what GPUs there are cannot be remembered over a restart: %v", err)
	}
}

// Expect sets how many GPUs are expected to the number that the gateway has on record, be it more or less. If the number is
// new, the next look comes at once.
func (p *Prober) Expect(n int) {
	if n >= 0 && n <= wire.MaxGPUs && p.expect(n) {
		p.keep()
	}
}

// expect reports whether the number is new. GPUs that were seen before do not raise it again.
func (p *Prober) expect(n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remember() // else a record that is read later would overwrite n
	if p.expected == n {
		return false
	}
	p.expected = n
	p.overruled = p.shown // only more GPUs than these raise the number again
	select {
	case p.nudged() <- struct{}{}:
	default:
	}
	return true
}

// nudged is the channel that tells Run to look now. The caller holds mu.
func (p *Prober) nudged() chan struct{} {
	if p.nudge == nil {
		p.nudge = make(chan struct{}, 1)
	}
	return p.nudge
}

// Trouble says why the record could not be written. It is empty if it could.
func (p *Prober) Trouble() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trouble
}

// count raises the expected number to the number of GPUs that exist, and takes over the devices of a whole reading. It reports
// whether the record has changed. The caller holds mu.
func (p *Prober) count(o outcome) (changed bool) {
	p.remember()
	expected := p.expects(o.exist)
	changed = expected != p.expected
	p.expected = expected
	p.shown = max(p.shown, o.exist)
	if o.whole && len(o.gpus) >= p.expected {
		if seen := devicesOf(o.gpus); seen != nil && !slices.Equal(seen, p.roster) {
			p.roster = seen
			p.rosterAt = p.now()
			changed = true
		}
	}
	return changed
}

// expects is how many GPUs are expected where exist GPUs exist. The gateway's number holds until more exist than when it was
// given: a person may have given up a GPU that nvidia-smi still names. The caller holds mu.
func (p *Prober) expects(exist int) int {
	if exist <= p.overruled {
		return p.expected
	}
	return max(p.expected, exist)
}

// devicesOf gives the devices of rows. It is nil if a row has no UUID: then the roster stays as it was.
func devicesOf(gpus []wire.GPU) []device {
	all := make([]device, len(gpus))
	for i, g := range gpus {
		if g.UUID == "" {
			return nil
		}
		all[i] = deviceOf(g)
	}
	return all
}
