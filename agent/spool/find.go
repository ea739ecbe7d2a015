package spool

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// cursorName is the file that says up to where records were taken. It may be lost: then some are read again.
const cursorName = "taken"

// find looks for the segments of the folder. Those of the spool that wrote last count. Others, and those with a damaged head, are
// deleted: a reader finds a gap where they were.
func (s *Spool) find() {
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return
	}
	names := map[int64]string{}
	last := &segment{}
	for _, e := range entries { // sorted by name, so by number
		first, ok := segmentFirst(e.Name())
		if !ok {
			continue
		}
		name, size := readHead(s.path(first), first)
		last = &segment{first: first, size: size}
		s.segments = append(s.segments, last)
		names[first] = name
		if name != "" {
			s.name = name
		}
	}
	s.segments = slices.DeleteFunc(s.segments, func(one *segment) bool {
		foreign := names[one.first] != s.name || s.name == ""
		if foreign && one.size > 0 {
			_ = os.Remove(s.path(one.first))
		}
		return foreign
	})
	s.goOn()
	s.passOver(last)
}

// passOver leaves out the numbers that a damaged segment behind all others may have had.
func (s *Spool) passOver(last *segment) {
	behind := last.first + last.size/recordHead + 1
	if names := len(s.segments); names > 0 && last.first > s.segments[names-1].first && behind > s.next {
		s.lose(behind-s.next, 1, ReasonDamaged)
		s.dropped++
	}
}

// readHead gives the spool's name that a file's head says, "" where the head is damaged or not of this file.
func readHead(path string, first int64) (name string, size int64) {
	file, err := os.Open(path)
	if err != nil {
		return "", 0
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", 0
	}
	head := make([]byte, headSize)
	if _, err := io.ReadFull(file, head); err != nil {
		return "", info.Size()
	}
	name, said, ok := decodeHead(head)
	if !ok || said != first {
		return "", info.Size()
	}
	return name, info.Size()
}

// goOn finds the next number behind the last segment. A damaged end of it held records whose numbers nobody knows: so many as its bytes
// could hold are passed over. A segment without a record is made again.
func (s *Spool) goOn() {
	last := len(s.segments) - 1
	if last < 0 {
		return
	}
	at := s.segments[last]
	s.next = at.first
	read, whole := s.scan(at)
	if s.next == at.first {
		s.segments = s.segments[:last]
	}
	if !whole {
		s.lose((at.size-read)/recordHead+1, 1, ReasonDamaged)
		s.dropped++
	}
}

// scan reads a segment for its numbers. whole is false if it has a damaged record, behind so many bytes.
func (s *Spool) scan(at *segment) (read int64, whole bool) {
	read = int64(headSize)
	file, err := os.Open(s.path(at.first))
	if err != nil {
		return read, false
	}
	defer file.Close()
	buffered := bufio.NewReaderSize(io.NewSectionReader(file, read, at.size-read), readBuffer)
	for {
		record, size, err := readRecord(buffered)
		if err == io.EOF {
			return read, true
		}
		if err != nil || record.Number < s.next {
			return read, false
		}
		s.next = record.Number + 1
		read += size
	}
}

func (s *Spool) cursor() string { return filepath.Join(s.Dir, cursorName) }

// writeCursor does not wait for the disk: a cursor that is too old costs some records that are taken twice.
func (s *Spool) writeCursor() error {
	if err := s.Steps.At("cursor"); err != nil {
		return err
	}
	text := fmt.Sprintf("%s %d", s.name, s.confirmed)
	beside := s.cursor() + ".new"
	if err := os.WriteFile(beside, fmt.Appendf(nil, "%s %08x\n", text, checksum([]byte(text))), 0o600); err != nil {
		return err
	}
	if err := s.Steps.At("cursor's name"); err != nil {
		return err
	}
	return os.Rename(beside, s.cursor())
}

// readCursor gives the number up to which all is taken, as far as it is known.
func (s *Spool) readCursor() int64 {
	least := int64(0)
	if len(s.segments) > 0 {
		least = s.segments[0].first - 1
	}
	text, err := os.ReadFile(s.cursor())
	if err != nil || len(text) > 200 {
		return least
	}
	return max(least, parseCursor(text, s.name))
}

// parseCursor is 0 for what is not a cursor of this spool.
func parseCursor(text []byte, name string) int64 {
	fields := strings.Fields(string(text))
	if len(fields) != 3 || fields[0] != name {
		return 0
	}
	number, err := strconv.ParseInt(fields[1], 10, 64)
	sum, odd := strconv.ParseUint(fields[2], 16, 32)
	if err != nil || odd != nil || number < 0 || checksum(fmt.Appendf(nil, "%s %d", name, number)) != uint32(sum) {
		return 0
	}
	return number
}
