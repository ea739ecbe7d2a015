package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
	"muster/gateway/internal/client"
	"muster/gateway/internal/session/asciicast"
)

const (
	usualPause = 2 * time.Second // the longest between two outputs
	fastest    = 1000
)

// pace says how fast a recording is played.
type pace struct {
	speed float64
	pause time.Duration // the longest; 0: as it was
}

func paceOf(s *cli.Session, text, idle string) (p pace, err error) {
	p.speed = 1
	if text != "" {
		p.speed, err = strconv.ParseFloat(text, 64)
		if err != nil || !(p.speed > 0 && p.speed <= fastest) {
			return p, cli.Usagef("write a number such as 2 or 0.5", "--speed %q is no speed", text)
		}
	}
	if idle == "0" {
		return p, nil
	}
	longest := struct{ IdleLimit time.Duration }{usualPause}
	err = s.Flags.Into(&longest)
	p.pause = longest.IdleLimit
	return p, err
}

// wait is how long the player waits where so much time passed in the recording.
func (p pace) wait(passed time.Duration) time.Duration {
	wait := time.Duration(float64(passed) / p.speed)
	if p.pause > 0 {
		wait = min(wait, p.pause)
	}
	return wait
}

func sessionPlay(ctx context.Context, s *cli.Session, o struct {
	Speed, IdleLimit, To string
	Raw                  bool
}) error {
	p, err := paceOf(s, o.Speed, o.IdleLimit)
	in, out := s.Terminal()
	switch {
	case err != nil:
		return err
	case o.To != "" && o.Raw:
		return cli.Usagef("leave one of them out", "--to and --raw exclude each other")
	case o.To == "" && !o.Raw && out == nil:
		return cli.Usagef("--to FILE keeps the recording, and --raw writes what the terminal was sent", "this is no terminal to play it on")
	}
	c, err := s.Client(ctx)
	if err != nil {
		return err
	}
	if o.To != "" {
		return keep(ctx, s, c, o.To)
	}
	cast, err := os.CreateTemp("", "muster-*.cast") // it is played slower than the gateway waits
	if err != nil {
		return err
	}
	defer cast.Close()
	if err := os.Remove(cast.Name()); err != nil {
		return err
	}
	state, err := c.Recording(ctx, s.Words[0], cast)
	if err != nil {
		return err
	}
	if _, err := cast.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if o.Raw {
		err = pour(cast, s.Stdout)
	} else {
		err = perform(ctx, s, in, out, func(ctx context.Context, to io.Writer) error { return p.play(ctx, s, cast, to) })
	}
	switch {
	case errors.Is(err, errLeft):
		return nil
	case err != nil:
		return err
	}
	return verdict(s, state)
}

// keep writes the recording into a file that is not there yet.
func keep(ctx context.Context, s *cli.Session, c *client.Client, name string) error {
	if name == "-" {
		state, err := c.Recording(ctx, s.Words[0], s.Stdout)
		if err != nil {
			return err
		}
		return verdict(s, state)
	}
	to, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s is there already and is left as it is; name another file", name)
	}
	if err != nil {
		return err
	}
	state, err := c.Recording(ctx, s.Words[0], to)
	if err := errors.Join(err, to.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	fmt.Fprintf(s.Stderr, "%s has the recording, readable for anybody who may read the file\n", screen.Printable(name))
	return verdict(s, state)
}

// verdict is the error of a recording that is not all there.
func verdict(s *cli.Session, state string) error {
	switch state {
	case api.RecordingComplete, "":
		return nil
	case api.RecordingLive:
		fmt.Fprintf(s.Stderr, "the session goes on: %s\n", s.Pasted("session watch "+s.Words[0]))
		return nil
	case api.RecordingCutOff:
		return cli.Hinted("the end of the recording is missing", "the gateway was killed or its disk was full, or somebody has cut the "+
			"file off: "+s.Pasted("session show "+s.Words[0])+" says how the session ended")
	case api.RecordingDamaged:
		return cli.Hinted("the recording is damaged: the file is not as it was written, and what comes after that place is left out",
			"the disk has damaged it, somebody has changed it, or it is of a gateway with another database")
	}
	return fmt.Errorf("the recording is %s; is the gateway of another version?", screen.Printable(state))
}

// pour writes what the terminal was sent, without the time between.
func pour(cast io.Reader, to io.Writer) error {
	d, _, err := asciicast.NewDecoder(cast)
	for err == nil {
		var e asciicast.Event
		e, err = d.Next()
		if err == nil && e.Kind == asciicast.Output {
			_, err = io.WriteString(to, e.Data)
		}
	}
	return unlessEnd(err)
}

func unlessEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// play writes each output when its time has come.
func (p pace) play(ctx context.Context, s *cli.Session, cast io.Reader, to io.Writer) error {
	d, _, err := asciicast.NewDecoder(cast)
	last := time.Duration(0)
	for err == nil {
		var e asciicast.Event
		if e, err = d.Next(); err != nil {
			break
		}
		if err = s.Pause(ctx, p.wait(e.At-last)); err != nil {
			break
		}
		last = e.At
		if e.Kind == asciicast.Output {
			_, err = io.WriteString(to, e.Data)
		}
	}
	return unlessEnd(err)
}
