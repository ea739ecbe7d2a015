package httpserver

import (
	"errors"
	"io"
	"math"
	"net/http"
	"time"
)

const (
	patience  = 2 * time.Minute // for each piece of a long answer
	pieceSize = 16 << 10
	filePiece = 128 << 10 // of an answer that is copied
)

// Patient returns a writer for a long answer. The answer may take as long as the peer goes on taking it, because a slow line is no reason
// to break off. So each piece has a deadline, in place of the server's one for the whole answer. Conn notices a connection that takes
// nothing; this writer also notices an HTTP/2 stream that takes nothing on a connection that does.
func Patient(w http.ResponseWriter) http.ResponseWriter {
	return &patient{ResponseWriter: w, control: http.NewResponseController(w)}
}

type patient struct {
	http.ResponseWriter
	control *http.ResponseController
}

// Unwrap returns the writer below, for http.ResponseController.
func (p *patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// Write sends piece by piece, each with its own deadline.
func (p *patient) Write(text []byte) (n int, err error) {
	for {
		_ = p.control.SetWriteDeadline(time.Now().Add(patience)) // the kernel's clock; a writer of a test has none
		m, err := p.ResponseWriter.Write(text[n:min(n+pieceSize, len(text))])
		n += m
		if err != nil || n == len(text) {
			return n, err
		}
	}
}

// ReadFrom lets net/http copy by its own means, piece by piece, each with its own deadline. A piece is read from what an io.LimitedReader
// limits: net/http looks through one of them, and no further.
func (p *patient) ReadFrom(from io.Reader) (n int64, err error) {
	whole, ok := from.(*io.LimitedReader)
	if !ok {
		whole = &io.LimitedReader{R: from, N: math.MaxInt64}
	}
	for whole.N > 0 {
		_ = p.control.SetWriteDeadline(time.Now().Add(patience)) // the kernel's clock; a writer of a test has none
		m, err := io.CopyN(p.ResponseWriter, whole.R, min(filePiece, whole.N))
		n += m
		whole.N -= m
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
