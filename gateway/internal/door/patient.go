package door

import (
	"net/http"
	"time"
)

const (
	patience  = 2 * time.Minute // for each piece of a long answer
	pieceSize = 16 << 10
)

// Patient gives a writer for a long answer, which may take as long as it goes on: a slow line is no reason to break off. It is
// used instead of the server's deadline for the whole. What a connection as a whole does not take is Conn's to notice; of an
// HTTP/2 stream whose peer gives it no room this one does.
func Patient(w http.ResponseWriter) http.ResponseWriter {
	return &patient{ResponseWriter: w, control: http.NewResponseController(w)}
}

type patient struct {
	http.ResponseWriter
	control *http.ResponseController
}

// Unwrap is for http.ResponseController.
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
