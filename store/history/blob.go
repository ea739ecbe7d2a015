package history

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"
)

// A blob is a row of frames, so that one can be appended to what is there. A frame is
//
//	1 byte   its kind, which is also the version of its form
//	varint   the length of the body
//	body
//	4 bytes  the CRC-32C of kind and body, the low byte first
//
// A reader that finds a frame which it does not know, or that is damaged, stops there.
const (
	kindSamples = 1 // see samples.go
	kindPoints  = 2 // see points.go; the body is compressed
)

// Bounds of what is read from a file. Nothing that is written comes near them.
const (
	mostBody    = 1 << 20 // bytes of a frame, compressed or not
	mostSamples = 64      // of one frame; more make another frame
	mostPoints  = 60      // minutes of an hour; a day has fewer hours
	mostGPUs    = 256     // of one node, in all its life

	longestInterval = 1 << 30 // seconds
)

// ErrDamaged says that a blob ends in bytes that are no frame. The frames before them are good.
var ErrDamaged = errors.New("the samples are damaged, or a newer muster wrote them")

var polynomial = crc32.MakeTable(crc32.Castagnoli)

func appendFrame(blob []byte, kind byte, body []byte) []byte {
	blob = append(blob, kind)
	blob = binary.AppendUvarint(blob, uint64(len(body)))
	blob = append(blob, body...)
	return binary.LittleEndian.AppendUint32(blob, checksum(kind, body))
}

func checksum(kind byte, body []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte{kind}, polynomial), polynomial, body)
}

// frames reads the bodies of a blob's frames, which all are of one kind. After an error what came before it is good.
func frames[T any](blob []byte, kind byte, read func(body []byte) ([]T, error)) (all []T, err error) {
	for len(blob) > 0 {
		length, n := binary.Uvarint(blob[1:])
		rest := blob[1+max(n, 0):]
		if n <= 0 || length > mostBody || uint64(len(rest)) < length+crc32.Size {
			return all, fmt.Errorf("%w: it is cut off", ErrDamaged)
		}
		body := rest[:length]
		if blob[0] != kind || binary.LittleEndian.Uint32(rest[length:]) != checksum(kind, body) {
			return all, fmt.Errorf("%w: a checksum is wrong", ErrDamaged)
		}
		some, err := read(body)
		if err != nil {
			return all, err
		}
		all = append(all, some...)
		blob = rest[length+crc32.Size:]
	}
	return all, nil
}

// scanner reads numbers from a body. After the first one that is not there, all are 0, and bad is true.
type scanner struct {
	text []byte
	bad  bool
}

func (s *scanner) byte() byte {
	if len(s.text) == 0 {
		s.bad = true
		return 0
	}
	b := s.text[0]
	s.text = s.text[1:]
	return b
}

func (s *scanner) number() int64 {
	v, n := binary.Varint(s.text)
	if n <= 0 {
		s.bad = true
		s.text = nil
		return 0
	}
	s.text = s.text[n:]
	return v
}

// count reads a number from 0 to most.
func (s *scanner) count(most int) int {
	v := s.number()
	if v < 0 || v > int64(most) {
		s.bad = true
		s.text = nil
		return 0
	}
	return int(v)
}

// interval reads seconds.
func (s *scanner) interval(seconds int64) time.Duration {
	if seconds < 0 || seconds > longestInterval {
		s.bad = true
		return 0
	}
	return time.Duration(seconds) * time.Second
}

func (s *scanner) end() error {
	if s.bad || len(s.text) > 0 {
		return fmt.Errorf("%w: a frame does not hold what it says", ErrDamaged)
	}
	return nil
}

// compress is at the level that pays: a higher one takes twice the time for a few bytes in a hundred.
func compress(body []byte) []byte {
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.DefaultCompression)
	if err == nil {
		_, err = w.Write(body)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		panic(err) // a buffer takes everything
	}
	return out.Bytes()
}

func expand(body []byte) ([]byte, error) {
	out, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(body)), mostBody+1))
	if err != nil || len(out) > mostBody {
		return nil, fmt.Errorf("%w: a frame does not expand", ErrDamaged)
	}
	return out, nil
}
