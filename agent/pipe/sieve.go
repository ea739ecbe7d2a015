package pipe

import (
	"encoding/binary"
	"fmt"
)

// Sieve reads frames out of bytes that come in pieces of any length, and skips frames that nobody wants. It keeps one frame at most. The
// zero value wants nothing. An error is final.
type Sieve struct {
	Wants func(FrameKind) bool // it is asked with each frame

	kept []byte // of the frame that has begun: its head, and its data where it is wanted
	skip int    // bytes of data that are passed over
}

// Feed takes the next bytes and calls each with every wanted frame that is complete. Its data is good until each returns.
func (s *Sieve) Feed(data []byte, each func(FrameKind, []byte)) error {
	for len(data) > 0 {
		if s.skip > 0 {
			gone := min(s.skip, len(data))
			s.skip -= gone
			data = data[gone:]
			continue
		}
		missing := s.missing()
		n := min(missing, len(data))
		s.kept = append(s.kept, data[:n]...)
		data = data[n:]
		if n < missing {
			return nil
		}
		if err := s.step(each); err != nil {
			return err
		}
	}
	return nil
}

// missing is how many bytes the head needs, or else the frame.
func (s *Sieve) missing() int {
	if len(s.kept) < frameHead {
		return frameHead - len(s.kept)
	}
	return frameHead + s.size() - len(s.kept)
}

func (s *Sieve) size() int { return int(binary.BigEndian.Uint32(s.kept[1:])) }

// step is called when the head is complete, and when the frame is.
func (s *Sieve) step(each func(FrameKind, []byte)) error {
	kind := FrameKind(s.kept[0])
	size := s.size()
	switch {
	case size > MaxFrame:
		return fmt.Errorf("a frame of %d bytes: at most %d", size, MaxFrame)
	case len(s.kept) == frameHead+size:
		data := s.kept[frameHead:]
		s.kept = nil // an idle session keeps no memory
		if s.wants(kind) {
			each(kind, data)
		}
	case !s.wants(kind):
		s.kept = nil
		s.skip = size
	}
	return nil
}

func (s *Sieve) wants(kind FrameKind) bool { return s.Wants != nil && s.Wants(kind) }
