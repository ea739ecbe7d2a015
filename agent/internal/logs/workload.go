package logs

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"muster/agent/internal/process"
	"muster/agent/wire"
)

// openWorkload reads what a workload has written. Of a container it has the times at which its engine got the lines.
func (h Host) openWorkload(ctx context.Context, ask Ask, name string) (feed, []string, error) {
	if output, err := h.Workloads.Runs.Output(name); err == nil {
		read, err := h.openRun(ask, output)
		return read, nil, err
	}
	w := container{since: ask.Since}
	w.resume(ask.After)
	command, secrets, err := h.Workloads.LogCommand(ctx, name, w.since, ask.Follow)
	if err != nil {
		return nil, nil, err
	}
	p := program{command: command, lines: &cutter{most: maxText + len(time.RFC3339Nano) + 1}, joined: true}
	return func(ctx context.Context, give func(entry) error) error {
		_, err := p.run(ctx, func(l one) error { return w.line(l, give) })
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		if err != nil && w.last != "" { // what an engine complains about has no time in front
			return fmt.Errorf("%w: %s", err, wire.OneLine(w.last, 300))
		}
		return err
	}, secrets, nil
}

// openRun reads what a program has written that runs without a container. It ends with the run, also if somebody follows.
func (h Host) openRun(ask Ask, output process.Output) (feed, error) {
	f := follower{path: output.Path, ask: ask, now: h.now, pace: cmp.Or(ask.Pace, h.pace()), over: output.Over}
	if err := f.begin(); err != nil {
		return nil, err
	}
	if output.Cut > 0 && ask.After == "" {
		f.missed = fmt.Sprintf("only the last %d MiB are kept", process.MostOutput>>20)
		f.lost = output.Cut
	}
	return f.read, nil
}

// container makes entries of what an engine prints.
type container struct {
	since time.Time
	skip  int // so many lines of since itself were given before

	at    time.Time // of the last line
	count int       // so many lines had that time
	last  string    // the last line, where it had no time
}

const ofContainer = "container"

// resume goes behind a place: a time, and how many lines of it were given.
func (w *container) resume(place string) {
	if n := placeNumbers(place, ofContainer); len(n) == 2 && int(n[1]) >= 0 {
		w.since = time.Unix(0, int64(n[0]))
		w.skip = int(n[1])
	}
}

func (w *container) line(l one, give func(entry) error) error {
	at, text, ok := containerLine(string(l.text))
	w.last = ""
	if !ok {
		w.last = text
		return give(entry{at: w.at, text: text, left: l.left})
	}
	if !at.Equal(w.at) {
		w.count = 0
	}
	w.at = at
	w.count++
	if at.Before(w.since) || at.Equal(w.since) && w.count <= w.skip {
		return nil
	}
	return give(entry{at: at, text: text, left: l.left, place: fmt.Sprintf("%s:%d:%d", ofContainer, at.UnixNano(), w.count)})
}

// containerLine takes off the time that stands in front of a line. The rest is all that the program in the container has written.
func containerLine(line string) (at time.Time, text string, ok bool) {
	stamp, text, _ := strings.Cut(line, " ")
	at, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil {
		return time.Time{}, line, false
	}
	return at.UTC(), text, true
}
