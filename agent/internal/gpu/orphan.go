package gpu

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"muster/agent/wire"
)

// CallFile names, in the state directory, the nvidia-smi that was started last. A stop of the agent does not end one that a
// wedged driver holds: the next run must find it, and start none beside it.
const CallFile = "nvidia-smi.json"

// started is one nvidia-smi. A process id is given again, but not with the same start in the same boot.
type started struct {
	PID   int       `json:"pid"`
	Ticks string    `json:"start_ticks"` // /proc/PID/stat, field 22
	Boot  string    `json:"boot_id"`
	Since time.Time `json:"since"`
}

// note writes down the call that has just begun. Where that fails a restart cannot find it, and nothing else is lost.
func (p *Prober) note(pid int, since time.Time) {
	if p.State == "" || p.ReadOnly {
		return
	}
	ticks, alive := startTicks(pid)
	if !alive {
		return
	}
	if raw, err := json.Marshal(started{pid, ticks, bootID(), since}); err == nil {
		_ = replace(filepath.Join(p.State, CallFile), raw, false)
	}
}

// orphan is an nvidia-smi of another run that has not ended; false: there is none.
func (p *Prober) orphan() (s started, alive bool) {
	if p.State == "" {
		return s, false
	}
	raw, err := os.ReadFile(filepath.Join(p.State, CallFile))
	if err != nil || json.Unmarshal(raw, &s) != nil || s.PID <= 1 || s.Boot != bootID() {
		return s, false
	}
	ticks, alive := startTicks(s.PID)
	return s, alive && ticks == s.Ticks
}

// clear ends an nvidia-smi that an earlier run left behind. It reports false where that one cannot be ended, and publishes so:
// then nothing is started beside it. Whoever only looks on lets it end by itself.
func (p *Prober) clear(ctx context.Context) bool {
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
			killGroup(s.PID)
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

// startTicks is when a process started, in clock ticks since the boot; false where it has ended.
func startTicks(pid int) (ticks string, alive bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", false
	}
	return parseStat(string(stat))
}

// parseStat reads a line of /proc/PID/stat. The name in it may hold anything, brackets included.
func parseStat(line string) (ticks string, alive bool) {
	const state, start = 0, 19 // counted behind the name, which is field 2
	words := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	if len(words) <= start || words[state] == "Z" || words[state] == "X" {
		return "", false
	}
	return words[start], true
}

func bootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}
