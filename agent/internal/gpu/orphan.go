package gpu

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"muster/agent/disk"
	"muster/agent/internal/child"
	"muster/agent/internal/host"
	"muster/agent/wire"
)

// CallFile names, in the state directory, the nvidia-smi that was started last. If a driver holds it, it does not end when the agent stops:
// the next run must find it, and must not start another one beside it.
const CallFile = "nvidia-smi.json"

// started is one nvidia-smi.
type started struct {
	host.Process
	Since time.Time `json:"since"`
}

// note writes down the call that has just begun. A failure is ignored: the record is needed only if the agent ends before this call.
func (p *Prober) note(pid int, since time.Time) {
	if p.State == "" || p.ReadOnly {
		return
	}
	if raw, err := json.Marshal(started{host.ProcessOf(pid), since}); err == nil {
		_ = disk.ReplaceSoon(filepath.Join(p.State, CallFile), raw, 0o600)
	}
}

// orphan finds an nvidia-smi of another run that has not ended. It reports false if there is none.
func (p *Prober) orphan() (s started, alive bool) {
	if p.State == "" {
		return s, false
	}
	raw, err := os.ReadFile(filepath.Join(p.State, CallFile))
	return s, err == nil && json.Unmarshal(raw, &s) == nil && s.Lives()
}

// endOrphan ends an nvidia-smi that an earlier run left behind. A ReadOnly prober only waits for its end. If it does not end,
// endOrphan publishes that and reports false: then no other one may be started.
func (p *Prober) endOrphan(ctx context.Context) bool {
	s, alive := p.orphan()
	if !alive {
		return true
	}
	patience := killGrace
	if p.ReadOnly {
		patience = p.deadline()
	}
	for until := time.Now().Add(patience); time.Now().Before(until); {
		if !p.ReadOnly {
			child.KillGroup(s.PID)
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(50 * time.Millisecond):
		}
		if _, alive = p.orphan(); !alive {
			return true
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	at := s.Since.Add(p.deadline())
	if now := p.now(); at.After(now) {
		at = now
	}
	p.enter(wire.ProbeHung, fmt.Sprintf("the nvidia-smi (process %d) that was started at %s does not end; the driver may be wedged: "+
		"look for Xid in dmesg, restart the machine if it stays so", s.PID, s.Since.Format(time.RFC3339)), at)
	return false
}
