package logs

import (
	"context"
	"encoding/json"
	"errors"
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
	// maxBacklog bounds what waits for the gateway, in bytes of JSON.
	maxBacklog = 1 << 20
)

// Serve is a session.logs. It writes a frame that says that it has begun, and then the lines, to the channel pipe.Main. The error is why it
// does not begin: nothing has been written then. Exit says how it ended; whoever called writes it.
//
// Where the gateway takes the lines too slowly, the source is read no further until it does.
func (h Host) Serve(ctx context.Context, main io.Writer, params *wire.LogsParams) (pipe.Exit, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r, err := h.Open(ctx, Ask{Source: params.Source, Since: params.Since, Follow: params.Follow})
	if err != nil {
		return pipe.Exit{}, err
	}
	defer r.Close()
	if err := pipe.WriteJSON(main, pipe.FrameReady, pipe.Ready{}); err != nil {
		return failed(err), nil
	}
	b := newBacklog()
	read := make(chan struct{})
	go func() {
		defer close(read)
		b.fill(ctx, r)
	}()
	release := closeLate(ctx, main)
	err = b.drain(ctx, main)
	release()
	cancel(err)
	<-read
	if err != nil {
		return failed(err), nil
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

func failed(err error) pipe.Exit { return pipe.Exit{Code: 1, Error: err.Error()} }

// backlog is what waits to be written. Who fills it waits where it is full.
type backlog struct {
	mu     sync.Mutex // guards all below
	rest   []byte     // of a line of which a part is written
	lines  [][]byte   // with their line breaks
	size   int        // bytes of lines
	ended  bool
	failed error
	news   chan struct{}
}

func newBacklog() *backlog { return &backlog{news: make(chan struct{})} }

// fill takes lines from a reader until its end.
func (b *backlog) fill(ctx context.Context, r *Reader) {
	for {
		l, err := r.Next(ctx)
		if err != nil {
			b.end(err)
			return
		}
		if err := b.put(ctx, l); err != nil {
			b.end(err)
			return
		}
	}
}

func (b *backlog) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	if !errors.Is(err, io.EOF) {
		b.failed = err
	}
	b.ring()
}

func (b *backlog) put(ctx context.Context, l wire.LogLine) error {
	raw, err := json.Marshal(l)
	if err != nil {
		return err
	}
	raw = append(raw, '\n')
	for {
		b.mu.Lock()
		if b.size+len(raw) <= maxBacklog || len(b.lines) == 0 {
			b.lines = append(b.lines, raw)
			b.size += len(raw)
			b.ring()
			b.mu.Unlock()
			return nil
		}
		news := b.news
		b.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (b *backlog) pop() []byte {
	first := b.lines[0]
	b.lines[0] = nil
	b.lines = b.lines[1:]
	b.size -= len(first)
	return first
}

// drain writes what is there until the end.
func (b *backlog) drain(ctx context.Context, to io.Writer) error {
	for {
		if err := b.wait(ctx); err != nil {
			return err
		}
		data, err := b.take()
		if err != nil {
			return err
		}
		if len(data) == 0 {
			return nil
		}
		if err := pipe.WriteFrame(to, pipe.FrameOutput, data); err != nil {
			return err
		}
	}
}

// wait waits for the first line, and then a little for further ones, or for the end.
func (b *backlog) wait(ctx context.Context) error {
	var gathered <-chan time.Time
	for {
		b.mu.Lock()
		some := len(b.rest) > 0 || len(b.lines) > 0
		full := b.ended || len(b.rest)+b.size >= pipe.MaxFrame
		news := b.news
		b.mu.Unlock()
		if full {
			return nil
		}
		if some && gathered == nil {
			gathered = time.After(gatherTime)
		}
		select {
		case <-news:
		case <-gathered:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// take is what the next frame holds. It is empty at the end; the error is why the source failed.
func (b *backlog) take() ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	data := b.rest
	for len(data) < pipe.MaxFrame && len(b.lines) > 0 {
		data = append(data, b.pop()...)
	}
	b.rest = nil
	if len(data) > pipe.MaxFrame {
		b.rest = data[pipe.MaxFrame:]
		data = data[:pipe.MaxFrame]
	}
	b.ring()
	if len(data) == 0 {
		return nil, b.failed
	}
	return data, nil
}

// ring wakes who waits. The lock is held.
func (b *backlog) ring() {
	close(b.news)
	b.news = make(chan struct{})
}
