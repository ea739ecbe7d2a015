package archive

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// magic begins a database that stands without an archive.
const magic = "SQLite format 3\x00"

// IsDatabase reports, by the first bytes, whether a backup is the database alone. It moves on in the file.
func IsDatabase(file io.Reader) bool {
	var head [len(magic)]byte
	_, err := io.ReadFull(file, head[:])
	return err == nil && string(head[:]) == magic
}

// Visitor has the functions that Read calls with what it finds. Each function may leave content unread. The content is verified only when
// Read has returned nil. Only a blob that the function Blob has read to its end without an error is verified before that.
type Visitor struct {
	Database func(size int64, content io.Reader) error
	Blob     func(b Blob, content io.Reader) error
	Missing  func(digests, needed []string) // some of the blobs that it lacks, and some of what needs them; see Summary.Lacks
}

// Read reads an archive to its end and verifies all of it. A function of the visitor may be nil: it is not called.
func Read(from io.Reader, v Visitor) (Summary, error) {
	r := &reader{tar: tar.NewReader(from), visitor: v}
	err := r.read()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("it is cut off")
	}
	return r.summary, err
}

type reader struct {
	tar     *tar.Reader
	visitor Visitor
	summary Summary
	before  string // the name of the last blob's entry
}

func (r *reader) read() error {
	if err := r.database(); err != nil {
		return err
	}
	for {
		header, err := r.tar.Next()
		switch {
		case errors.Is(err, tar.ErrHeader):
			return errors.New("it is damaged: there is something else than an entry in it")
		case err != nil:
			return err
		case header.Typeflag != tar.TypeReg:
			return fmt.Errorf("it is no backup: %.200q is no file", header.Name)
		case header.Name == end:
			return r.end(header.Size)
		}
		if err := r.blob(header); err != nil {
			return err
		}
	}
}

func (r *reader) database() error {
	header, err := r.tar.Next()
	if errors.Is(err, tar.ErrHeader) || err == nil && (header.Name != database || header.Typeflag != tar.TypeReg) {
		return errors.New("muster backup did not make it")
	}
	if err != nil {
		return err
	}
	sum := sha256.New()
	content := io.TeeReader(r.tar, sum)
	if r.visitor.Database != nil {
		if err := r.visitor.Database(header.Size, content); err != nil {
			return err
		}
	}
	_, err = io.Copy(io.Discard, content)
	r.summary.Database = header.Size
	r.summary.DatabaseDigest = "sha256:" + hex.EncodeToString(sum.Sum(nil))
	return err
}

// blob reads a blob. They stand in order, so none comes twice.
func (r *reader) blob(header *tar.Header) error {
	digest := strings.Replace(strings.TrimPrefix(header.Name, blobs), "/", ":", 1)
	name, sum, err := named(digest)
	if err != nil || name != header.Name || name <= r.before {
		return fmt.Errorf("it is no backup: %.200q does not belong there", header.Name)
	}
	r.before = name
	b := Blob{digest, header.Size}
	content := &checked{from: io.TeeReader(r.tar, sum), fits: func() bool { return fits(digest, sum) }, digest: digest}
	if r.visitor.Blob != nil {
		if err := r.visitor.Blob(b, content); err != nil {
			return err
		}
	}
	if _, err := io.Copy(io.Discard, content); err != nil {
		return err
	}
	r.summary.Blobs++
	r.summary.Bytes += b.Size
	return nil
}

// checked ends with an error instead of io.EOF where the bytes are not what their digest says.
type checked struct {
	from   io.Reader
	fits   func() bool
	digest string
}

func (c *checked) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	if err == io.EOF && !c.fits() {
		err = fmt.Errorf("the blob %s in it is damaged", c.digest)
	}
	return n, err
}

// end compares what came with what the last entry says.
func (r *reader) end(size int64) error {
	if size > maxEnd {
		return errors.New("it is damaged: its end is too long")
	}
	text, err := io.ReadAll(r.tar)
	if err != nil {
		return err
	}
	var l last
	if err := json.Unmarshal(text, &l); err != nil {
		return fmt.Errorf("it is damaged: its end cannot be read: %w", err)
	}
	if l.Failed != "" {
		return fmt.Errorf("the gateway could not go on: %.300q", l.Failed)
	}
	r.summary.Lacks = l.Lacks
	if l.Summary != r.summary || l.Lacks < len(l.Missing) {
		return errors.New("it is damaged: it does not hold what its end says")
	}
	for _, digest := range l.Missing {
		if _, _, err := named(digest); err != nil {
			return fmt.Errorf("it is damaged: %w", err)
		}
	}
	if r.visitor.Missing != nil && l.Lacks > 0 {
		r.visitor.Missing(l.Missing, l.Needed)
	}
	return nil
}
