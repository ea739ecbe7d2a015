package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/reply"
)

// Answer sends lines to a reader, a JSON object in each line.
type Answer struct {
	To    http.ResponseWriter // one that is patient
	Type  string              // Content-Type
	Now   func() time.Time
	begun bool
}

// Lines sends lines, and an empty line if there are none.
func (a *Answer) Lines(lines []wire.LogLine) error {
	a.begin()
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	for _, l := range lines {
		if err := encoder.Encode(l); err != nil {
			return err
		}
	}
	if len(lines) == 0 {
		text.WriteByte('\n')
	}
	if _, err := a.To.Write(text.Bytes()); err != nil {
		return err
	}
	control := http.NewResponseController(a.To)
	if err := control.Flush(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	_ = control.SetWriteDeadline(time.Time{}) // a writer of a test has none
	return nil
}

func (a *Answer) begin() {
	if a.begun {
		return
	}
	a.begun = true
	reply.Begin(a.To, a.Type).Set("X-Accel-Buffering", "no") // nginx would keep it back
	a.To.WriteHeader(http.StatusOK)
}

// End says how the reading ended. A refusal that comes late becomes the last line. After any other error the log goes on: the answer is cut
// off, so that the reader notices and comes again.
func (a *Answer) End(err error) error {
	var said *wire.ErrorDetail
	switch {
	case err == nil:
		a.begin()
		return nil
	case !a.begun:
		return err
	case errors.As(err, &said):
		if a.Lines([]wire.LogLine{notice(a.Now(), "error", said.Message+"; "+said.Hint)}) == nil {
			return nil
		}
	}
	panic(http.ErrAbortHandler)
}
