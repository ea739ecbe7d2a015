package diag

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"time"

	"muster/agent/disk"
	"muster/agent/internal/logfile"
)

// pack is the archive while it is being written.
type pack struct {
	file   *os.File
	zip    *gzip.Writer
	tar    *tar.Writer
	base   string // the folder in the archive
	at     time.Time
	masker logfile.Masker
	left   int // bytes that still fit
	files  int
}

func newPack(file, base string, at time.Time, masker logfile.Masker) (*pack, error) {
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, explain(err)
	}
	zip := gzip.NewWriter(out)
	return &pack{file: out, zip: zip, tar: tar.NewWriter(zip), base: base, at: at, masker: masker, left: maxTotal}, nil
}

// add masks a text and writes its beginning. Masked first and cut afterwards: else a half of a secret could have lost what tells that it
// is one.
func (p *pack) add(name string, text []byte, limit int) (kept int, cut bool, err error) {
	text, err = p.masked(name, bytes.ToValidUTF8(text, []byte("?")))
	if err != nil {
		return 0, false, err
	}
	limit = max(min(limit, p.left), 0)
	if len(text) > limit {
		cut = true
		text = text[:limit]
		text = text[:bytes.LastIndexByte(text, '\n')+1]
	}
	return len(text), cut, p.write(name, text)
}

func (p *pack) masked(name string, text []byte) ([]byte, error) {
	if path.Ext(name) == ".json" {
		return p.masker.JSON(text)
	}
	return p.masker.Text(text), nil
}

// addJSON writes a file that the agent itself has made.
func (p *pack) addJSON(name string, value any) error {
	text, err := json.Marshal(value)
	if err == nil {
		text, err = p.masked(name, text)
	}
	if err != nil {
		return err
	}
	return p.write(name, text)
}

func (p *pack) write(name string, text []byte) error {
	p.left -= len(text)
	p.files++
	header := &tar.Header{Name: path.Join(p.base, name), Mode: 0o600, Size: int64(len(text)), ModTime: p.at, Format: tar.FormatPAX}
	if err := p.tar.WriteHeader(header); err != nil {
		return explain(err)
	}
	_, err := p.tar.Write(text)
	return explain(err)
}

func (p *pack) close() error {
	return explain(cmp.Or(p.tar.Close(), p.zip.Close(), p.file.Close()))
}

// explain adds the next step to an error of the archive.
func explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the archive cannot be written: %w", disk.Advise(err))
}
