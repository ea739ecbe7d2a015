package adminapi

import (
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"strconv"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/client"
	"muster/gateway/internal/door"
	"muster/store"
)

// errGap ends an answer whose reader counts bytes.
var errGap = errors.New("what comes next is not kept")

// taskOutput sends what a task has written, byte for byte. With follow it goes on until the task has ended.
//
// Not everything is kept of a task that writes much. Without from, for a person, a line stands for what is missing. With from, for a
// program that counts bytes, an answer has no gap: the header says where it begins, and it ends where the next bytes are missing.
func (s *server) taskOutput(c *call) (any, error) {
	p, err := c.query("follow", "from")
	if err != nil {
		return nil, err
	}
	follow, err := p.flag("follow")
	if err != nil {
		return nil, err
	}
	from, err := p.number("from", 0, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	t, err := c.task()
	if err != nil {
		return nil, err
	}
	out := &transcript{w: door.Patient(c.w), next: from, exact: p.has("from"), live: follow}
	if follow {
		err = s.Tasks.Follow(c.r.Context(), t, from, out.piece)
	} else {
		err = s.kept(c, t, out)
	}
	return out.end(err)
}

// kept sends the beginning and the end of what a task has written so far.
func (s *server) kept(c *call, t store.Task, out *transcript) error {
	log, err := s.Tasks.Log(c.r.Context(), t)
	if err == nil {
		err = out.piece(0, log.Head)
	}
	if err == nil {
		err = out.piece(log.Bytes-int64(len(log.Tail)), log.Tail)
	}
	return err
}

// transcript is an answer with what a task writes.
type transcript struct {
	w     http.ResponseWriter
	next  int64 // offset of the next byte
	exact bool  // it has no gap: its reader counts bytes
	live  bool  // the reader waits for each piece
	begun bool
}

// piece sends what the task has written at an offset. What the reader has already is left out.
func (t *transcript) piece(offset int64, data []byte) error {
	if offset < t.next {
		data = data[min(t.next-offset, int64(len(data))):]
		offset = t.next
	}
	if len(data) == 0 {
		return nil
	}
	missing := offset - t.next
	switch {
	case missing > 0 && t.exact && t.begun:
		return errGap
	case missing > 0 && t.exact:
		t.next = offset
		missing = 0
	}
	t.begin()
	if missing > 0 {
		if _, err := fmt.Fprintf(t.w, "\n[%d bytes are not kept]\n", missing); err != nil {
			return err
		}
	}
	t.next = offset + int64(len(data))
	if _, err := t.w.Write(data); err != nil {
		return err
	}
	return t.flush()
}

// flush sends at once what a reader waits for. Between two pieces there is no deadline: the task may write nothing for hours.
func (t *transcript) flush() error {
	if !t.live {
		return nil
	}
	control := http.NewResponseController(t.w)
	if err := control.Flush(); err != nil {
		return err
	}
	_ = control.SetWriteDeadline(time.Time{}) // a writer of a test has none
	return nil
}

// begin sends the header once.
func (t *transcript) begin() {
	if t.begun {
		return
	}
	t.begun = true
	h := t.w.Header()
	h.Set("Content-Type", client.TaskOutputType+"; charset=utf-8")
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set(client.HeaderTaskOffset, strconv.FormatInt(t.next, 10))
	t.w.WriteHeader(http.StatusOK)
}

// end says how the answer ends. What has begun and cannot go on is cut, so that nobody takes it for whole.
func (t *transcript) end(err error) (any, error) {
	switch {
	case err == nil, errors.Is(err, errGap):
		t.begin()
		return streamed{}, nil
	case t.begun:
		panic(http.ErrAbortHandler)
	}
	return nil, err
}

// taskArchive sends the file that a task has made.
func (s *server) taskArchive(c *call) (any, error) {
	if _, err := c.query(); err != nil {
		return nil, err
	}
	t, err := c.task()
	if err != nil {
		return nil, err
	}
	if t.Archive == nil {
		return nil, wire.Refuse(wire.CodeNotFound, "this task has made no file", "muster task show "+t.ID+" says how it went")
	}
	w := door.Patient(c.w)
	h := w.Header()
	h.Set("Content-Type", client.TaskArchiveType)
	h.Set("Content-Length", strconv.FormatInt(t.Archive.Size, 10))
	h.Set("Content-Disposition", attachment(t.Archive.Name))
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusOK)
	err = s.Tasks.Archive(c.r.Context(), t, func(data []byte) error {
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
