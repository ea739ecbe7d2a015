package transport

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"muster/agent/sign"
)

// Download is an answer that goes to a writer as it comes, because it is too large for the memory. Its caller knows which content it is,
// and checks at the end that it has arrived whole.
//
// Nothing is written before the head of the answer proves that the gateway sends this content, or before the connection proves that it is
// the gateway. After a failure, another Download continues behind the bytes that were written. One Download is for one call.
type Download struct {
	To     io.Writer // gets an empty piece for bytes that it has
	Digest string    // SHA-256 of the whole content, in hex
	From   int64     // bytes of the content that the writer has

	open bool  // it comes from elsewhere, and nothing proves it
	skip int64 // bytes that come again, because the answer is the content as a whole
}

// ErrOtherContent means that the gateway provably sends another content than the Download's.
var ErrOtherContent = errors.New("the gateway gives another content than the one that was asked for")

// errKeep is wrapped by errors of the writer.
var errKeep = errors.New("keep what arrives")

// digest is the Content-Digest of the whole, which the proof of the answer covers also if the answer is a part.
func (d *Download) digest() string {
	sum, _ := hex.DecodeString(d.Digest)
	return sign.SumDigest(sum)
}

// ask makes a request ask only for the bytes that are missing.
func (d *Download) ask(header http.Header) {
	if d.From > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", d.From))
	}
}

// begin checks the head of an answer before its body is written: the body must be the whole content, or the part that was asked for.
func (d *Download) begin(a Answer) error {
	d.skip = 0 // of an answer before, which broke off
	switch {
	case d.open && a.page():
		return errors.New("a web page came instead of the content: something between answers, or the URL is that of a page")
	case a.Status == http.StatusOK:
		d.skip = d.From
	case !strings.HasPrefix(a.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", d.From)):
		return errors.New("the answer is not the part that was asked for")
	}
	return nil
}

// Write takes the next bytes of an answer. It is for the transport alone.
func (d *Download) Write(data []byte) (int, error) {
	known := min(d.skip, int64(len(data)))
	d.skip -= known
	n, err := d.To.Write(data[known:])
	d.From += int64(n)
	if err != nil {
		err = fmt.Errorf("%w: %w", errKeep, err)
	}
	return int(known) + n, err
}
