package logfile

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"muster/agent/disk"
	"muster/agent/internal/host"
	"muster/agent/wire"
)

// Files in the state directory. The second holds what the runtime writes when the agent panics.
const (
	StartsFile = "starts.json"
	CrashFile  = "agent.crash"
)

// A crash loop is at least crashLoop crashes within crashWindow. The record keeps the last most crashes, and as many starts.
const (
	crashWindow = time.Hour
	crashLoop   = 3
	most        = 20
)

// Starts is the record. Only Notice and Report may be called from another goroutine, once Begin has returned.
type Starts struct {
	base    string
	starts  []time.Time
	crashes []time.Time
	why     string
}

type record struct {
	Running bool        `json:"running"` // the last run has not ended as it should
	Boot    string      `json:"boot_id,omitempty"`
	Why     string      `json:"why,omitempty"`
	Crashes []time.Time `json:"crashes,omitempty"`
	Starts  []time.Time `json:"starts,omitempty"`
}

// Begin notes a start in a state directory. The run before it counts as crashed unless it ended as it should, or the machine was started
// anew since. log is the agent's log, which may say why.
func Begin(base, log string, now time.Time) *Starts {
	s := &Starts{base: base}
	var before record
	if raw, err := os.ReadFile(s.path(StartsFile)); err == nil && json.Unmarshal(raw, &before) == nil {
		s.starts = before.Starts
		s.crashes = before.Crashes
		s.why = before.Why
	}
	now = now.UTC().Truncate(time.Second)
	boot := host.BootID()
	if before.Running && before.Boot == boot {
		s.crashes = append(s.crashes, now)
		if s.why == "" {
			s.why = s.lastWords(log)
		}
	}
	s.starts = append(s.starts, now)
	s.starts = s.starts[max(0, len(s.starts)-most):]
	s.crashes = s.crashes[max(0, len(s.crashes)-most):]
	s.save(record{Running: true, Boot: boot})
	return s
}

// End notes how the run ends. failed is nil if it ends as it should.
func (s *Starts) End(failed error) {
	r := record{Why: s.why}
	if failed != nil {
		r.Running = true
		r.Boot = host.BootID()
		r.Why = s.plain(failed.Error())
	}
	s.save(r)
}

func (s *Starts) path(name string) string { return filepath.Join(s.base, name) }

// save does not wait for the disk. If the power fails, one entry is lost and no more.
func (s *Starts) save(r record) {
	r.Starts = s.starts
	r.Crashes = s.crashes
	if raw, err := json.Marshal(r); err == nil {
		_ = disk.ReplaceSoon(s.path(StartsFile), append(raw, '\n'), 0o600)
	}
}

// Notice tells a person about a crash loop. It is empty if there is none.
func (s *Starts) Notice(now time.Time) string {
	recent := within(s.crashes, now, crashWindow)
	if recent < crashLoop {
		return ""
	}
	return fmt.Sprintf("the agent was restarted %d times within an hour; the last time: %s", recent, s.why)
}

// Report is what a heartbeat says. A run that crashed longer ago than any on record has left no word.
func (s *Starts) Report(now time.Time) *wire.Starts {
	recent := within(s.starts, now, wire.StartsWindow)
	crashes := within(s.crashes, now, wire.StartsWindow)
	r := &wire.Starts{Recent: &recent, Crashes: &crashes}
	if len(s.crashes) > 0 {
		r.Why = wire.Cut(s.why, wire.MaxStartsWhy)
	}
	return r
}

// within counts the times that are less than this long ago. A clock that was set back does not hide them.
func within(times []time.Time, now time.Time, window time.Duration) (n int) {
	for _, at := range times {
		if now.Sub(at).Abs() < window {
			n++
		}
	}
	return n
}
