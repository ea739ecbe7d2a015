package recording

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"muster/agent/wire"
	"muster/gateway/api"
)

// Play is a recording that can be read. Everything that it returns was verified when it was opened.
type Play struct {
	State string // whether all of it is there, as api.RecordingComplete
	Bytes int64  // that WriteTo writes
	Why   error  // what is wrong with it; nil: nothing

	store  *Store
	id     string
	file   *os.File
	parts  int   // of the file that are good
	length int64 // of the file that counts
}

// Find opens the recording of a session. The caller closes it. The error is a refusal if there is none.
func (s *Store) Find(id string) (*Play, error) {
	path, err := s.path(id)
	if err != nil {
		return nil, err
	}
	tape := s.tape(id)
	if tape != nil {
		tape.sync()
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, wire.Refuse(wire.CodeNotFound, "there is no recording of this session",
			"shells alone are recorded, and a recording is deleted after a time: muster help sessions")
	}
	if err != nil {
		return nil, err
	}
	p := &Play{store: s, id: id, file: file, State: api.RecordingCutOff}
	if tape != nil {
		p.State = api.RecordingLive
	}
	if err := p.verify(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return p, nil
}

// verify reads the file as it is now.
func (p *Play) verify() error {
	info, err := p.file.Stat()
	if err != nil {
		return err
	}
	p.length = info.Size()
	err = p.each(func(lines []byte, last bool) error {
		p.parts++
		p.Bytes += int64(len(lines))
		if last {
			p.State = api.RecordingComplete
		}
		return nil
	})
	switch {
	case errors.Is(err, errDamaged):
		p.State = api.RecordingDamaged
		p.Why = fmt.Errorf("the recording is damaged: %w", err)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		if p.State == api.RecordingCutOff {
			p.Why = errors.New("the end of the recording is missing: the gateway was killed, its disk was full, or somebody has cut the file off")
		}
	default:
		return err
	}
	return nil
}

// each gives all good parts, and then why there are no more.
func (p *Play) each(use func(lines []byte, last bool) error) error {
	from := io.NewSectionReader(p.file, 0, p.length)
	chunks, err := readHead(from, p.store.seal, p.id)
	if err != nil {
		return err
	}
	r := reader{from: from, chunks: chunks}
	for {
		lines, last, err := r.next()
		if err != nil {
			return err
		}
		if err := use(lines, last); err != nil {
			return err
		}
		if last {
			return nil
		}
	}
}

// WriteTo writes the recording as asciicast v2, as far as it is good.
func (p *Play) WriteTo(to io.Writer) (int64, error) {
	var written int64
	left := p.parts
	if left == 0 {
		return 0, nil
	}
	err := p.each(func(lines []byte, _ bool) error {
		n, err := to.Write(lines)
		written += int64(n)
		if left--; err == nil && left == 0 {
			err = errEnough
		}
		return err
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return written, err
}

var errEnough = errors.New("all good parts were read")

// Close ends the reading.
func (p *Play) Close() error { return p.file.Close() }
