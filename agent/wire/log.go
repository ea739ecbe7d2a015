package wire

import (
	"slices"
	"strings"
	"time"
)

// Sources of logs on a node. LogUnit and LogWorkload are followed by a name.
const (
	LogAgent    = "agent"     // the agent's own
	LogKernel   = "kernel"    // the kernel's messages of this boot
	LogBoot     = "boot"      // everything that the journal has of this boot
	LogUnit     = "unit:"     // a systemd unit
	LogWorkload = "workload:" // a container or a program that muster started
)

// LogGateway is the source of a line that no node has sent: there the gateway says what happened to a stream, for example that the node
// went away. Nobody can ask for this source.
const LogGateway = "gateway"

// LogLine is one line of a log. Time is the node's; Received is set by the gateway. A line that says that others are missing has Dropped.
type LogLine struct {
	Time     time.Time         `json:"time"`
	Received *time.Time        `json:"received,omitempty"`
	Source   string            `json:"source"`
	Level    string            `json:"level,omitempty"` // debug, info, warn or error; empty: the source has none
	Message  string            `json:"message"`
	Fields   map[string]string `json:"fields,omitempty"`
	Dropped  int64             `json:"dropped,omitempty"` // so many lines are missing here; Message says why
	Cut      int               `json:"cut,omitempty"`     // so many bytes of the message were left out
}

// LogBatch is what a node ships in one request, oldest first. First is the number of its first line: numbers go on by one, in the node's
// spool, so that a batch which comes again is known.
type LogBatch struct {
	Spool string    `json:"spool"` // a random name of the spool; numbers of another spool mean nothing
	First int64     `json:"first"`
	Lines []LogLine `json:"lines"`
}

// LogTaken answers a LogBatch.
type LogTaken struct {
	Next         int64 `json:"next"`                    // the number that the gateway wants next: all before are kept
	PauseSeconds int   `json:"pause_seconds,omitempty"` // the node sends nothing for so long: it is above its rate
}

// LogShipping tells a node what to ship. It is part of a HeartbeatAnswer; nil there: nothing.
type LogShipping struct {
	Sources []string `json:"sources"`
	// BytesPerSecond bounds what the node sends, over ten seconds. The rest stays in the node's spool as long as it has room.
	BytesPerSecond int `json:"bytes_per_second,omitempty"`
}

// LogLevels returns the levels of a LogLine, the least first.
func LogLevels() []string { return []string{"debug", "info", "warn", "error"} }

// CheckLogSource refuses what is not a source.
func CheckLogSource(source string) error {
	if slices.Contains([]string{LogAgent, LogKernel, LogBoot}, source) {
		return nil
	}
	for _, named := range []string{LogUnit, LogWorkload} {
		if name, ok := strings.CutPrefix(source, named); ok && logName(name) {
			return nil
		}
	}
	return Refuse(CodeBadRequest, "there is no such source of logs", "the sources are agent, kernel, boot, unit:NAME and workload:NAME")
}

// logName is strict: the name goes to journalctl or to a container engine as an argument.
func logName(name string) bool {
	return name != "" && len(name) <= MaxLogName && name[0] != '-' && only(name, "@._-:")
}
