package recording

import (
	"crypto/cipher"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/session/asciicast"
)

// ErrFull is the error of a recording that has reached its greatest size.
var ErrFull error = wire.Refuse(wire.CodeUnavailable, "the recording of this session is full",
	"open a new session; muster serve --recording-max bounds one recording")

// ErrNoRoom is the error of a recording that needs room while the recordings of open sessions use all of it.
var ErrNoRoom error = wire.Refuse(wire.CodeUnavailable, "the recordings of sessions that go on have all the room there is for recordings",
	"end some of them (muster session ls); muster serve --recordings-quota bounds all recordings")

// ErrUnwritten is wrapped by the error of a recording that the disk did not take.
var ErrUnwritten = errors.New("the recording of this session cannot be written")

func unwritten(err error) error {
	if err == nil || errors.Is(err, ErrUnwritten) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnwritten, err)
}

// Tape is the recording of one session while it goes on. It is safe for concurrent use. After the first error nothing more is recorded.
type Tape struct {
	store  *Store
	id     string // of the session
	file   *os.File
	most   int64
	chunks cipher.AEAD
	lines  *asciicast.Encoder
	taken  int64 // bytes that the store counts for it; guarded by the store's lock

	mu      sync.Mutex
	pending []byte // lines that are not in the file, at most gather and one piece of output
	timer   *time.Timer
	number  uint64 // of the next chunk
	written int64  // bytes in the file, all in whole chunks
	failed  error  // why nothing more is recorded
	broken  bool   // the file takes no chunk any more
	ended   bool
}

func (t *Tape) begin(head []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.write(head); err != nil {
		return err
	}
	if err := t.flush(false); err != nil {
		return err
	}
	return t.store.Disk.Sync("the head of a recording", t.file)
}

// Output records what the terminal shows. It is called before the person sees it.
func (t *Tape) Output(at time.Time, data []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed != nil {
		return t.failed
	}
	for _, line := range t.lines.Output(at, data) {
		if err := t.add(line); err != nil {
			return err
		}
	}
	return nil
}

// Size records that the terminal has another size.
func (t *Tape) Size(at time.Time, rows, columns int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed != nil {
		return t.failed
	}
	return t.add(t.lines.Resize(at, rows, columns))
}

// End closes the recording. note says how the session ended. The second call does nothing.
func (t *Tape) End(at time.Time, note string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return nil
	}
	t.ended = true
	for _, line := range t.lines.End(at, note) {
		t.pending = append(t.pending, line...)
	}
	err := t.flush(true)
	if err == nil {
		err = t.store.Disk.Sync("a recording", t.file)
	}
	err = errors.Join(err, t.file.Close())
	if t.failed == nil {
		t.failed = os.ErrClosed
	}
	t.store.forget(t, t.written)
	return err
}

// add takes a line. It is in the file a second later, or sooner where there are many.
func (t *Tape) add(line []byte) error {
	size := t.written + sealedSize(len(t.pending)+len(line)) + reserve
	if size > t.most {
		t.failed = ErrFull
	} else {
		t.failed = t.store.grow(t, size)
	}
	if t.failed != nil {
		return t.failed
	}
	t.pending = append(t.pending, line...)
	if len(t.pending) >= gather {
		return t.flush(false)
	}
	if t.timer == nil {
		t.timer = time.AfterFunc(flushAfter, t.sync)
	}
	return nil
}

// sealedSize is more than so many bytes of lines take in the file.
func sealedSize(lines int) int64 {
	chunks := lines/(maxChunk-asciicast.MaxLine) + 1
	return int64(lines + chunks*(chunkHead+chunkTag))
}

// sync brings into the file what is known: a second after it came, and for somebody who reads the file while it grows.
func (t *Tape) sync() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended && len(t.pending) > 0 {
		_ = t.flush(false) // the next output says so
	}
}

// flush writes the lines that wait as one chunk. A chunk that does not get into the file whole is cut off again. Its number is never used
// for another one, because a number is also a nonce: so the tape is broken.
func (t *Tape) flush(last bool) error {
	if t.timer != nil {
		t.timer.Stop() // else many of them run at once, and each cuts a chunk short
		t.timer = nil
	}
	if t.broken {
		return t.failed
	}
	chunk := sealChunk(nil, t.chunks, t.number, t.pending, last)
	t.pending = nil
	t.number++
	return t.write(chunk)
}

func (t *Tape) write(data []byte) error {
	_, err := t.file.WriteAt(data, t.written)
	if err != nil {
		t.broken = true
		t.failed = unwritten(errors.Join(err, t.file.Truncate(t.written)))
		return t.failed
	}
	t.written += int64(len(data))
	return nil
}
