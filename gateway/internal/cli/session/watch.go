package session

import (
	"context"
	"errors"
	"fmt"
	"io"

	"muster/agent/pipe"
	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

func sessionWatch(ctx context.Context, s *cli.Session, o struct{ Raw bool }) error {
	raw := o.Raw
	in, out := s.Terminal()
	if out == nil && !raw {
		return cli.Usagef("--raw writes what the terminal there is sent", "this is no terminal to watch it on")
	}
	c, err := s.Client(ctx)
	if err != nil {
		return err
	}
	one, err := cli.Get[api.Session](ctx, s, api.At(api.PathSession, s.Words[0]), nil)
	if err != nil {
		return err
	}
	live, err := c.WatchSession(ctx, one.NodeID, one.ID)
	if err != nil {
		return err
	}
	defer live.Close()
	if raw {
		return watch(live, s.Stdout, func(text string) { s.Say(screen.Printable(text)) })
	}
	fmt.Fprintf(s.Stderr, "watching %s on %s; q leaves\n", screen.Printable(one.ID), screen.Printable(one.Node))
	err = perform(ctx, s, in, out, func(ctx context.Context, to io.Writer) error {
		defer context.AfterFunc(ctx, func() { live.Close() })()
		return watch(live, to, func(text string) { fmt.Fprintf(to, "\r\n%s\r\n", screen.Printable(text)) })
	})
	if errors.Is(err, errLeft) {
		return nil
	}
	if err == nil {
		s.Printf("the session has ended: muster session show %s\n", s.Words[0])
	}
	return err
}

// watch writes what frames show, until the session ends.
func watch(live io.Reader, to io.Writer, say func(string)) error {
	frames := pipe.NewFrames(live)
	for {
		kind, data, err := frames.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("the way to the gateway broke off, and the session may go on: %w", err)
		}
		switch kind {
		case pipe.FrameOutput:
			if _, err := to.Write(data); err != nil {
				return err
			}
		case pipe.FrameNotice:
			say(string(data))
		}
	}
}
