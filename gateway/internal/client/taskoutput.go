package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	"muster/agent/wire"
	"muster/gateway/api"
)

const (
	archiveTime = time.Hour // for the whole file to travel
	followTries = 30        // in a row without an answer, which is half a minute or more
)

// TaskOutput writes what is kept of a task's output to w. A line stands in the place of each part that was not kept.
func (c *Client) TaskOutput(ctx context.Context, id string, w io.Writer) error {
	response, err := c.long(ctx, outputPath(id), nil, api.TaskOutputType, requestTime)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(w, response.Body); err != nil {
		return fmt.Errorf("the output broke off: %w", err)
	}
	return nil
}

// FollowTask calls each with what a task writes from an offset on, in order, until the task has ended, and returns the ended task. If an
// offset is higher than expected, the bytes between were not kept. If the gateway restarts meanwhile, it is asked again. Each call holds a
// connection, of which the socket has few.
func (c *Client) FollowTask(ctx context.Context, id string, from int64, each func(offset int64, data []byte) error) (api.Task, error) {
	f := follower{client: c, id: id, next: from, each: each}
	for {
		task, err := f.step(ctx)
		switch {
		case f.final != nil:
			return api.Task{}, f.final
		case err != nil && !f.again(err):
			return api.Task{}, err
		case err == nil && task == nil:
			continue // what came may not be all
		case err == nil && wire.TaskEnded(task.Status):
			return *task, nil
		}
		if err := c.rest(ctx); err != nil {
			return api.Task{}, err
		}
	}
}

// TaskArchive writes the file that a task has made to w. It returns an error if the file does not have the digest that the task gave.
func (c *Client) TaskArchive(ctx context.Context, t api.Task, w io.Writer) error {
	if t.Archive == nil {
		return errors.New("the task made no file")
	}
	response, err := c.long(ctx, api.At(api.PathTaskArchive, t.ID), nil, api.TaskArchiveType, archiveTime)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, sum), response.Body)
	if err != nil {
		return fmt.Errorf("the file broke off: %w", err)
	}
	if n != t.Archive.Size || hex.EncodeToString(sum.Sum(nil)) != t.Archive.SHA256 {
		return errors.New("the file that came is not the one that the task made; try again")
	}
	return nil
}

// follower reads a task's output over as many answers as that takes. No answer has a gap in it: one ends before a gap, and the next one
// begins behind it.
type follower struct {
	client   *Client
	id       string
	next     int64 // offset of the next byte
	each     func(offset int64, data []byte) error
	final    error // what each gave, or an answer that cannot be read
	answered bool  // the gateway has answered at least once
	failures int   // in a row
}

// step reads one answer. If there was nothing in it there is nothing to wait for, and step gives the task as it is.
func (f *follower) step(ctx context.Context) (*api.Task, error) {
	began := f.next
	if err := f.read(ctx); err != nil || f.final != nil || f.next > began {
		return nil, err
	}
	task, err := Get[api.Task](ctx, f.client, api.At(api.PathTask, f.id), nil)
	return &task, err
}

func (f *follower) read(ctx context.Context) error {
	q := url.Values{"follow": {"true"}, "from": {strconv.FormatInt(f.next, 10)}}
	response, err := f.client.long(ctx, outputPath(f.id), q, api.TaskOutputType, 0)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	f.answered = true
	f.failures = 0
	offset, err := strconv.ParseInt(response.Header.Get(api.HeaderTaskOffset), 10, 64)
	if err != nil || offset < f.next {
		f.final = errors.New("the gateway's answer does not say where it begins; is the gateway of another version? Its path /version says")
		return nil
	}
	buffer := make([]byte, 32<<10)
	for {
		n, err := response.Body.Read(buffer)
		if n > 0 {
			f.final = f.each(offset, buffer[:n])
			offset += int64(n)
			f.next = offset
		}
		if f.final != nil || errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return &brokenOff{err}
		}
	}
}

// again tells whether to ask once more after an error. A refusal is final, except that of a gateway that is busy or stops.
func (f *follower) again(err error) bool {
	f.failures++
	var refusal *wire.ErrorDetail
	if errors.As(err, &refusal) {
		return refusal.Code == wire.CodeUnavailable && f.failures <= followTries
	}
	return f.answered && f.failures <= followTries
}

func outputPath(id string) string { return api.At(api.PathTaskOutput, id) }
