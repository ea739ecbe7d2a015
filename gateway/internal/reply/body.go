package reply

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"muster/agent/wire"
)

// ReadBody reads a request's whole body: at most limit bytes, all of them within the given time (0: no bound of its own).
// The error is a *wire.ErrorDetail: body_too_large, slow_body, or bad_request for a body that broke off. After the first two the
// connection is closed when the answer is out, because the rest of the body may still be on its way.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64, within time.Duration) ([]byte, error) {
	if r.ContentLength > limit {
		w.Header().Set("Connection", "close")
		return nil, tooLarge(limit)
	}
	control := http.NewResponseController(w)
	if within > 0 && control.SetReadDeadline(time.Now().Add(within)) == nil { // by the kernel's clock: a socket knows no other
		defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	}
	body, err := readAll(http.MaxBytesReader(w, r.Body, limit), r.ContentLength)
	var large *http.MaxBytesError
	switch {
	case err == nil:
		return body, nil
	case errors.As(err, &large):
		return nil, tooLarge(limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		return nil, wire.Refuse(wire.CodeSlowBody, fmt.Sprintf("the body did not arrive within %s", within),
			"check the network between here and the gateway, then send it again")
	}
	return nil, wire.Refuse(wire.CodeBadRequest, "the body broke off before its end", "send it again")
}

// readAll is io.ReadAll for a body whose length is announced. A body of a usual size is read into one buffer. The first buffer is never
// larger than that, because anyone can announce any length.
func readAll(from io.Reader, announced int64) ([]byte, error) {
	const usual = 16 << 10
	size := min(max(announced, 0), usual) + bytes.MinRead
	b := bytes.NewBuffer(make([]byte, 0, size))
	_, err := b.ReadFrom(from)
	return b.Bytes(), err
}

func tooLarge(limit int64) error {
	return wire.Refuse(wire.CodeBodyTooLarge, fmt.Sprintf("the body is larger than %d bytes", limit),
		"send less in one request")
}
