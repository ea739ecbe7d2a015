package transport

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strings"

	"muster/agent/sign"
)

// Download is an answer that goes to a writer as it comes, because it is too large for the memory.
//
// Until a call with it has returned nil, nothing that was written is proven: it may come from anybody. After nil all of it is proven,
// also if it took several calls. If a call fails, the next call with the same Download goes on where it broke off, also under
// another identity of the node. Only after an error that wraps ErrVoid it cannot go on: then begin anew with an empty writer and a new
// Download. One Download is for one call at a time.
type Download struct {
	To   io.Writer
	Most int64 // bytes of the whole; a larger answer is an error

	sum  hash.Hash // of all bytes so far
	got  int64     // how many they are
	tag  string    // the strong ETag of the content that they begin
	void error     // why it cannot go on; nil: it can

	signed bool // a part came to a signed request: only a signature over the whole proves that part

	open bool  // it comes from elsewhere, and nothing proves it
	skip int64 // bytes that come again, because such a server gives the content as a whole
}

// ErrVoid is wrapped by errors after which the bytes that a Download has written are of no use.
var ErrVoid = errors.New("what has arrived so far is of no use: begin anew")

// Size is how many bytes were written.
func (d *Download) Size() int64 { return d.got }

// ask makes a request ask only for the bytes that are missing. If-Range makes the gateway send everything where the content has changed.
func (d *Download) ask(header http.Header) error {
	switch {
	case d.void != nil:
		return d.void
	case d.got == 0:
		return nil
	case d.tag == "":
		return d.spoilt(errors.New("the answer broke off, and nothing tells its content from another one"))
	}
	header.Set("Range", fmt.Sprintf("bytes=%d-", d.got))
	header.Set("If-Range", d.tag)
	return nil
}

// needsSignature reports whether the connection alone does not prove the whole: what is here may come from anyone.
func (d *Download) needsSignature() bool { return d != nil && d.signed }

// begin checks the head of an answer before its body is written: the body must be the whole content, or the part that was asked for.
// signed: its request was.
func (d *Download) begin(a Answer, signed bool) error {
	if d.open {
		return d.beginOpen(a)
	}
	tag := a.Header.Get("ETag")
	if strings.HasPrefix(tag, "W/") {
		tag = ""
	}
	whole := a.Status == http.StatusOK
	switch {
	case whole && d.got > 0:
		return d.spoilt(errors.New("the content is another one since it broke off"))
	case !whole && (d.got == 0 || tag != d.tag || !strings.HasPrefix(a.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", d.got))):
		return d.spoilt(errors.New("the answer is not the part that was asked for"))
	case whole:
		d.sum = sha256.New()
		d.tag = tag
	}
	d.signed = d.signed || signed
	return nil
}

// Write takes the next bytes of an answer. It is for the transport alone.
func (d *Download) Write(data []byte) (int, error) {
	if known := min(d.skip, int64(len(data))); known > 0 {
		d.skip -= known
		if _, err := d.To.Write(nil); err != nil { // what the writer has already comes again, and yet it comes
			return 0, err
		}
		n, err := d.Write(data[known:])
		return int(known) + n, err
	}
	if d.got+int64(len(data)) > d.Most {
		return 0, d.spoilt(fmt.Errorf("it is larger than %d bytes: %w", d.Most, errTooLarge))
	}
	if _, err := d.To.Write(data); err != nil {
		return 0, d.spoilt(fmt.Errorf("keep what arrives: %w", err))
	}
	d.sum.Write(data)
	d.got += int64(len(data))
	return len(data), nil
}

// spoilt ends the download for good.
func (d *Download) spoilt(err error) error {
	d.void = fmt.Errorf("%w: %w", ErrVoid, err)
	return d.void
}

// digest is the Content-Digest of all that was written.
func (d *Download) digest() string { return sign.SumDigest(d.sum.Sum(nil)) }

// whole reports whether the content is complete with this answer. A server may send a smaller part than was asked for.
func (d *Download) whole(a Answer) bool {
	_, total, ok := strings.Cut(a.Header.Get("Content-Range"), "/")
	return a.Status == http.StatusOK || !ok || total == "*" || total == fmt.Sprint(d.got)
}

// Resume makes a new Download go on behind what an earlier process has kept of the same content. tag is the content's strong ETag. Nothing
// of what was kept counts as proven before the end.
func (d *Download) Resume(kept io.Reader, tag string) error {
	sum := sha256.New()
	size, err := io.Copy(sum, kept)
	if err != nil {
		return err
	}
	d.sum = sum
	d.got = size
	d.tag = tag
	d.signed = true
	return nil
}

// beginOpen is begin for what comes from elsewhere.
func (d *Download) beginOpen(a Answer) error {
	d.sum = sha256.New()
	switch {
	case a.page():
		return errors.New("a web page came instead of the content: something between answers, or the URL is that of a page")
	case a.Status == http.StatusOK:
		d.skip = d.got
	case !strings.HasPrefix(a.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", d.got)):
		return errors.New("the answer is not the part that was asked for")
	}
	return nil
}
