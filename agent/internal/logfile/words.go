package logfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"strings"
	"syscall"

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

// Catch makes the runtime write a panic of this run into CrashFile, beside what it writes to the standard error. What the run before left
// there is gone then.
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
	switch line, _, _ := strings.Cut(strings.TrimSpace(string(part(s.path(CrashFile), maxCrash, false))), "\n"); line {
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
	lines := strings.Split(strings.TrimSpace(string(part(log, maxTail, true))), "\n")
	if last := lines[len(lines)-1]; len(lines) > 1 { // the only line may be cut off at its beginning, and hold half of a secret
		return s.plain(killed + "; its log ends with: " + Plain([]byte(last)))
	}
	return killed
}

// part reads the beginning or the end of a file, nil where it cannot be read.
func part(path string, size int64, end bool) []byte {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	from := int64(0)
	if end {
		from = max(0, info.Size()-size)
	}
	raw, err := io.ReadAll(io.NewSectionReader(file, from, size))
	if err != nil {
		return nil
	}
	return raw
}

// plain makes a text fit for a report: one line without secrets, control characters, or what JSON escapes. Where the secrets of this node
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
