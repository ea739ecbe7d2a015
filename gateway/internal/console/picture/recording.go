package picture

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/console/scrollback"
	"muster/gateway/internal/session/asciicast"
)

// Bounds of what is shown of a recording at once.
const (
	RecordingLines = 2000
	recordingBytes = 1 << 20
)

// Recording is a part of what a terminal showed, as lines of text.
type Recording struct {
	Lines []RecordingLine
	From  int   // number of the first line; the first of all is 0
	More  bool  // there are lines behind these
	Fault error // the recording cannot be read further; nil: it can
}

// RecordingLine is one line. Its text has nothing in it that a browser would not draw.
type RecordingLine struct {
	Millis int64  // of its last change since the beginning, for scripts. No line has an earlier one than the line before
	At     string // the same for people, such as 1:02:03
	Text   string
	Note   bool // the text is not the terminal's
}

// RecordingOf reads a recording up to the lines that are asked for. It calls still now and then: still returns an error if nobody waits for
// the result any more.
func RecordingOf(cast io.Reader, from int, still func() error) (Recording, error) {
	r := reader{Recording: Recording{From: from}}
	d, h, err := asciicast.NewDecoder(cast)
	if errors.Is(err, io.EOF) {
		return r.Recording, nil // nothing was written yet
	}
	if err != nil {
		r.Fault = err
		return r.Recording, nil
	}
	screen := scrollback.New(cmp.Or(h.Width, 80), cmp.Or(h.Height, 24), r.line)
	for err == nil {
		var e asciicast.Event
		if e, err = d.Next(); err == nil {
			err = r.event(screen, e, still)
		}
	}
	switch {
	case errors.Is(err, errFull):
		return r.Recording, nil
	case !errors.Is(err, io.EOF):
		r.Fault = err
	}
	if err := still(); err != nil {
		return r.Recording, err
	}
	_ = r.end(screen) // errFull: there are more lines
	return r.Recording, nil
}

// reader gathers the lines of a recording.
type reader struct {
	Recording
	passed int // lines, also those before the first that is asked for
	bytes  int
	last   time.Duration
	notes  []RecordingLine // for which the screen has to be read to its end
}

// errFull ends the reading: all that is shown at once is there.
var errFull = errors.New("there are enough lines")

func (r *reader) event(screen *scrollback.Screen, e asciicast.Event, still func() error) error {
	if err := still(); err != nil {
		return err
	}
	switch e.Kind {
	case asciicast.Output:
		return screen.Write(e.At, e.Data)
	case asciicast.Resize:
		if rows, columns, ok := e.Size(); ok {
			screen.Resize(columns, rows)
		}
	case asciicast.Marker:
		r.notes = append(r.notes, note(e.At, Drawn(e.Data)))
	}
	return nil
}

// end gives what is left on the screen, and how the session ended.
func (r *reader) end(screen *scrollback.Screen) error {
	if err := screen.End(); err != nil {
		return err
	}
	for _, n := range r.notes {
		if err := r.add(n); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) line(l scrollback.Line) error {
	if l.Whole > 0 {
		return r.add(note(l.At, "A program had the whole screen for "+span(l.Whole)+". What it drew is not shown as text."))
	}
	return r.add(RecordingLine{Millis: l.At.Milliseconds(), Text: Drawn(l.Text)})
}

func note(at time.Duration, text string) RecordingLine {
	return RecordingLine{Millis: at.Milliseconds(), Text: text, Note: true}
}

func (r *reader) add(l RecordingLine) error {
	r.passed++
	r.last = max(r.last, time.Duration(l.Millis)*time.Millisecond)
	switch {
	case r.passed <= r.From:
		return nil
	case len(r.Lines) == RecordingLines || r.bytes > recordingBytes:
		r.More = true
		return errFull
	}
	l.Millis = r.last.Milliseconds()
	l.At = stopwatch(r.last)
	r.bytes += len(l.Text)
	r.Lines = append(r.Lines, l)
	return nil
}

// stopwatch is a time since a beginning, such as 0:07 or 1:02:03.
func stopwatch(d time.Duration) string {
	s := int(d / time.Second)
	if s < 3600 {
		return fmt.Sprintf("%d:%02d", s/60, s%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}

// Said is something that a person has to know, and what to do about it.
type Said struct {
	Mark Mark // its word is the sentence
	Hint string
}

// RecordingSays returns what a person has to know if the recording is not complete; nil: it is complete.
func RecordingSays(state string) *Said {
	said := func(class, message, hint string) *Said { return &Said{Mark{class, shapeOf(class), message}, hint} }
	switch state {
	case api.RecordingComplete:
		return nil
	case api.RecordingLive:
		return said(busy, "The session goes on.", "Open this page again to see more.")
	case api.RecordingCutOff:
		return said(attention, "The end of the recording is missing.", "The gateway was killed or its disk was full, or somebody has cut the "+
			"file off. The page of the session says how it ended.")
	case api.RecordingDamaged:
		return said(bad, "The recording is damaged: what comes after that place is left out.", "The disk has damaged the file, somebody has "+
			"changed it, or it is of a gateway with another database.")
	}
	return said(neutral, "Whether the recording is complete is not known.", "The gateway says of it: "+Drawn(state))
}
