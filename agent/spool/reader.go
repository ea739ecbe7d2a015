package spool

import (
	"bufio"
	"io"
	"os"
)

// readBuffer is what a reader has in memory of a segment.
const readBuffer = 64 << 10

// Reader reads a spool from a number on. It is for one goroutine.
type Reader struct {
	spool  *Spool
	next   int64 // the number that it wants
	file   *os.File
	first  int64 // of the segment that file is of
	offset int64 // in file
}

// Reader makes a reader of all records from a number on.
func (s *Spool) Reader(from int64) *Reader { return &Reader{spool: s, next: max(from, 1)} }

// Untaken makes a reader of all records that were not confirmed.
func (s *Spool) Untaken() *Reader { return s.Reader(s.Stats().Confirmed + 1) }

// Close closes the file.
func (r *Reader) Close() {
	if r.file != nil {
		r.file.Close()
		r.file = nil
	}
}

// place is where a reader finds its next number.
type place struct {
	first     int64 // of the segment
	end       int64 // bytes of it
	synced    int64 // all numbers before it are on the disk
	following int64 // the first number behind it; 0: it is the last one
	gap       *Gap  // the number is not there any more
	none      bool  // there is nothing yet
}

// find looks up the segment with the reader's next number. What is not synced is not there yet.
func (r *Reader) find() place {
	s := r.spool
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.segments) == 0 || r.next >= s.synced {
		return place{none: true}
	}
	if first := s.segments[0].first; r.next < first {
		return place{gap: &Gap{From: r.next, To: first - 1, Lost: first - r.next, Reason: ReasonFull}}
	}
	i := len(s.segments) - 1
	for s.segments[i].first > r.next {
		i--
	}
	p := place{first: s.segments[i].first, end: s.segments[i].size, synced: s.synced}
	if i+1 < len(s.segments) {
		p.following = s.segments[i+1].first
	}
	return p
}

// Next returns the next records: at most most bytes of data, but one record at least. If there are no records, nothing is new. An error
// says that the disk does not keep what was appended: a later call returns the same records.
func (r *Reader) Next(most int) ([]Record, error) {
	if err := r.spool.Sync(); err != nil {
		return nil, err
	}
	var all []Record
	size := 0
	for size < most {
		p := r.find()
		if p.none {
			break
		}
		if p.gap != nil {
			all = append(all, r.skip(*p.gap))
			continue
		}
		got, bytes, whole := r.read(p, most-size, len(all) == 0)
		all = append(all, got...)
		size += bytes
		if whole {
			break
		}
	}
	return all, nil
}

// skip tells of a gap, and goes on behind it.
func (r *Reader) skip(g Gap) Record {
	r.next = g.To + 1
	return Record{Number: g.To, Gap: &g}
}

// read reads from one segment. enough is true when no more may be read now.
func (r *Reader) read(p place, most int, alone bool) (all []Record, size int, enough bool) {
	if r.file == nil || r.first != p.first {
		r.open(p.first)
	}
	if r.file == nil {
		return r.damaged(p)
	}
	buffered := bufio.NewReaderSize(io.NewSectionReader(r.file, r.offset, p.end-r.offset), min(readBuffer, most+recordHead))
	for {
		record, bytes, err := readRecord(buffered)
		switch {
		case err == io.EOF && p.following == 0:
			return all, size, true
		case err == io.EOF && p.following == r.next:
			r.Close()
			return all, size, false
		case err != nil:
			rest, _, enough := r.damaged(p)
			return append(all, rest...), size, enough
		case record.Number >= p.synced, size+len(record.Data) > most && !(alone && len(all) == 0):
			return all, size, true
		}
		r.offset += bytes
		if record.Number < r.next { // it was taken before this reader began
			continue
		}
		if g := between(r.next, record); g != nil {
			all = append(all, Record{Number: g.To, Gap: g})
		}
		r.next = record.Number + 1
		all = append(all, record)
		size += len(record.Data)
		if size >= most {
			return all, size, true
		}
	}
}

// between is what is missing before a record. A gap that is on record says so itself.
func between(want int64, record Record) *Gap {
	to := record.Number - 1
	if record.Gap != nil {
		to = record.Gap.From - 1
	}
	if to < want {
		return nil
	}
	return &Gap{From: want, To: to, Lost: to - want + 1, Reason: ReasonDamaged}
}

func (r *Reader) open(first int64) {
	r.Close()
	file, err := os.Open(r.spool.path(first))
	if err != nil {
		return
	}
	r.file = file
	r.first = first
	r.offset = int64(headSize)
}

// damaged goes on behind a segment that cannot be read. The segment that is appended to ends for that: what comes is in another one.
func (r *Reader) damaged(p place) (all []Record, size int, enough bool) {
	r.Close()
	following := p.following
	if following == 0 {
		following = r.spool.giveUp(p.first)
	}
	if following <= r.next {
		return nil, 0, following == r.next && p.following == 0
	}
	g := Gap{From: r.next, To: following - 1, Lost: following - r.next, Reason: ReasonDamaged}
	return []Record{r.skip(g)}, 0, false
}

// giveUp ends the last segment, if it is this one, and gives the first number behind it.
func (s *Spool) giveUp(first int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.segments) - 1
	if last < 0 || s.segments[last].first != first {
		return 0 // another one is the last by now: the reader looks again
	}
	if s.file != nil {
		s.shut()
	}
	return s.end(last)
}
