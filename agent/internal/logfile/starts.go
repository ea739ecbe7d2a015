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

// Starts is the record of a state directory. Only Notice and Report may be called from another goroutine, once Begin has returned.
type Starts struct {
	base string
	record
}

type record struct {
	Running bool        `json:"running"` // the last run has not ended as it should
	Boot    string      `json:"boot_id,omitempty"`
	Why     string      `json:"why,omitempty"` // how the last run ended that crashed; on the disk only once this one has ended
	Crashes []time.Time `json:"crashes,omitempty"`
	Starts  []time.Time `json:"starts,omitempty"`
}

// Begin notes a start in a state directory. The run before it counts as crashed unless it ended as it should, or the machine was started
// anew since. log is the agent's log, which may say why.
func Begin(base, log string, now time.Time) *Starts {
	s := &Starts{base: base}
	if raw, err := os.ReadFile(s.path(StartsFile)); err != nil || json.Unmarshal(raw, &s.record) != nil {
		s.record = record{}
	}
	now = now.UTC().Truncate(time.Second)
	boot := host.BootID()
	if s.Running && s.Boot == boot {
		s.Crashes = append(s.Crashes, now)
		if s.Why == "" {
			s.Why = s.lastWords(log)
		}
	}
	s.Starts = append(s.Starts, now)
	s.Starts = s.Starts[max(0, len(s.Starts)-most):]
	s.Crashes = s.Crashes[max(0, len(s.Crashes)-most):]
	s.save(true, boot, "")
	return s
}

// End notes how the run ends. failed is nil if it ends as it should.
func (s *Starts) End(failed error) {
	if failed == nil {
		s.save(false, "", s.Why)
		return
	}
	s.save(true, host.BootID(), s.plain(failed.Error()))
}

func (s *Starts) path(name string) string { return filepath.Join(s.base, name) }

// save does not wait for the disk. If the power fails, one entry is lost and no more.
func (s *Starts) save(running bool, boot, why string) {
	r := record{Running: running, Boot: boot, Why: why, Crashes: s.Crashes, Starts: s.Starts}
	if raw, err := json.Marshal(r); err == nil {
		_ = disk.ReplaceSoon(s.path(StartsFile), append(raw, '\n'), 0o600)
	}
}

// Notice tells a person about a crash loop. It is empty if there is none.
func (s *Starts) Notice(now time.Time) string {
	recent := within(s.Crashes, now, crashWindow)
	if recent < crashLoop {
		return ""
	}
	return fmt.Sprintf("the agent was restarted %d times within an hour; the last time: %s", recent, s.Why)
}

// Report returns what a heartbeat says of the starts. A run that crashed before all runs on record has left no word.
func (s *Starts) Report(now time.Time) *wire.Starts {
	recent := within(s.Starts, now, wire.StartsWindow)
	crashes := within(s.Crashes, now, wire.StartsWindow)
	r := &wire.Starts{Recent: &recent, Crashes: &crashes}
	if len(s.Crashes) > 0 {
		r.Why = wire.Cut(s.Why, wire.MaxStartsWhy)
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
