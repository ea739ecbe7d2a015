// Package transcript answers with what a task has written, byte for byte.
package transcript

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"muster/gateway/api"
	"muster/gateway/internal/reply"
)

// errGap ends an answer whose reader counts bytes.
var errGap = errors.New("what comes next is not kept")

// Writer sends what a task has written. If a task writes much, not everything is kept. For a person, a line stands for what is missing. For
// a program that counts bytes, an answer has no gap: its header says where it begins, and it ends where the next bytes are missing.
type Writer struct {
	To    http.ResponseWriter
	Next  int64 // offset of the next byte
	Exact bool  // it has no gap: its reader counts bytes
	Live  bool  // the reader waits for each piece
	begun bool
}

// Piece sends what the task has written at an offset. What the reader has already is left out.
func (w *Writer) Piece(offset int64, data []byte) error {
	if offset < w.Next {
		data = data[min(w.Next-offset, int64(len(data))):]
		offset = w.Next
	}
	if len(data) == 0 {
		return nil
	}
	missing := offset - w.Next
	switch {
	case missing > 0 && w.Exact && w.begun:
		return errGap
	case missing > 0 && w.Exact:
		w.Next = offset
		missing = 0
	}
	w.begin()
	if missing > 0 {
		if _, err := fmt.Fprintf(w.To, "\n[%d bytes are not kept]\n", missing); err != nil {
			return err
		}
	}
	w.Next = offset + int64(len(data))
	if _, err := w.To.Write(data); err != nil {
		return err
	}
	return w.flush()
}

// flush sends at once what a reader waits for. Between two pieces there is no deadline: the task may write nothing for hours.
func (w *Writer) flush() error {
	if !w.Live {
		return nil
	}
	control := http.NewResponseController(w.To)
	if err := control.Flush(); err != nil {
		return err
	}
	_ = control.SetWriteDeadline(time.Time{}) // a writer of a test has none
	return nil
}

// begin sends the header once.
func (w *Writer) begin() {
	if w.begun {
		return
	}
	w.begun = true
	reply.Begin(w.To, api.TaskOutputType+"; charset=utf-8").Set(api.HeaderTaskOffset, strconv.FormatInt(w.Next, 10))
	w.To.WriteHeader(http.StatusOK)
}

// End says how the answer ends. An answer that has begun and cannot go on is cut off, so that nobody takes it for whole.
func (w *Writer) End(err error) error {
	switch {
	case err == nil, errors.Is(err, errGap):
		w.begin()
		return nil
	case w.begun:
		panic(http.ErrAbortHandler)
	}
	return err
}
