package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/client"
)

const (
	// troubleTime is how long the way is in trouble before anybody is told. What heals at once is no news.
	troubleTime = time.Second
	// goodbye is how long Leave may take.
	goodbye = 3 * time.Second
)

// Session is one session. One goroutine may call Begin and Next, and any number Send.
type Session struct {
	api.Session // as the gateway gave it when it was opened

	// Main is the channel of the frames. Next reads it, and Send writes it.
	Main *pipe.End

	// Notice is called with each sentence for the person. Trouble is called with an error on the way that does not heal at once, and with
	// nil when the way is good again. Both are set before Begin; they may be nil. Trouble must be safe for concurrent use.
	Notice  func(string)
	Trouble func(error)

	way    *way
	frames *pipe.Frames
	life   context.Context
	cut    context.CancelFunc

	writing sync.Mutex // of frames

	mu     sync.Mutex // guards all below
	broken time.Time  // since when the way is in trouble; zero: it is good
	told   bool
}

// Open asks the gateway for a session with a node. It lasts until ctx ends, Leave or Close at the latest.
func Open(ctx context.Context, c *client.Client, node string, ask api.SessionAsk) (*Session, error) {
	opened, err := client.Send[api.Session](ctx, c, "POST", api.At(api.PathNodeSessions, node), ask)
	if err != nil {
		return nil, err
	}
	life, cut := context.WithCancel(ctx)
	s := &Session{Session: opened, way: newWay(c, opened), life: life, cut: cut}
	s.Main = s.Channel(pipe.Main)
	s.frames = pipe.NewFrames(s.Main)
	return s, nil
}

// Channel makes this end of a channel. Each number is taken once.
func (s *Session) Channel(number int) *pipe.End {
	end := pipe.Open(s.life, s.way, number)
	end.Trouble = s.trouble
	return end
}

// Begin waits until the node says that the session has begun. The error is a *wire.ErrorDetail if the node or the gateway refuses.
func (s *Session) Begin() (pipe.Ready, error) {
	var ready pipe.Ready
	for {
		kind, data, err := s.Next()
		if err != nil {
			return ready, err
		}
		switch kind {
		case pipe.FrameReady:
			return ready, understand(data, &ready)
		case pipe.FrameExit: // an agent of before says so of a program that does not start
			return ready, unready(data)
		}
	}
}

// Next returns the next frame of the node. Its data is good until the next call. A refusal comes as a *wire.ErrorDetail. The end of the
// channel is an error: a session's last frame is an Exit.
func (s *Session) Next() (pipe.FrameKind, []byte, error) {
	for {
		kind, data, err := s.frames.Next()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return 0, nil, errors.New("the node ended the session, and did not say how it went")
		case err != nil:
			return 0, nil, err
		case kind == pipe.FrameRefused:
			return 0, nil, refusal(data)
		case kind != pipe.FrameNotice:
			return kind, data, nil
		case s.Notice != nil:
			s.Notice(string(data))
		}
	}
}

func unready(data []byte) error {
	exit, err := ReadExit(data)
	if err == nil {
		err = errors.New("the node did not begin the session: " + exit.Error)
	}
	return err
}

func refusal(data []byte) error {
	var said wire.SessionRefused
	if err := understand(data, &said); err != nil {
		return err
	}
	return &wire.ErrorDetail{Code: said.Code, Message: said.Message}
}

// ReadExit reads the frame that says how the session ended.
func ReadExit(data []byte) (pipe.Exit, error) {
	var exit pipe.Exit
	err := understand(data, &exit)
	return exit, err
}

func understand(data []byte, into any) error {
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("the node says something that this version does not understand: %w", err)
	}
	return nil
}

// Send sends a frame to the node. It waits while the node takes no more.
func (s *Session) Send(kind pipe.FrameKind, data []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return pipe.WriteFrame(s.Main, kind, data)
}

// SendJSON sends a frame that holds a value as JSON.
func (s *Session) SendJSON(kind pipe.FrameKind, value any) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return pipe.WriteJSON(s.Main, kind, value)
}

// Leave hangs up: the node hears that nobody is there any more, and ends what runs there. If that does not get through, because the node
// takes nothing more, Leave asks the gateway to end the session, unless the session is over. If that fails too, the session ends after
// wire.SessionBridge.
func (s *Session) Leave() {
	gone := time.AfterFunc(goodbye, s.Close)
	err := s.Main.CloseWrite()
	if gone.Stop() && (err == nil || isOver(err)) {
		s.Close()
		return
	}
	s.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.life), goodbye)
	defer cancel()
	_, _ = client.Send[api.Session](ctx, s.way.client, "DELETE", api.At(api.PathNodeSession, s.NodeID, s.ID), nil)
}

// isOver is true for the refusal that says that the session has ended.
func isOver(err error) bool {
	var said *wire.ErrorDetail
	return errors.As(err, &said) && said.Code == wire.CodeSessionOver
}

// Close ends this end at once. The gateway is told nothing.
func (s *Session) Close() { s.cut() }

// Over returns a channel that is closed when this end has ended.
func (s *Session) Over() <-chan struct{} { return s.life.Done() }

// WayWords puts an error that Trouble was called with into words for a person.
func WayWords(err error) string {
	if err == nil {
		return "connected again; nothing was lost"
	}
	return "the connection is lost and is tried again for a minute: " + err.Error()
}

// trouble makes one word of what all directions of all channels say.
func (s *Session) trouble(err error) {
	if tell := s.news(err); tell && s.Trouble != nil {
		s.Trouble(err)
	}
}

// news tells whether the state of the way is another one now than what was told last.
func (s *Session) news(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		back := s.told
		s.told = false
		s.broken = time.Time{}
		return back
	case s.broken.IsZero():
		s.broken = time.Now()
	}
	lost := !s.told && time.Since(s.broken) >= troubleTime
	s.told = s.told || lost
	return lost
}
