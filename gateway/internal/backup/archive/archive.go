// Package archive is the form of a backup that has the registry: one tar archive of the database and of every blob that it names. It is
// written and read as a stream, so it needs no memory for its content. Read verifies what it reads.
//
//	muster.db                       the database
//	registry/blobs/<alg>/<hex>      a blob; they come in the order of their digests
//	backup.json                     the end: what came before, in numbers, or why there is no more
//
// A backup without the registry is the database alone, without any archive around it.
package archive

import (
	"archive/tar"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
	"time"
)

// Names in an archive.
const (
	database = "muster.db"
	blobs    = "registry/blobs/"
	end      = "backup.json"
)

// maxEnd bounds the last entry, which is read whole.
const maxEnd = 4 << 10

// Summary says what an archive has.
type Summary struct {
	Database       int64  `json:"database_size"` // bytes
	DatabaseDigest string `json:"database"`      // sha256:<hex>
	Blobs          int    `json:"blobs"`
	Bytes          int64  `json:"blob_bytes"`
	Lacks          int    `json:"lacks,omitempty"` // blobs that the database names and the gateway's disk has lost or damaged
}

// last is the last entry.
type last struct {
	Summary
	Missing []string `json:"missing,omitempty"` // digests of some of those that it lacks
	Needed  []string `json:"needed,omitempty"`  // some of what needs them, for a person
	Failed  string   `json:"failed,omitempty"`  // why the gateway could not go on
}

// Bounds of the last entry, so that it is never longer than maxEnd, whatever has to be escaped in it.
const (
	mostMissing = 20  // of the blobs that an archive lacks are named
	mostNeeded  = 3   // of what needs them is named
	mostText    = 400 // bytes of a reason; an eighth of it for what needs a blob
)

// Blob is what an archive says of one blob.
type Blob struct {
	Digest string // sha256:<hex> or sha512:<hex>
	Size   int64
}

// Writer writes an archive. The caller calls Database first, then Add for each blob, then Close or Fail.
type Writer struct {
	tar     *tar.Writer
	at      time.Time
	summary Summary
	missing []string // the first of those that it lacks
	needed  []string // the first of what needs them
	broken  bool     // no further entry can be written
}

// NewWriter begins an archive that is made at this time.
func NewWriter(w io.Writer, at time.Time) *Writer { return &Writer{tar: tar.NewWriter(w), at: at} }

// Database writes the database.
func (w *Writer) Database(size int64, content io.Reader) error {
	sum := sha256.New()
	w.summary.Database = size
	if err := w.entry(database, size, io.TeeReader(content, sum)); err != nil {
		return err
	}
	w.summary.DatabaseDigest = "sha256:" + hex.EncodeToString(sum.Sum(nil))
	return nil
}

// Add writes a blob, and verifies it.
func (w *Writer) Add(b Blob, content io.Reader) error {
	name, sum, err := named(b.Digest)
	if err != nil {
		return err
	}
	if err := w.entry(name, b.Size, io.TeeReader(content, sum)); err != nil {
		return fmt.Errorf("the blob %s: %w", b.Digest, err)
	}
	if !fits(b.Digest, sum) {
		return fmt.Errorf("the blob %s is damaged on the gateway's disk", b.Digest)
	}
	w.summary.Blobs++
	w.summary.Bytes += b.Size
	return nil
}

// Lack notes a blob that the gateway's disk has lost or damaged, and the names of what needs it. The archive is good without the blob, and
// says so at its end.
func (w *Writer) Lack(digest string, needed ...string) {
	w.summary.Lacks++
	if len(w.missing) < mostMissing {
		w.missing = append(w.missing, digest)
	}
	for _, text := range needed {
		if text = short(text, mostText/8); len(w.needed) < mostNeeded && !slices.Contains(w.needed, text) {
			w.needed = append(w.needed, text)
		}
	}
}

// Missing returns what the archive lacks: how many blobs, the first of them, and the first of what needs them.
func (w *Writer) Missing() (count int, some, needed []string) {
	return w.summary.Lacks, w.missing, w.needed
}

// short is the beginning of a text, of at most so many bytes.
func short(text string, most int) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

func (w *Writer) entry(name string, size int64, content io.Reader) error {
	if err := w.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, ModTime: w.at}); err != nil {
		return err
	}
	n, err := io.Copy(w.tar, io.LimitReader(content, size))
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	w.broken = w.broken || n != size
	return err
}

// Close writes the end of a whole archive.
func (w *Writer) Close() error {
	return w.end(last{Summary: w.summary, Missing: w.missing, Needed: w.needed})
}

// Fail ends an archive that could not be made whole. If it can still write, it writes why, for whoever reads the archive.
func (w *Writer) Fail(why error) error {
	if w.broken {
		return why
	}
	return errors.Join(why, w.end(last{Failed: short(why.Error(), mostText)}))
}

func (w *Writer) end(l last) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return errors.Join(w.entry(end, int64(len(text)), strings.NewReader(string(text))), w.tar.Close())
}

// named gives the name of a blob's entry, and the hash that it has to have.
func named(digest string) (name string, sum hash.Hash, err error) {
	algorithm, digits, _ := strings.Cut(digest, ":")
	switch algorithm {
	case "sha256":
		sum = sha256.New()
	case "sha512":
		sum = sha512.New()
	default:
		return "", nil, fmt.Errorf("%.80q is no digest", digest)
	}
	if raw, err := hex.DecodeString(digits); err != nil || len(raw) != sum.Size() || digits != strings.ToLower(digits) {
		return "", nil, fmt.Errorf("%.80q is no digest", digest)
	}
	return blobs + algorithm + "/" + digits, sum, nil
}

func fits(digest string, sum hash.Hash) bool {
	_, digits, _ := strings.Cut(digest, ":")
	return hex.EncodeToString(sum.Sum(nil)) == digits
}
