package command

import (
	"bytes"
	"context"
	"os"
	"time"

	"muster/agent/internal/child"
	"muster/agent/internal/service"
	"muster/agent/internal/update"
	"muster/agent/wire"
)

const (
	wordsTime  = 2 * time.Second // for the journal to answer
	wordsSince = "-150s"         // longer than a trial, so that all of its starts are in it
	mostWords  = 64 << 10        // bytes
)

// keepWords keeps what systemd's journal has of a version on trial, such as a panic, where the supervisor would have kept it. The agent's
// own lines are left out: they are in its log. A journal that does not answer stops nothing.
func (j judge) keepWords(ctx context.Context) {
	// systemd sets it, also for cron and so for a supervisor that cron has started. A supervisor keeps the words itself.
	if j.Getenv("INVOCATION_ID") == "" || j.Getenv(wire.EnvSupervised) != "" {
		return
	}
	unit := "--unit=" + service.Name
	if j.System.UID != 0 {
		unit = "--user-unit=" + service.Name
	}
	ctx, cancel := context.WithTimeout(ctx, wordsTime)
	defer cancel()
	said := child.Bounded{Most: mostWords}
	err := child.Run(ctx, child.Command{
		Program: j.journal, Args: []string{"--no-pager", "--quiet", "--output=cat", "--since=" + wordsSince, "--lines=200", unit},
		Stdout: &said, Grace: time.Second,
	})
	if err == nil && len(said.Kept) > 0 { // a journal that knows nothing of this agent has nothing to tell
		j.writeWords(said.Kept)
	}
}

// writeWords keeps what a version has written to its standard error, without the lines of its log.
func (j judge) writeWords(said []byte) {
	var kept bytes.Buffer
	for line := range bytes.Lines(said) {
		if !ofLog(line) && !aboutOthers(line) {
			kept.Write(line)
		}
	}
	_ = os.WriteFile(service.Layout{Base: j.base}.LastWords(), kept.Bytes(), 0o600)
}

// ofLog reports whether a line is one of the agent's log.
func ofLog(line []byte) bool { return bytes.HasPrefix(line, []byte("time=")) }

// wordKeeper keeps the end of what a version on trial writes to its standard error, as it comes: one that hangs is judged before it ends.
type wordKeeper struct {
	judge
	trial string // the build; once its trial is over, nothing more is kept
	kept  []byte // without the lines of its log
	line  []byte // that is not complete yet
}

// Write implements io.Writer. It never fails: words that cannot be kept are lost.
func (w *wordKeeper) Write(p []byte) (int, error) {
	news := false
	for part := range bytes.Lines(p) {
		w.line = last(append(w.line, part...))
		news = news || !ofLog(w.line)
		if !bytes.HasSuffix(part, []byte("\n")) {
			break
		}
		if !ofLog(w.line) {
			w.kept = last(append(w.kept, w.line...))
		}
		w.line = w.line[:0]
	}
	if news && update.OnTrial(w.base) == w.trial {
		w.writeWords(append(w.kept[:len(w.kept):len(w.kept)], w.line...))
	}
	return len(p), nil
}

// last is the end of what is kept.
func last(text []byte) []byte { return text[max(0, len(text)-mostWords):] }

// aboutOthers reports whether systemd says that something else of the unit runs on. That is meant so: it is the guard, and what tasks have
// started.
func aboutOthers(line []byte) bool {
	for _, words := range []string{"remains running after unit stopped", "left-over process", "This usually indicates unclean termination"} {
		if bytes.Contains(line, []byte(words)) {
			return true
		}
	}
	return false
}
