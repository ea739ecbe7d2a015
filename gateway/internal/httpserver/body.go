package httpserver

import (
	"io"
	"net/http"
	"time"
)

// PatientBody returns a request's body that may take as long as the peer goes on sending it: at least Limits.Least bytes in each
// Limits.Stall. A large upload over a slow line would never end within the deadline that Handler sets for a whole body. Only the time
// counts in which the gateway waits for the peer, not the time in which it stores bytes. The answer has its time when the body has ended.
func PatientBody(w http.ResponseWriter, r *http.Request) io.Reader {
	c := connOf(r.Context())
	if c == nil || r.Body == nil || r.Body == http.NoBody {
		return r.Body
	}
	b := &patientBody{body: r.Body, control: http.NewResponseController(w), limits: c.limiter.limits, left: c.limiter.limits.Stall}
	_ = b.control.SetWriteDeadline(time.Time{}) // a writer of a test has none, and so below
	return b
}

type patientBody struct {
	body    io.Reader
	control *http.ResponseController
	limits  Limits
	left    time.Duration // of the Stall that has begun
	got     int           // bytes in it
}

// Read waits for the peer for as long as is left. There is no deadline between two reads: HTTP/2 would break the body off for it.
func (b *patientBody) Read(p []byte) (int, error) {
	began := time.Now()
	_ = b.control.SetReadDeadline(began.Add(b.left)) // the kernel's clock
	n, err := b.body.Read(p)
	if err != nil {
		_ = b.control.SetWriteDeadline(time.Now().Add(patience))
		return n, err
	}
	_ = b.control.SetReadDeadline(time.Time{})
	b.left -= time.Since(began)
	if b.got += n; b.got >= b.limits.Least {
		b.got = 0
		b.left = b.limits.Stall
	}
	return n, nil
}
