package logs

import (
	"context"
	"encoding/json"
	"errors"
	"io"
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

// Serve is a session.logs. It writes a frame that says that it has begun, and then the lines, to the channel pipe.Main. The error is why it
// does not begin: nothing has been written then. Exit says how it ended; whoever called writes it.
//
// If the gateway takes the lines too slowly, the source is read no further until it does.
func (h Host) Serve(ctx context.Context, main io.Writer, params *wire.LogsParams) (pipe.Exit, error) {
	r, err := h.Open(ctx, Ask{Source: params.Source, Since: params.Since, Follow: params.Follow})
	if err != nil {
		return pipe.Exit{}, err
	}
	defer r.Close()
	if err := pipe.WriteJSON(main, pipe.FrameReady, pipe.Ready{}); err != nil {
		return failed(err), nil
	}
	release := closeLate(ctx, main)
	err = copyLines(ctx, main, r)
	release()
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

// copyLines writes the lines of a reader until its end. Lines that come soon after one another make one frame.
func copyLines(ctx context.Context, to io.Writer, r *Reader) error {
	var held []byte
	for {
		err := gather(ctx, r, &held)
		for len(held) >= pipe.MaxFrame || err != nil && len(held) > 0 {
			n := min(len(held), pipe.MaxFrame)
			if err := pipe.WriteFrame(to, pipe.FrameOutput, held[:n]); err != nil {
				return err
			}
			held = held[:copy(held, held[n:])]
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, errGathered):
			return err
		}
	}
}

// errGathered means that what is held has waited for further lines long enough.
var errGathered = errors.New("no further line came soon")

// gather appends lines until they fill a frame. The first one waits for others no longer than gatherTime.
func gather(ctx context.Context, r *Reader, held *[]byte) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for waits := false; len(*held) < pipe.MaxFrame; {
		if len(*held) > 0 && !waits {
			waits = true
			defer time.AfterFunc(gatherTime, func() { cancel(errGathered) }).Stop()
		}
		line, err := r.Next(ctx)
		if err != nil {
			return err
		}
		raw, err := json.Marshal(line)
		if err != nil {
			return err
		}
		*held = append(append(*held, raw...), '\n')
	}
	return nil
}
