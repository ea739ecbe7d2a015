package logs

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"sync"
	"time"

	"muster/agent/pipe"
	"muster/agent/wire"
)

const (
	// gatherTime is how long lines wait for further ones, so that a busy log makes few frames.
	gatherTime = 5 * time.Millisecond
	// lastTime is for a write that goes on when the session is over. Then the channel is closed: the gateway takes nothing any more.
	lastTime = time.Second
)

// Serve serves a session.logs. It writes to the channel pipe.Main: first a frame that says that the session has begun, then the lines. An
// error says why the session does not begin: nothing has been written then. The caller writes the Exit, which says how it ended.
//
// If the gateway takes the lines too slowly, the source is read no further until it does.
func (h Host) Serve(ctx context.Context, main io.Writer, params *wire.LogsParams) (pipe.Exit, error) {
	r, err := h.Open(ctx, Ask{Source: params.Source, Since: params.Since, Follow: params.Follow})
	if err != nil {
		return pipe.Exit{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := pipe.WriteJSON(main, pipe.FrameReady, pipe.Ready{}); err != nil {
		cancel(err) // the reader gives back what it has opened
	}
	release := closeLate(ctx, main)
	err = copyLines(ctx, main, r)
	release()
	if err != nil {
		return pipe.Exit{Code: 1, Error: err.Error()}, nil
	}
	return pipe.Exit{}, nil
}

// closeLate closes a channel whose write goes on when ctx has been done for a while. release ends that.
func closeLate(ctx context.Context, main io.Writer) (release func()) {
	closer, ok := main.(io.Closer)
	if !ok {
		return func() {}
	}
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-over:
		case <-time.After(lastTime):
			closer.Close()
		}
	})
	return func() {
		stop()
		close(over)
	}
}

// copyLines writes the lines of a reader until its end. Lines that come soon after one another make one frame.
func copyLines(ctx context.Context, to io.Writer, r *Reader) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	g := gatherer{to: to, fail: cancel}
	err := r.Each(ctx, g.take)
	g.flush()
	return cmp.Or(err, context.Cause(ctx))
}

// gatherer makes frames of lines.
type gatherer struct {
	to   io.Writer
	fail context.CancelCauseFunc // told why nothing can be written

	mu   sync.Mutex // held while a frame is written, so that the source waits
	held []byte
}

// take takes a line. The first that is held waits for others no longer than gatherTime.
func (g *gatherer) take(line wire.LogLine, _ string) error {
	raw, err := json.Marshal(line)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.held) == 0 {
		time.AfterFunc(gatherTime, g.flush)
	}
	g.held = append(append(g.held, raw...), '\n')
	for len(g.held) >= pipe.MaxFrame {
		g.write()
	}
	return nil
}

// flush writes all that is held.
func (g *gatherer) flush() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.held) > 0 {
		g.write()
	}
}

// write writes one frame.
func (g *gatherer) write() {
	n := min(len(g.held), pipe.MaxFrame)
	if err := pipe.WriteFrame(g.to, pipe.FrameOutput, g.held[:n]); err != nil {
		g.fail(err)
	}
	g.held = g.held[:copy(g.held, g.held[n:])]
}
