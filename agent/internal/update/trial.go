package update

import (
	"os"
	"strconv"
	"strings"
	"time"

	"muster/agent/internal/host"
	"muster/agent/wire"
)

// Trial counts what a version on trial has had. Its times are in milliseconds of a clock that nobody can set: the time since a boot. What
// passes while the machine is off is not counted.
type Trial struct {
	Boot     string `json:"boot"`               // names the boot that At is about
	At       int64  `json:"at"`                 // when the rest was written
	Window   int64  `json:"window"`             // how long the trial had gone on by then, since it was last extended
	Spent    int64  `json:"spent"`              // how long all in all
	Starts   int    `json:"starts"`             // by Settle, which began them
	Up       int    `json:"up"`                 // the last of them in which the new version came up
	Stopped  bool   `json:"stopped,omitempty"`  // the new version was told to end, and did: that start does not count
	GaveUp   string `json:"gave_up,omitempty"`  // the new version ended itself, because of that
	Extended int    `json:"extended,omitempty"` // how often
	LogSize  int64  `json:"log_size,omitempty"` // of the log when the trial began
}

// clock tells the time since a boot. An empty boot: it cannot be told, and no time counts.
type clock func() (boot string, millis int64)

// systemClock is the kernel's. It goes on while the machine sleeps, and no change of the time of day moves it.
func systemClock() (boot string, millis int64) {
	uptime, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return "", 0
	}
	text, _, _ := strings.Cut(string(uptime), " ")
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || seconds < 0 || seconds > 1e10 {
		return "", 0
	}
	return host.BootID(), int64(seconds * 1000)
}

// tick counts the time since the last tick, and gives it. Of a boot that is over, nothing counts.
func (t *Trial) tick(now clock) time.Duration {
	boot, at := now()
	passed := int64(0)
	if boot != "" && boot == t.Boot && at > t.At {
		passed = at - t.At
	}
	t.Boot = boot
	t.At = at
	t.Window += passed
	t.Spent += passed
	return time.Duration(passed) * time.Millisecond
}

// window is how long the trial goes on since it was last extended.
func (t *Trial) window() time.Duration { return time.Duration(t.Window) * time.Millisecond }

// spent is how long the trial goes on all in all.
func (t *Trial) spent() time.Duration { return time.Duration(t.Spent) * time.Millisecond }

// left is the time until the version on trial must have proven itself.
func (t *Trial) left(now clock) time.Duration {
	copied := *t
	copied.tick(now)
	return max(wire.TrialTime-copied.window(), 0)
}

// mend brings numbers that no version writes into their bounds.
func (t *Trial) mend() {
	const most = 1_000_000_000
	t.At = min(max(t.At, 0), 1<<53)
	t.Window = min(max(t.Window, 0), most)
	t.Spent = min(max(t.Spent, 0), most)
	t.Starts = max(t.Starts, 0)
	t.LogSize = max(t.LogSize, 0)
}
