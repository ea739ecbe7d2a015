package spool

import (
	"errors"
	"os"
	"path/filepath"
)

func (s *Spool) bytes() (all int64) {
	for _, one := range s.segments {
		all += one.size
	}
	return all
}

// write puts the buffer behind the last segment, or into a new one, after it has made room.
func (s *Spool) write() error {
	size := int64(len(s.buffer))
	if s.file != nil && s.segments[len(s.segments)-1].size+size > s.segmentSize() {
		if err := s.finish(); err != nil {
			return err
		}
	}
	if err := s.makeRoom(size); err != nil {
		return err
	}
	if s.file == nil {
		if err := s.begin(); err != nil {
			return err
		}
	}
	at := s.segments[len(s.segments)-1]
	err := s.Steps.At("append")
	if err == nil {
		_, err = s.file.WriteAt(s.buffer, at.size)
	}
	if err != nil {
		s.cutBack(at)
		return err
	}
	at.size += size
	return nil
}

// cutBack removes what a failed write may have left. If that does not work, the segment takes no more, and a reader passes over it.
func (s *Spool) cutBack(at *segment) {
	err := s.Steps.At("cut")
	if err == nil {
		err = s.file.Truncate(at.size)
	}
	if err != nil {
		s.shut()
	}
}

func (s *Spool) segmentSize() int64 { return min(max(s.Bound/perSpool, leastSegment), mostSegment) }

// begin makes the next segment. An empty one that lies there is of an earlier try.
func (s *Spool) begin() error {
	first := s.next
	if len(s.lost) > 0 {
		first = s.lost[0].From
	}
	if err := s.Steps.MakeFolders(s.Dir, 0o700); err != nil {
		return err
	}
	if err := s.Steps.At("create"); err != nil {
		return err
	}
	file, err := os.OpenFile(s.path(first), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	head := encodeHead(s.name, first)
	if err = s.Steps.At("head"); err == nil {
		_, err = file.Write(head)
	}
	if err != nil {
		return errors.Join(err, file.Close(), os.Remove(s.path(first)))
	}
	s.file = file
	s.fresh = true
	s.synced = min(s.synced, first)
	s.segments = append(s.segments, &segment{first: first, size: int64(len(head))})
	return nil
}

// finish ends the segment that is appended to.
func (s *Spool) finish() error {
	if err := s.syncFile(s.file, s.fresh); err != nil {
		return err
	}
	s.shut()
	return nil
}

// shut ends the segment that is appended to, whatever the disk says.
func (s *Spool) shut() {
	_ = s.Steps.Sync("a segment that ends", s.file)
	_ = s.file.Close()
	s.file = nil
	s.fresh = false
	s.synced = s.reached()
}

// reached is the first number that is in no segment.
func (s *Spool) reached() int64 {
	if len(s.lost) > 0 {
		return s.lost[0].From
	}
	return s.next
}

// makeRoom drops the oldest segments until size more bytes fit. The one that is appended to stays.
func (s *Spool) makeRoom(size int64) error {
	for s.bytes()+size+int64(headSize) > s.Bound && (len(s.segments) > 1 || len(s.segments) == 1 && s.file == nil) {
		untaken := max(s.end(0)-max(s.segments[0].first, s.confirmed+1), 0)
		if err := s.removeFirst(); err != nil {
			return err
		}
		s.dropped += untaken
	}
	return nil
}

// end is the first number behind a segment.
func (s *Spool) end(i int) int64 {
	if i+1 < len(s.segments) {
		return s.segments[i+1].first
	}
	return s.reached()
}

func (s *Spool) removeFirst() error {
	if err := s.Steps.At("remove"); err != nil {
		return err
	}
	if err := os.Remove(s.path(s.segments[0].first)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	s.segments = s.segments[1:]
	return nil
}

func (s *Spool) path(first int64) string { return filepath.Join(s.Dir, segmentName(first)) }
