package adminapi

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"

	"muster/agent/wire"
	"muster/gateway/api"
	"muster/gateway/internal/adminapi/transcript"
	"muster/gateway/internal/httpserver"
	"muster/gateway/internal/reply"
	"muster/store"
)

// taskOutput sends what a task has written. With follow it goes on until the task has ended. A program that counts bytes gives from, and
// a person does not: transcript says what that changes.
func (c *call) taskOutput(f api.TaskOutputFilter) (any, error) {
	t, err := c.task()
	if err != nil {
		return nil, err
	}
	out := &transcript.Writer{To: httpserver.Patient(c.W), Exact: f.From != nil, Live: f.Follow}
	if out.Exact {
		out.Next = *f.From
	}
	if f.Follow {
		err = c.follow(t, out)
	} else {
		err = c.kept(t, out)
	}
	return streamed{}, out.End(err)
}

// follow sends what the task writes until it has ended, or until the caller may not call the route any more: a task may run for days.
func (c *call) follow(t store.Task, out *transcript.Writer) error {
	ctx, leave := c.admitted(nil)
	defer leave(nil)
	err := c.Tasks.Follow(ctx, t, out.Next, out.Piece)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// kept sends the beginning and the end of what a task has written so far.
func (c *call) kept(t store.Task, out *transcript.Writer) error {
	log, err := c.Tasks.Log(c.Context(), t)
	if err == nil {
		err = out.Piece(0, log.Head)
	}
	if err == nil {
		err = out.Piece(log.Bytes-int64(len(log.Tail)), log.Tail)
	}
	return err
}

// taskArchive sends the file that a task has made.
func (c *call) taskArchive() (any, error) {
	t, err := c.task()
	if err != nil {
		return nil, err
	}
	if t.Archive == nil {
		return nil, wire.Refuse(wire.CodeNotFound, "this task has made no file", "muster task show "+t.ID+" says how it went")
	}
	w := httpserver.Patient(c.W)
	h := reply.Begin(w, api.TaskArchiveType)
	h.Set("Content-Length", strconv.FormatInt(t.Archive.Size, 10))
	h.Set("Content-Disposition", attachment(t.Archive.Name))
	w.WriteHeader(http.StatusOK)
	err = c.Tasks.Archive(c.Context(), t, func(data []byte) error {
		_, err := w.Write(data)
		return err
	})
	if err != nil && !errors.Is(err, io.EOF) {
		panic(http.ErrAbortHandler)
	}
	return streamed{}, nil
}

// attachment makes a browser keep a file. A name that does not fit into a header is left out.
func attachment(name string) string {
	if with := mime.FormatMediaType("attachment", map[string]string{"filename": name}); with != "" {
		return with
	}
	return "attachment"
}
