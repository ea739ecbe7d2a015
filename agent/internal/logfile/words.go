package logfile

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"strings"

	"muster/agent/disk"
	"muster/agent/internal/identity"
	"muster/agent/wire"
)

// How much is read of a file in which a run left its last words.
const (
	maxCrash = 4 << 10 // from the beginning: a panic says first what it is about
	maxTail  = 8 << 10 // from the end
	maxWords = 300     // bytes of what is kept of them
)

// aborted is what the runtime writes where systemd, or the agent's supervisor, has ended a run that gave no sign of life. hung says so.
const (
	aborted = "SIGABRT: abort"
	hung    = "it hung: it gave no sign of life, and was ended"
)

// killed is all that can be said where a run left no word.
const killed = "it was killed, or the machine stopped"

// Catch makes the runtime write a panic of this run into CrashFile, as well as to the standard error. What the previous run left in that
// file is gone then.
func (s *Starts) Catch() error {
	file, err := os.OpenFile(s.path(CrashFile), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer file.Close() // the runtime keeps a duplicate
	return debug.SetCrashOutput(file, debug.CrashOptions{})
}

// lastWords says how a run ended that could not say it itself: by its panic, by what its supervisor saw, or by the end of its log.
func (s *Starts) lastWords(log string) string {
	switch line := firstLine(s.path(CrashFile)); line {
	case "":
	case aborted:
		return hung
	default:
		return s.plain(line)
	}
	if status, err := identity.ReadStatus(s.base); err == nil && status.Phase == identity.PhaseCrashing {
		if _, seen, ok := strings.Cut(status.LastError, "last with: "); ok {
			seen, _, _ = strings.Cut(seen, "; it is started again")
			return s.plain(seen)
		}
	}
	end, _ := disk.ReadEnd(log, 0, maxTail)
	end = bytes.TrimSpace(end)
	if len(end) == 0 {
		return killed
	}
	return s.plain(killed + "; its log ends with: " + Plain(end[bytes.LastIndexByte(end, '\n')+1:]))
}

// firstLine is the first line of a file, empty if it cannot be read.
func firstLine(path string) string {
	file, _, err := disk.OpenFile(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	raw, _ := io.ReadAll(io.LimitReader(file, maxCrash))
	line, _, _ := strings.Cut(strings.TrimSpace(string(raw)), "\n")
	return line
}

// plain makes a text fit for a report: one line without secrets, control characters, or what JSON escapes. If the secrets of this node
// cannot be read, so that they cannot be masked, it says nothing of the text.
func (s *Starts) plain(text string) string {
	var secrets []string
	state, err := identity.Read(s.base)
	switch {
	case err == nil:
		secrets = state.Secrets()
	case !errors.Is(err, fs.ErrNotExist):
		return killed
	}
	text = string(NewMasker(secrets...).Text([]byte(text)))
	return wire.OneLine(text, maxWords)
}
