package transport

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"

	"muster/agent/sign"
)

// Body is what a request carries. A request may have to be sent again, so the body is read from a source that gives the same
// bytes each time. The source must not change until the call has returned.
type Body struct {
	kind   string // its Content-Type
	from   io.ReaderAt
	offset int64
	size   int64
	digest string // its Content-Digest; empty: of data, which not every way needs
	data   []byte
}

// Bytes is a body that is in memory.
func Bytes(kind string, data []byte) *Body {
	return &Body{kind: kind, from: bytes.NewReader(data), size: int64(len(data)), data: data}
}

// Section is a body of size bytes of a file, from offset on. It is read once here, for its digest, and once more for each time
// that it is sent. It is never in memory as a whole. To go on where an upload broke off, send the section that is still missing.
func Section(kind string, from io.ReaderAt, offset, size int64) (*Body, error) {
	b := &Body{kind: kind, from: from, offset: offset, size: size}
	sum := sha256.New()
	read, err := io.Copy(sum, b.reader())
	switch {
	case err != nil:
		return nil, fmt.Errorf("read what is to be sent: %w", err)
	case read != size:
		return nil, fmt.Errorf("read what is to be sent: %d bytes are there, not %d: %w", read, size, io.ErrUnexpectedEOF)
	}
	b.digest = sign.SumDigest(sum.Sum(nil))
	return b, nil
}

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

// reader reads the body from its beginning. Readers of one body may be in use at the same time.
func (b *Body) reader() io.Reader {
	if b == nil {
		return bytes.NewReader(nil)
	}
	return io.NewSectionReader(b.from, b.offset, b.size)
}

// contentDigest is the Content-Digest to sign. A request without a body is signed like one with an empty body.
func (b *Body) contentDigest() string {
	switch {
	case b == nil:
		return sign.ContentDigest(nil)
	case b.digest == "":
		return sign.ContentDigest(b.data)
	}
	return b.digest
}
