package service

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"muster/agent/internal/disk"
)

// startsFile is a file in the state directory.
const startsFile = "starts.json"

// A crash loop is at least crashLoop crashes within crashWindow. The record keeps the last maxCrashes.
const (
	crashWindow = time.Hour
	crashLoop   = 3
	maxCrashes  = 20
)

// Starts remembers how the runs of the agent ended, so that people see a crash loop on the machine and at the gateway. It does not
// matter what restarts the agent. Only Notice may be called from another goroutine.
type Starts struct {
	path    string
	crashes []time.Time
	why     string
}

type startsRecord struct {
	Running bool        `json:"running"` // the last run has not ended as it should
	Why     string      `json:"why,omitempty"`
	Crashes []time.Time `json:"crashes,omitempty"`
}

// Begin notes a start in a state directory. The run before it counts as crashed unless it ended as it should.
func Begin(base string, now time.Time) *Starts {
	s := &Starts{path: filepath.Join(base, startsFile)}
	var before startsRecord
	if raw, err := os.ReadFile(s.path); err == nil && json.Unmarshal(raw, &before) == nil {
		s.crashes = before.Crashes
		s.why = before.Why
	}
	if before.Running {
		s.crashes = append(s.crashes, now.UTC().Truncate(time.Second))
		if s.why == "" {
			s.why = "it was killed, or the machine stopped"
		}
	}
	s.crashes = s.crashes[max(0, len(s.crashes)-maxCrashes):]
	s.save(startsRecord{Running: true, Crashes: s.crashes})
	return s
}

// End notes how the run ends. failed is nil where it ends as it should.
func (s *Starts) End(failed error) {
	r := startsRecord{Crashes: s.crashes, Why: s.why}
	if failed != nil {
		r.Running = true
		r.Why = oneLine(failed.Error())
	}
	s.save(r)
}

// save does not wait for the disk. If the power fails, one entry is lost and no more.
func (s *Starts) save(r startsRecord) {
	if raw, err := json.Marshal(r); err == nil {
		_ = disk.ReplaceSoon(s.path, append(raw, '\n'), 0o600)
	}
}

// Notice tells a person about a crash loop. It is empty where there is none.
func (s *Starts) Notice(now time.Time) string {
	recent := 0
	for _, crash := range s.crashes {
		if now.Sub(crash).Abs() < crashWindow {
			recent++
		}
	}
	if recent < crashLoop {
		return ""
	}
	return fmt.Sprintf("the agent was restarted %d times within an hour; the last time: %s", recent, s.why)
}
