package update

import (
	"errors"
	"io"
	"os"
	"strings"
	"syscall"

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
	text := asText(tailOf(f.Log(), from))
	if words := tailOf(f.LastWords(), 0); words != "" {
		text += "-- standard error:\n" + words
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

// tailOf is the end of a file, at most wire.MaxUpdateLog bytes of it. What it had before from is left out, unless a new file was begun.
func tailOf(path string, from int64) string {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	if from > info.Size() {
		from = 0
	}
	from = max(from, info.Size()-wire.MaxUpdateLog)
	raw, err := io.ReadAll(io.NewSectionReader(file, from, wire.MaxUpdateLog))
	if err != nil {
		return ""
	}
	if len(raw) == wire.MaxUpdateLog { // half a line could be half a secret
		return last("\n"+string(raw), wire.MaxUpdateLog)
	}
	return string(raw)
}
