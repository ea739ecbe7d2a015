package uptime

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// awake is true if the machine has not slept since the last call. Its agents have heard nothing from it while it slept, and may wait
// long before they try again. They notice nothing where its clock alone was set. If nobody knows, it may have slept. The caller holds
// the lock.
func (c *Clock) awake() bool {
	var now time.Duration
	if c.Slept != nil {
		now = c.Slept()
	} else {
		now = kernelSlept(c.made)
	}
	last := c.slept
	c.slept = now
	return now >= 0 && last >= 0 && now-last < StepLeast
}

// kernelSlept is what the time since this machine started, which counts sleep, is more than the time that a program has seen pass.
func kernelSlept(since time.Time) time.Duration {
	text, err := os.ReadFile("/proc/uptime")
	first, _, _ := strings.Cut(string(text), " ")
	seconds, errNumber := strconv.ParseFloat(first, 64)
	if err != nil || errNumber != nil {
		return -1
	}
	return time.Duration(seconds*float64(time.Second)) - time.Since(since)
}
