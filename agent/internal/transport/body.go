package transport

import (
	"bytes"
	"io"
)

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
func (l *loan) of(body []byte) io.Reader { return lent{bytes.NewReader(body), l} }

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
