package reply

// This file sends answers compressed to callers who read gzip.
//
// An answer must not be packed where it carries a secret beside a text that somebody else chose: its length would tell whether the two
// are alike, and so the secret, bit by bit (BREACH). So nothing is packed unless it is chosen, route by route. Pages with forms are not.

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
)

const (
	mostAtOnce = 8              // answers; each takes about 1 MiB while it is sent, and the others go as they are
	level      = gzip.BestSpeed // of answers: half the bytes more would take four times the processor's time

	encoding = "gzip"
)

// Packer compresses answers, as many at once as it has room for. It is safe for concurrent use.
type Packer struct {
	free chan *gzip.Writer // nil ones are not made yet
}

// NewPacker makes a Packer.
func NewPacker() *Packer {
	p := &Packer{free: make(chan *gzip.Writer, mostAtOnce)}
	for range mostAtOnce {
		p.free <- nil
	}
	return p
}

// Handler has next answer, and compresses its answers with status 200.
func (p *Packer) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept-Encoding")
		if !TakesGzip(r) {
			next.ServeHTTP(w, r)
			return
		}
		select {
		case z := <-p.free:
			out := &writer{ResponseWriter: w, z: z}
			defer func() { p.free <- out.z }()
			next.ServeHTTP(out, r)
			out.close() // not where the handler panics: what was cut must not look whole
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// writer packs an answer.
type writer struct {
	http.ResponseWriter
	z     *gzip.Writer
	begun bool
	packs bool
}

// Unwrap returns the writer below, for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *writer) WriteHeader(status int) {
	if !w.begun && status == http.StatusOK {
		w.packs = true
		if w.z == nil {
			w.z, _ = gzip.NewWriterLevel(nil, level) // the level is one that there is
		}
		w.z.Reset(w.ResponseWriter)
		w.Header().Set("Content-Encoding", encoding)
		w.Header().Del("Content-Length")
	}
	w.begun = true
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(text []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	if w.packs {
		return w.z.Write(text)
	}
	return w.ResponseWriter.Write(text)
}

// FlushError sends what was written so far.
func (w *writer) FlushError() error {
	if w.packs {
		if err := w.z.Flush(); err != nil {
			return err
		}
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// close writes the end. A peer that is gone is no error here: the handler has seen it.
func (w *writer) close() {
	if w.packs {
		_ = w.z.Close()
	}
}

// File is a file that is sent plain or compressed.
type File struct {
	Plain, Packed []byte
	Tag           string // of the plain one, in quotation marks
}

// FileOf compresses a file. tag names its contents.
func FileOf(text []byte, tag string) File {
	var packed bytes.Buffer
	z, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	_, _ = z.Write(text) // a buffer takes everything
	_ = z.Close()
	return File{text, packed.Bytes(), `"` + tag + `"`}
}

// Choose returns the form that the caller reads, and sets the headers for it: each form has a tag of its own.
func (f File) Choose(w http.ResponseWriter, r *http.Request) []byte {
	h := w.Header()
	h.Add("Vary", "Accept-Encoding")
	h.Set("ETag", f.Tag)
	if !TakesGzip(r) || len(f.Packed) >= len(f.Plain) {
		return f.Plain
	}
	h.Set("Content-Encoding", encoding)
	h.Set("ETag", strings.TrimSuffix(f.Tag, `"`)+`-gzip"`)
	return f.Packed
}
