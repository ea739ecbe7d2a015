package update

import (
	"errors"
	"os"
	"strings"

	"muster/agent/disk"
	"muster/agent/internal/identity"
	"muster/agent/internal/logfile"
	"muster/agent/wire"
)

// failedLog is the end of what a version on trial has logged, and of what it wrote to its standard error before it ended, without
// secrets. It says the best it can: no trouble with a log stops the way back.
func (f files) failedLog(t *Trial) string {
	from := int64(0)
	if t != nil {
		from = t.LogSize
	}
	var secrets []string
	state, err := identity.Read(f.Base)
	if err == nil {
		secrets = state.Secrets()
	} else if !errors.Is(err, os.ErrNotExist) {
		return "" // its keys cannot be masked
	}
	lines, _ := disk.ReadEnd(f.Log(), from, wire.MaxUpdateLog)
	text := asText(string(lines))
	if words, _ := disk.ReadEnd(f.LastWords(), 0, wire.MaxUpdateLog); len(words) > 0 {
		text += "-- standard error:\n" + string(words)
	}
	return last(plain(string(logfile.NewMasker(secrets...).Text([]byte(text)))), wire.MaxUpdateLog)
}

// asText gives lines of the log as people read them.
func asText(lines string) string {
	var out strings.Builder
	for line := range strings.Lines(lines) {
		out.WriteString(logfile.Plain([]byte(strings.TrimSuffix(line, "\n"))) + "\n")
	}
	return out.String()
}
