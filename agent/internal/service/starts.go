package service

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"muster/agent/internal/disk"
)

// startsFile is in the state directory.
const startsFile = "starts.json"

// What counts as a crash loop: this many unwanted ends within the window.
const (
	crashWindow = time.Hour
	crashLoop   = 3
	maxCrashes  = 20
)

// Starts remembers how the agent's runs ended, over its restarts and whatever restarts it, so that a crash loop is seen on
// the machine and at the gateway. It is used from one goroutine, but for Notice.
type Starts struct {
	path    string
	crashes []time.Time
	why     string
}

type startsRecord struct {
	Running bool        `json:"running"` // the last run has not ended in order
	Why     string      `json:"why,omitempty"`
	Crashes []time.Time `json:"crashes,omitempty"`
}

// Begin notes a start in a state directory. The run before counts as crashed unless it was ended in order.
func Begin(base string, now time.Time) *Starts {
	s := &Starts{path: filepath.Join(base, startsFile)}
	var before startsRecord
	if raw, err := os.ReadFile(s.path); err == nil && json.Unmarshal(raw, &before) == nil {
		s.crashes, s.why = before.Crashes, before.Why
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

// End notes how the run ends: nil in order, else why not.
func (s *Starts) End(failed error) {
	r := startsRecord{Crashes: s.crashes, Why: s.why}
	if failed != nil {
		r.Running, r.Why = true, oneLine(failed.Error())
	}
	s.save(r)
}

// save does not wait for the disk: with the power one entry is lost, no more.
func (s *Starts) save(r startsRecord) {
	if raw, err := json.Marshal(r); err == nil {
		_ = disk.ReplaceSoon(s.path, append(raw, '\n'), 0o600)
	}
}

// Notice is what a person should know about the ends of late, empty while there is nothing to say.
func (s *Starts) Notice(now time.Time) string {
	late := 0
	for _, crash := range s.crashes {
		if now.Sub(crash).Abs() < crashWindow {
			late++
		}
	}
	if late < crashLoop {
		return ""
	}
	return fmt.Sprintf("the agent was restarted %d times within an hour; the last time: %s", late, s.why)
}
