package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/internal/session/recording"
)

// talk is what the gateway has to know of the channel pipe.Main. What one end says is read by who has the turn of that direction.
type talk struct {
	node, operator pipe.Sieve
	said           int64   // how many bytes the gateway itself has put in front of the node's
	last           *ending // what the node has said last

	mu       sync.Mutex // guards all below
	tape     Tape
	size     *pipe.Size // of the terminal, as it was last
	watchers []*Watcher
}

// longestWhy bounds what a node says about an end.
const longestWhy = 300

// nodeSays takes a piece of the node's frames. If the first frame says that the node has begun, the sentence that the session is recorded
// goes in front of it. The node counts its bytes without that sentence.
func (d *Service) nodeSays(ctx context.Context, s *live, f *flow, at int64, p pipe.Piece) (next int64, err error) {
	ctx, done := context.WithTimeout(ctx, wire.PieceWait)
	defer done()
	if err := f.begin(ctx); err != nil {
		return at, err
	}
	defer f.done()
	m := &s.main
	if s.record && f.room.Passed() == 0 && at == 0 && len(p.Data) > 0 && pipe.FrameKind(p.Data[0]) == pipe.FrameReady {
		var frame frameText
		_ = pipe.WriteFrame(&frame, pipe.FrameNotice, []byte("this session is recorded")) // into memory
		if m.said, err = f.room.Put(ctx, 0, pipe.Piece{Data: frame}); err != nil {
			return at, err
		}
	}
	next, err = d.addSeen(ctx, f, at+m.said, p, func(fresh []byte) {
		s.count(&s.out, len(fresh), d.Now())
		d.readNode(s, fresh)
	})
	if m.last != nil {
		d.end(s, *m.last) // the operator has the node's last word
	}
	return next - m.said, err
}

// addSeen is add where each sees the bytes before the operator can: what cannot be recorded is not shown.
func (d *Service) addSeen(ctx context.Context, f *flow, at int64, p pipe.Piece, each func(fresh []byte)) (next int64, err error) {
	p = d.fit(f, p)
	known := f.room.Passed() - at
	if fresh := int64(len(p.Data)) - known; known >= 0 && fresh > 0 {
		if free := int64(f.room.Free(ctx)); free < fresh {
			p = pipe.Piece{Data: p.Data[:known+free]}
		}
		if int64(len(p.Data)) > known {
			each(p.Data[known:])
		}
	}
	next, err = f.room.Put(ctx, at, p)
	f.weigh(&d.kept, false)
	return next, err
}

// frameText is what frames are written to.
type frameText []byte

func (f *frameText) Write(p []byte) (int, error) {
	*f = append(*f, p...)
	return len(p), nil
}

// readNode reads what the node says.
func (d *Service) readNode(s *live, fresh []byte) {
	m := &s.main
	m.node.Wants = func(kind pipe.FrameKind) bool {
		switch kind {
		case pipe.FrameReady, pipe.FrameRefused, pipe.FrameExit:
			return true
		}
		return kind == pipe.FrameOutput && (s.record || s.watched())
	}
	if err := m.node.Feed(fresh, func(kind pipe.FrameKind, data []byte) { d.nodeFrame(s, kind, data) }); err != nil {
		d.end(s, ending{why: "the node broke the rules of a session: " + err.Error(), hint: "muster node show " + s.NodeName})
	}
}

func (d *Service) nodeFrame(s *live, kind pipe.FrameKind, data []byte) {
	switch kind {
	case pipe.FrameReady:
		var ready pipe.Ready
		_ = json.Unmarshal(data, &ready) // what it leaves out is not known
		d.begun(s, ready)
	case pipe.FrameOutput:
		d.showed(s, data)
	case pipe.FrameRefused:
		s.main.last = s.refused(data)
	case pipe.FrameExit:
		var exit pipe.Exit
		if err := json.Unmarshal(data, &exit); err != nil {
			exit = pipe.Exit{Code: 1, Error: "the node does not say how it ended"}
		}
		code := int64(exit.Code)
		s.main.last = &ending{why: howItEnded(s.Type, exit), exit: &code}
	}
}

func howItEnded(kind string, exit pipe.Exit) string {
	switch {
	case exit.Error != "":
		return wire.Head(exit.Error, longestWhy)
	case exit.Signal != "":
		return "the program was ended by the signal " + wire.Head(exit.Signal, longestWhy)
	}
	switch {
	case kind == wire.SessionCopy && exit.Code != 0:
		return "not everything could be copied"
	case kind == wire.SessionCopy:
		return "the copy is whole"
	case kind == wire.SessionForward:
		return "the operator ended it"
	}
	return fmt.Sprintf("the program ended with status %d", exit.Code)
}

// begun notes that the node has begun, and begins to record.
func (d *Service) begun(s *live, ready pipe.Ready) {
	now := d.Now().UTC()
	s.mu.Lock()
	again := s.OpenedAt != nil || s.EndedAt != nil
	if !again {
		s.OpenedAt = &now
	}
	s.mu.Unlock()
	if again || !s.record {
		return
	}
	tape, err := d.Record(s.meta(now, ready))
	if err != nil {
		d.Logger.Error("a session cannot be recorded, so it ends", "session", s.ID, "error", err)
		d.end(s, unrecorded("it cannot be recorded: ", err))
		return
	}
	s.mu.Lock()
	s.Recorded = true
	s.mu.Unlock()
	s.main.mu.Lock()
	s.main.tape = tape
	size := s.main.size
	s.main.mu.Unlock()
	if ended, _ := s.over(); !ended.IsZero() { // meanwhile: who ended it saw no tape
		s.endTape(ended, s.row().End, d)
		return
	}
	if size != nil {
		d.taping(s, func(t Tape) error { return t.Size(now, size.Rows, size.Columns) })
	}
	ctx, cancel := context.WithTimeout(context.Background(), saveTime)
	defer cancel()
	if err := d.records.Record(ctx, s.ID, now); err != nil {
		d.Logger.Warn("that a session is recorded cannot be stored before its end", "session", s.ID, "error", err)
	}
}

// showed hands output of a terminal to the tape and to who watches.
func (d *Service) showed(s *live, data []byte) {
	now := d.Now()
	d.taping(s, func(t Tape) error { return t.Output(now, data) })
	s.tellWatchers(pipe.FrameOutput, data)
}

// taping writes to the tape. A session that cannot be recorded ends.
func (d *Service) taping(s *live, write func(Tape) error) {
	s.main.mu.Lock()
	var err error
	if s.main.tape != nil {
		err = write(s.main.tape)
	}
	s.main.mu.Unlock()
	if err != nil {
		d.Logger.Error("a session cannot be recorded any more, so it ends", "session", s.ID, "error", err)
		d.end(s, unrecorded("it cannot be recorded any more: ", err))
	}
}

// unrecorded is the end of a session that cannot be recorded. If the reason is a bound that is kept, it says itself what to do.
func unrecorded(what string, err error) ending {
	if said, is := errors.AsType[*wire.ErrorDetail](err); is {
		return ending{why: what + said.Message, hint: said.Hint}
	}
	return ending{why: what + err.Error(), hint: "look at the disk of the gateway"}
}

// operatorSays reads what the operator says of the terminal.
func (d *Service) operatorSays(s *live, fresh []byte) {
	if s.Type != wire.SessionShell {
		return
	}
	m := &s.main
	m.operator.Wants = func(kind pipe.FrameKind) bool { return kind == pipe.FrameSize }
	err := m.operator.Feed(fresh, func(_ pipe.FrameKind, data []byte) {
		var size pipe.Size
		if json.Unmarshal(data, &size) != nil || size.Rows < 1 || size.Columns < 1 || size.Rows > wire.MaxTerminal ||
			size.Columns > wire.MaxTerminal {
			return // the node says no to it
		}
		d.resized(s, size, data)
	})
	if err != nil {
		d.end(s, ending{why: "the operator's end broke the rules of a session: " + err.Error(), hint: "open the session again"})
	}
}

func (d *Service) resized(s *live, size pipe.Size, data []byte) {
	s.main.mu.Lock()
	s.main.size = &size
	s.main.mu.Unlock()
	now := d.Now()
	d.taping(s, func(t Tape) error { return t.Size(now, size.Rows, size.Columns) })
	s.tellWatchers(pipe.FrameSize, data)
}

// Tape is one recording. Its methods are called one after the other, in the order of events. They keep nothing of what they are given. An
// error ends the session.
type Tape interface {
	Output(at time.Time, data []byte) error
	Size(at time.Time, rows, columns int) error
	// End is called once. note says how the session ended.
	End(at time.Time, note string) error
}

func (s *live) meta(now time.Time, ready pipe.Ready) recording.Meta {
	var p wire.ShellParams
	_ = json.Unmarshal(s.params, &p) // they were read before
	return recording.Meta{ID: s.ID, Node: s.NodeName, User: cmp.Or(ready.User, p.User), Command: p.Command, Term: p.Term, Rows: p.Rows,
		Columns: p.Columns, At: now}
}
