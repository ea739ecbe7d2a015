// Package spool keeps records on disk until somebody has taken them: first in, first out, in a bounded folder.
//
// Each record has a number, which goes on by one, and a checksum. Records lie in segments, which are only appended to. When the
// folder is full, the oldest segment goes. Whoever reads then finds a Gap in its place, so no loss is silent. A damaged record costs
// the rest of its segment, and nothing keeps a spool from being opened.
//
// What was appended survives the end of the process. It survives the end of the machine from Sync on, and a Reader syncs before it hands
// out anything: so a number that another machine has seen is never given to another record. Besides that, a segment is synced when the
// next one begins, and when the spool is closed.
package spool

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync"

	"muster/agent/disk"
)

const (
	// MaxRecord bounds one record's data.
	MaxRecord = 1 << 20

	leastSegment = 16 << 10
	mostSegment  = 4 << 20
	perSpool     = 16 // segments that a full spool has, so that the bound drops a small part of it
	mostLost     = 16 // gaps that wait for the next record
)

// Config says where a spool is and how large it may become.
type Config struct {
	Dir   string // it need not be there; mode 0700
	Bound int64  // bytes on the disk

	Steps disk.Steps // nil: nobody is told; for tests
}

// errRemoved is what a removed spool says.
var errRemoved = errors.New("this spool was removed")

// Spool is safe for concurrent use. One process at a time may have a folder open.
type Spool struct {
	Config
	news chan struct{}

	mu        sync.Mutex
	name      string
	segments  []*segment // the oldest first
	file      *os.File   // of the last of segments; nil: the next record begins a new one
	fresh     bool       // the folder may lose that file
	next      int64      // the number of the next record
	synced    int64      // all numbers before it are on the disk
	confirmed int64      // all numbers up to it were taken
	lost      []Gap      // that the next record is to tell of
	dropped   int64
	buffer    []byte
	removed   bool

	syncing sync.Mutex // one caller waits for the disk, and the others share what it did
}

// segment is one file. All its numbers are below the first one of the next segment.
type segment struct {
	first int64
	size  int64
}

// Gap stands in the place of lost records.
type Gap struct {
	From, To int64  // the numbers that are not there
	Lost     int64  // so many records at least
	Reason   string // a word or a few
}

// Reasons of gaps that a spool itself makes.
const (
	ReasonFull    = "the spool was full"
	ReasonDamaged = "the spool was damaged"
)

// Record is what a Reader gives: data, or a Gap.
type Record struct {
	Number int64 // of a gap: its last one
	Data   []byte
	Gap    *Gap
}

// Stats is how a spool is.
type Stats struct {
	Bytes     int64
	Next      int64
	Confirmed int64
	Dropped   int64 // records that nobody took, since the spool was opened
}

// Open goes on with what is in the folder. Nothing that it finds there is an error: it leaves out what it cannot read.
func Open(c Config) *Spool {
	s := &Spool{Config: c, news: make(chan struct{}, 1), next: 1}
	s.find()
	if s.name == "" {
		s.name = newName()
		s.segments = nil
		s.next = 1
	}
	s.synced = s.next
	s.confirmed = s.readCursor()
	if s.confirmed >= s.next {
		s.next = s.confirmed + 1
		s.synced = s.next
	}
	return s
}

func newName() string {
	var random [nameBytes]byte
	rand.Read(random[:])
	return hex.EncodeToString(random[:])
}

// Name returns the spool's name, which is random. Numbers of a spool with another name mean nothing here.
func (s *Spool) Name() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.name
}

// Stats tells how the spool is.
func (s *Spool) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{Bytes: s.bytes(), Next: s.next, Confirmed: s.confirmed, Dropped: s.dropped}
}

// News returns a channel that gets an entry after records were appended. One reader can wait for it.
func (s *Spool) News() <-chan struct{} { return s.news }

// Append adds records, all or none. last is the number of the last one. After an error the spool is as before, and the caller may Lose the
// records.
func (s *Spool) Append(records ...[]byte) (last int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.removed {
		return 0, errRemoved
	}
	if len(records) == 0 {
		return s.next - 1, nil
	}
	s.gather()
	number := s.next
	for _, data := range records {
		if len(data) > MaxRecord {
			return 0, fmt.Errorf("a record of %d bytes does not go into a spool: %d is the most", len(data), MaxRecord)
		}
		s.buffer = appendRecord(s.buffer, number, kindData, data)
		number++
	}
	if err := s.write(); err != nil {
		return 0, err
	}
	s.lost = nil
	s.next = number
	s.tell()
	return number - 1, nil
}

// gather begins what is written next, with the gaps that nothing has told of.
func (s *Spool) gather() {
	s.buffer = s.buffer[:0]
	for _, g := range s.lost {
		s.buffer = appendRecord(s.buffer, g.To, kindGap, encodeGap(g))
	}
}

func (s *Spool) tell() {
	select {
	case s.news <- struct{}{}:
	default: // the reader has not seen the last news yet
	}
}

// Lose counts records that never got into the spool. They take numbers, and readers find a Gap in their place.
func (s *Spool) Lose(n int64, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose(n, n, reason)
	s.dropped += n
}

func (s *Spool) lose(numbers, lost int64, reason string) {
	if numbers <= 0 {
		return
	}
	g := Gap{From: s.next, To: s.next + numbers - 1, Lost: lost, Reason: reason}
	s.next = g.To + 1
	if last := len(s.lost) - 1; last >= 0 && (s.lost[last].Reason == reason || len(s.lost) == mostLost) {
		s.lost[last].To = g.To
		s.lost[last].Lost += lost
		return
	}
	s.lost = append(s.lost, g)
}

// Sync waits until all that was appended before is on the disk.
func (s *Spool) Sync() error {
	s.mu.Lock()
	want := s.reached()
	s.mu.Unlock()
	s.syncing.Lock()
	defer s.syncing.Unlock()
	s.mu.Lock()
	file := s.file
	fresh := s.fresh
	reached := s.reached()
	done := s.synced >= want || file == nil
	s.mu.Unlock()
	if done {
		return nil
	}
	err := s.syncFile(file, fresh)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.synced >= reached { // a new segment began meanwhile, and this one was synced for that
		return nil
	}
	if err != nil {
		return err
	}
	s.synced = reached
	s.fresh = s.fresh && s.file != file
	return nil
}

func (s *Spool) syncFile(file *os.File, fresh bool) error {
	if err := s.Steps.Sync("a segment", file); err != nil || !fresh {
		return err
	}
	return s.Steps.SyncFolder("the folder", s.Dir)
}

// Confirm says that all records up to a number were taken. It deletes segments in which no record is needed any more.
func (s *Spool) Confirm(number int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	number = min(number, s.next-1)
	if number <= s.confirmed {
		return nil
	}
	s.confirmed = number
	if s.removed {
		return nil
	}
	err := s.writeCursor() // a full disk has room again when the segments are gone
	for len(s.segments) > 1 && s.segments[1].first <= number+1 {
		if failed := s.removeFirst(); failed != nil {
			return errors.Join(err, failed)
		}
	}
	return err
}

// Close syncs and closes the spool. If it can, it writes gaps that no record has told of.
func (s *Spool) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if len(s.lost) > 0 {
		s.gather()
		if err = s.write(); err == nil {
			s.lost = nil
		}
	}
	if s.file == nil {
		return err
	}
	if failed := s.finish(); failed != nil {
		s.shut()
		return errors.Join(err, failed)
	}
	return err
}

// Remove closes the spool and deletes its files.
func (s *Spool) Remove() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil {
		s.shut()
	}
	s.segments = nil
	s.removed = true
	if err := s.Steps.At("remove all"); err != nil {
		return err
	}
	return os.RemoveAll(s.Dir)
}
