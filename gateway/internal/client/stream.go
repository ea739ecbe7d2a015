package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"muster/gateway/api"
)

const (
	streamQuiet = 45 * time.Second // the gateway says something every 15 s, so one that is quiet for longer is lost
	streamLine  = 32 << 20         // bytes; one line may tell of many nodes
)

// Stream calls each with every change until ctx ends, each returns an error, or the gateway is lost; it returns why. It calls begun when
// the stream has begun. A caller who loads the fleet after that, and then takes what the stream tells, misses nothing.
func (c *Client) Stream(ctx context.Context, f api.StreamFilter, begun func() error, each func(kind string, data []byte) error) error {
	q, err := query(f)
	if err != nil {
		return err
	}
	return c.live(ctx, api.PathStream, q, api.StreamType, begun, func(from io.Reader, alive func()) error {
		return readStream(from,
			alive, each)
	})
}

// errQuiet is why an answer that goes on is given up.
var errQuiet = fmt.Errorf("nothing came for %v", streamQuiet)

// live has read read an answer that goes on. A gateway that says nothing for long is lost.
func (c *Client) live(ctx context.Context, path string, q url.Values, kind string, begun func() error,
	read func(from io.Reader, alive func()) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	response, err := c.long(ctx, path, q, kind, 0)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if err := begun(); err != nil {
		return err
	}
	watchdog := time.AfterFunc(streamQuiet, func() { cancel(errQuiet) })
	defer watchdog.Stop()
	err = read(response.Body, func() { watchdog.Reset(streamQuiet) })
	if errors.Is(context.Cause(ctx), errQuiet) {
		return &brokenOff{errQuiet}
	}
	return err
}

// readStream reads server-sent events, which have no end of their own. alive is called with every line.
func readStream(from io.Reader, alive func(), each func(kind string, data []byte) error) error {
	kind := ""
	err := readLines(from, alive, func(line string) error {
		switch name, value, _ := strings.Cut(line, ":"); name {
		case "event":
			kind = strings.TrimPrefix(value, " ")
		case "data":
			return each(kind, []byte(strings.TrimPrefix(value, " ")))
		}
		return nil
	})
	if err == nil {
		return &brokenOff{io.ErrUnexpectedEOF}
	}
	return err
}

func readLines(from io.Reader, alive func(), each func(line string) error) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, streamLine)
	for lines.Scan() {
		alive()
		if err := each(lines.Text()); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return &brokenOff{err}
	}
	return nil
}

// IsLost reports whether an error says that an answer of the gateway broke off, so that asking again may help.
func IsLost(err error) bool {
	var broken *brokenOff
	return errors.As(err, &broken)
}
