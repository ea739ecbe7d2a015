package logs

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"muster/agent/disk"
	"muster/agent/internal/logfile"
	"muster/agent/wire"
)

// follower reads a log in the form of the agent's own: first the older file, then the newer one, and then what comes.
type follower struct {
	path string
	ask  Ask
	now  func() time.Time
	pace time.Duration
	over func() bool // nothing more comes; nil: there may always be more

	current *opened
	since   time.Time
	started bool      // a line was not too old, or all that was there has been read: so a clock that is set back hides nothing
	at      time.Time // of the last line
	missed  string    // a sentence about lines that may be missing, to be said first
	lost    int64     // how many they are; 0: nobody knows
	data    []byte    // what is read at once
}

// opened is one file, and how far it was read.
type opened struct {
	file   *os.File
	inode  uint64
	offset int64 // of the next byte to read
	behind int64 // behind the last whole line
	head   []byte
	lines  cutter
}

const (
	maxFileLine = 512 << 10 // bytes of a line of JSON
	maxHead     = 128       // bytes by which a file is known again
)

// begin finds where to read from.
func (f *follower) begin() error {
	f.since = f.ask.Since
	older, err := openFile(logfile.Older(f.path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	newer, err := openFile(f.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		older.close()
		return err
	}
	if older == nil && newer == nil {
		return wire.Refuse(wire.CodeNotFound, "the agent has no log file on this node: there is none at "+f.path,
			"muster-agent status on the node says why")
	}
	f.choose(older, newer)
	return nil
}

// choose takes the file of the place that was asked for, else the oldest.
func (f *follower) choose(older, newer *opened) {
	place, known := parseFilePlace(f.ask.After)
	for _, one := range []*opened{newer, older} {
		if known && one != nil && one.seek(place) {
			f.current = one
			f.started = true
		}
	}
	if f.current == nil && known {
		f.since = place.at
		f.missed = "the log was replaced since it was last read: lines may be missing here"
	}
	if f.current == nil && older != nil {
		f.current = older
	}
	if f.current == nil {
		f.current = newer
	}
	for _, one := range []*opened{newer, older} {
		if one != f.current {
			one.close()
		}
	}
}

func openFile(path string) (*opened, error) {
	file, info, err := disk.OpenFile(path)
	if err != nil {
		return nil, err
	}
	return &opened{file: file, inode: inode(info), lines: cutter{most: maxFileLine}}, nil
}

func inode(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Ino
	}
	return 0
}

func (o *opened) close() {
	if o != nil {
		o.file.Close()
	}
}

// read is the feed.
func (f *follower) read(ctx context.Context, give func(entry) error) error {
	defer func() { f.current.close() }()
	f.data = make([]byte, 32<<10)
	if f.missed != "" {
		if err := give(entry{at: f.now(), dropped: max(f.lost, 1), text: f.missed}); err != nil {
			return err
		}
	}
	for {
		if f.over != nil && f.over() { // before the rest is read: nothing comes after that
			f.ask.Follow = false
		}
		if err := f.drain(ctx, give); err != nil {
			return err
		}
		moved, err := f.goOn(ctx, give)
		if moved && err == nil {
			continue
		}
		if err != nil || !f.ask.Follow {
			return err
		}
		f.started = true
		select {
		case <-time.After(f.pace):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// goOn takes the file that follows the one that was read to its end, or begins anew with one that was truncated. moved says that there may
// be more to read. If there is none and nobody follows, what stands behind the last line break is given too.
func (f *follower) goOn(ctx context.Context, give func(entry) error) (moved bool, err error) {
	next, err := f.successor()
	if err != nil {
		return false, err
	}
	line := func(l one) error { return f.line(l, give) }
	switch {
	case next != nil:
		err := f.drain(ctx, give) // what came before it was replaced
		if err == nil {
			err = f.current.lines.flush(line)
		}
		f.current.close()
		f.current = next
		return true, err
	case !f.ask.Follow:
		return false, f.current.lines.flush(line)
	}
	info, err := f.current.file.Stat()
	if err != nil || info.Size() >= f.current.offset {
		return false, err
	}
	f.current.rewind()
	return true, give(entry{at: f.now(), dropped: 1, text: "the log was truncated while it was read: lines may be missing here"})
}

// successor is the file that comes after the current one; nil: it is the newest, or the new one is not there yet.
func (f *follower) successor() (*opened, error) {
	if f.is(f.path) {
		return nil, nil
	}
	path := logfile.Older(f.path)
	if f.is(path) {
		path = f.path
	}
	next, err := openFile(path)
	if errors.Is(err, fs.ErrNotExist) && path != f.path {
		next, err = openFile(f.path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return next, err
}

// is tells whether the current file is at a path.
func (f *follower) is(path string) bool {
	info, err := os.Stat(path)
	return err == nil && inode(info) == f.current.inode
}

// drain reads the current file to its end.
func (f *follower) drain(ctx context.Context, give func(entry) error) error {
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		n, err := f.current.file.ReadAt(f.data, f.current.offset)
		f.current.note(f.data[:n])
		if err := f.current.lines.feed(f.data[:n], func(l one) error { return f.line(l, give) }); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (f *follower) line(l one, give func(entry) error) error {
	o := f.current
	o.behind += l.size
	e := entry{text: string(l.text), left: l.left}
	if read, err := logfile.Parse(l.text); err == nil && l.left == 0 {
		f.at = read.Time
		e.text = read.Message
		e.level = levelWord(read.Level)
		for _, one := range read.Fields {
			e.fields = append(e.fields, field{one.Name, one.Value})
		}
	}
	e.at = f.at
	if !f.started && f.at.Before(f.since) {
		return nil
	}
	f.started = true
	e.place = o.place(f.at).String()
	return give(e)
}

// note keeps the file's first bytes and counts what was read.
func (o *opened) note(data []byte) {
	if room := maxHead - len(o.head); room > 0 && o.offset == int64(len(o.head)) {
		o.head = append(o.head, data[:min(room, len(data))]...)
	}
	o.offset += int64(len(data))
}

func (o *opened) rewind() {
	o.offset = 0
	o.behind = 0
	o.head = nil
	o.lines = cutter{most: maxFileLine}
}

// filePlace is a place in a file. The number of a file's inode is used again after the file is gone, so its first bytes count too.
type filePlace struct {
	inode  uint64
	behind int64
	sum    uint32 // of the first bytes, as far as the place
	at     time.Time
}

const ofFile = "file"

func (p filePlace) String() string {
	return fmt.Sprintf("%s:%d:%d:%d:%d", ofFile, p.inode, p.behind, p.sum, uint64(p.at.UnixNano()))
}

func parseFilePlace(text string) (p filePlace, ok bool) {
	n := placeNumbers(text, ofFile)
	if len(n) != 4 || int64(n[1]) < 0 {
		return filePlace{}, false
	}
	return filePlace{n[0], int64(n[1]), uint32(n[2]), time.Unix(0, int64(n[3]))}, true
}

// placeNumbers are the numbers in a place of this kind; nil: it is another kind's, or none.
func placeNumbers(text, kind string) (all []uint64) {
	rest, ours := strings.CutPrefix(text, kind+":")
	if !ours {
		return nil
	}
	for part := range strings.SplitSeq(rest, ":") {
		n, err := strconv.ParseUint(part, 10, 64)
		if err != nil {
			return nil
		}
		all = append(all, n)
	}
	return all
}

func (o *opened) place(at time.Time) filePlace {
	return filePlace{o.inode, o.behind, crc32.ChecksumIEEE(o.head[:min(int64(len(o.head)), o.behind)]), at}
}

// seek goes to a place, if it is one of this file.
func (o *opened) seek(p filePlace) bool {
	if o.inode != p.inode {
		return false
	}
	head := make([]byte, min(p.behind, maxHead))
	if _, err := io.ReadFull(io.NewSectionReader(o.file, 0, p.behind), head); err != nil || crc32.ChecksumIEEE(head) != p.sum {
		return false
	}
	info, err := o.file.Stat()
	if err != nil || info.Size() < p.behind {
		return false
	}
	o.head = head
	o.offset = p.behind
	o.behind = p.behind
	return true
}
