package logs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"time"

	"muster/agent/pipe"
	"muster/agent/sign"
	"muster/agent/wire"
)

// Bounds of what a node sends.
const (
	longestText  = 6*wire.MaxLogLine + 128<<10 // bytes of JSON of one line: each byte of its message may be an escape
	mostName     = 64                          // bytes of a field's name
	mostFields   = 24 << 10                    // bytes of all fields of a line; an agent has 17 KiB at most
	mostSaid     = 400                         // bytes of a node's word about why a session ended
	bytesASecond = 8 << 20                     // that are read of one session; what a node sends beyond that waits there
)

// intake reads the frames of one session of logs.
type intake struct {
	frames *pipe.Frames
	source string
	now    func() time.Time

	rest []byte // of a line that has not ended
	lost bool   // the line is longer than any can be: what comes up to its end is left out

	taken int // bytes in this second
	since time.Time
}

func newIntake(from io.Reader, source string, now func() time.Time) *intake {
	return &intake{frames: pipe.NewFrames(from), source: source, now: now, since: now()}
}

// next gives the next lines. There may be none yet: the node says that it has begun, or a line has not ended. The error is io.EOF where the
// log has ended.
func (i *intake) next(ctx context.Context) ([]wire.LogLine, error) {
	kind, data, err := i.frames.Next()
	if err != nil {
		return nil, gone(err)
	}
	switch kind {
	case pipe.FrameOutput:
		i.pace(ctx, len(data))
		return i.take(data), nil
	case pipe.FrameRefused:
		return nil, refusal(data)
	case pipe.FrameExit:
		return nil, ending(data)
	}
	return nil, nil
}

// pace holds up a node that sends faster than one node may.
func (i *intake) pace(ctx context.Context, n int) {
	if i.taken += n; i.taken < bytesASecond {
		return
	}
	i.taken = 0
	if left := time.Second - i.now().Sub(i.since); left <= time.Second {
		Wait(ctx, left)
	}
	i.since = i.now()
}

// take cuts what came into lines.
func (i *intake) take(data []byte) []wire.LogLine {
	var lines []wire.LogLine
	for len(data) > 0 {
		head, tail, whole := bytes.Cut(data, []byte("\n"))
		data = tail
		if len(i.rest)+len(head) > longestText {
			i.lost = true
			i.rest = nil
		}
		if !i.lost {
			i.rest = append(i.rest, head...)
		}
		if !whole {
			break
		}
		if i.lost {
			lines = append(lines, i.unread("the node sent a line that is longer than any can be"))
		} else if len(i.rest) > 0 {
			lines = append(lines, i.read(i.rest))
		}
		i.rest = nil
		i.lost = false
	}
	return lines
}

// read reads one line. What is no line becomes one that says so.
func (i *intake) read(text []byte) wire.LogLine {
	var l wire.LogLine
	if err := sign.DecodeOnce(text, &l); err != nil {
		return i.unread("the node sent something that is no line of a log")
	}
	l = Proper(l, i.now())
	l.Source = i.source
	return l
}

// Proper makes a node's line fit for everybody, whatever the node has sent. Its source stays unchanged.
func Proper(l wire.LogLine, now time.Time) wire.LogLine {
	at := now.UTC()
	l.Received = &at
	if y := l.Time.Year(); l.Time.IsZero() || y < 1 || y > 9999 {
		l.Time = at
	}
	if !slices.Contains(wire.LogLevels(), l.Level) {
		l.Level = ""
	}
	l.Cut = min(max(l.Cut, 0), wire.MaxNumber)
	l.Dropped = min(max(l.Dropped, 0), wire.MaxNumber)
	if over := len(l.Message) - wire.MaxLogLine; over > 0 {
		l.Message = wire.Head(l.Message, wire.MaxLogLine)
		l.Cut = min(l.Cut+over, wire.MaxNumber)
	}
	l.Fields = bounded(l.Fields)
	return l
}

// bounded leaves out fields that are too many or too large, in the order of their names.
func bounded(fields map[string]string) map[string]string {
	size := 0
	kept := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		size += len(name) + len(fields[name])
		if len(kept) == wire.MaxLogFields || size > mostFields {
			break
		}
		if name != "" && len(name) <= mostName {
			kept[name] = fields[name]
		}
	}
	return kept
}

// unread stands for a line that could not be read.
func (i *intake) unread(why string) wire.LogLine {
	at := i.now().UTC()
	return wire.LogLine{Time: at, Received: &at, Source: i.source, Level: "warn", Message: why, Dropped: 1}
}

// gone is the error of a session that broke off, although the log did not end. The code of a session says nothing about the log.
func gone(err error) error {
	message := "the node is not heard from"
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		message += ": " + plain(err)
	}
	return wire.Refuse(wire.CodeUnavailable, message, "try again; muster node show says how the node is")
}

// refusal is a node's word that it does not read this log. Of its code only those count that a node can mean.
func refusal(data []byte) error {
	var said wire.SessionRefused
	if sign.DecodeOnce(data, &said) != nil {
		return gone(io.EOF)
	}
	message := "the node refused: " + wire.Head(said.Message, mostSaid)
	switch said.Code {
	case wire.CodeTaskForbidden:
		return wire.Refuse(said.Code, message, "its own policy file decides (/etc/muster/policy.json there); muster help logs has the rule")
	case wire.CodeNotFound:
		return wire.Refuse(said.Code, message, "muster help logs lists the sources; agent and kernel are on every node")
	case wire.CodeTaskTypeUnknown, wire.CodeTaskParamsInvalid:
		return wire.Refuse(said.Code, message, "is its agent too old? muster node show says its version, muster release updates it")
	}
	return wire.Refuse(wire.CodeUnavailable, message, "try again; muster node show says how the node is")
}

// ending is how a session says that it is over.
func ending(data []byte) error {
	var exit pipe.Exit
	if err := json.Unmarshal(data, &exit); err != nil {
		return gone(io.EOF)
	}
	if exit.Error == "" && exit.Code == 0 {
		return io.EOF
	}
	return gone(errors.New("it stopped reading: " + wire.Head(exit.Error, mostSaid)))
}
