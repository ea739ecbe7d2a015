package gpu

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"muster/agent/wire"
)

// RecordFile holds, in the state directory, what outlives a run of the agent. It names GPUs, nothing secret.
const RecordFile = "gpus.json"

// kept is what is remembered of this machine's GPUs. Expected is what the gateway said last, or the most that were seen
// since; Devices are those of the last reading in which none was missing.
type kept struct {
	Expected *int     `json:"expected,omitempty"`
	Devices  []device `json:"devices,omitempty"`
}

// device is a GPU by what stays: its UUID, and the slot that it is in.
type device struct {
	UUID string `json:"uuid"`
	Bus  string `json:"bus_id"`
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
	if len(r.Devices) <= wire.MaxGPUs {
		p.roster = r.Devices
	}
	if r.Expected != nil && *r.Expected >= 0 && *r.Expected <= wire.MaxGPUs {
		p.expected = *r.Expected
	}
}

// keep writes the record. The caller holds mu.
func (p *Prober) keep() {
	if p.State == "" || p.ReadOnly {
		return
	}
	raw, err := json.Marshal(kept{Expected: &p.expected, Devices: p.roster})
	if err == nil {
		err = replace(filepath.Join(p.State, RecordFile), raw, true)
	}
	p.trouble = ""
	if err != nil {
		p.trouble = fmt.Sprintf("what GPUs there are cannot be remembered over a restart: %v", err)
	}
}

// Expect takes over how many GPUs the gateway's record of this node has, up or down. Where that is news, the next look comes
// at once.
func (p *Prober) Expect(n int) {
	if n < 0 || n > wire.MaxGPUs {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.remember(); p.expected == n {
		return
	}
	p.expected = n
	p.keep()
	select {
	case p.nudged() <- struct{}{}:
	default:
	}
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

// count raises what is expected to what is known to exist, and remembers the devices of a whole reading. The caller holds mu.
func (p *Prober) count(o outcome) {
	p.remember()
	changed := o.exist > p.expected
	p.expected = max(p.expected, o.exist)
	if o.whole && len(o.gpus) >= p.expected {
		if seen := devicesOf(o.gpus); seen != nil && !slices.Equal(seen, p.roster) {
			p.roster, changed = seen, true
		}
	}
	if changed {
		p.keep()
	}
}

// devicesOf lists rows by what stays of them; nil where one does not say who it is.
func devicesOf(gpus []wire.GPU) []device {
	all := make([]device, len(gpus))
	for i, g := range gpus {
		if all[i] = (device{g.UUID, g.BusID}); g.UUID == "" {
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
