package transport

import (
	"bytes"
	"io"
)

// Body is what a request carries. Its bytes must not change until the call has returned.
type Body struct {
	kind string // its Content-Type
	data []byte
}

// Bytes is a body of this Content-Type.
func Bytes(kind string, data []byte) *Body { return &Body{kind, data} }

// loan is the time in which a body may be read. Who sends it does not always know when the call has ended: net/http goes on reading
// after an early answer, and so does what feeds curl.
type loan struct{ free chan struct{} } // holds one while nobody reads, and none any more when it is over

func newLoan() *loan {
	l := &loan{make(chan struct{}, 1)}
	l.free <- struct{}{}
	return l
}

// end waits for a read that is under way. No other one begins.
func (l *loan) end() {
	<-l.free
	close(l.free)
}

// of reads a body from its beginning, while the loan lasts. Readers of one body may be in use at the same time.
func (l *loan) of(b *Body) io.Reader { return lent{bytes.NewReader(b.bytes()), l} }

// lent is a body while it is on loan.
type lent struct {
	from io.Reader
	loan *loan
}

func (r lent) Read(data []byte) (int, error) {
	if _, on := <-r.loan.free; !on {
		return 0, io.ErrClosedPipe
	}
	defer func() { r.loan.free <- struct{}{} }()
	return r.from.Read(data)
}

// bytes are those to send and to sign. A request without a body is signed like one with an empty body.
func (b *Body) bytes() []byte {
	if b == nil {
		return nil
	}
	return b.data
}
