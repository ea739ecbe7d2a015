package process

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"muster/agent/disk"
	"muster/agent/internal/logfile"
	"muster/agent/wire"
)

const (
	// MostOutput is how much of a run's output is kept, in bytes: a file, and an older one of the same size beside it.
	MostOutput = 2 * mostOutput
	mostOutput = 16 << 20
	// mostLine is where a line that does not end is cut, in bytes.
	mostLine = 64 << 10
	// cutFile says how many lines of the output are not kept.
	cutFile = "cut"
)

// output keeps what a run writes, as lines with their times: in the form of the agent's own log, so that the same reader follows both. A
// disk that takes nothing does not hold the program up: the lines are lost, and counted.
type output struct {
	folder string
	most   int64 // 0: mostOutput
	now    func() time.Time

	mu    sync.Mutex // guards all below
	file  *os.File
	size  int64
	lines int64  // in the file
	older int64  // in the file before it
	lost  int64  // not kept
	held  []byte // of a line that has not ended

	returned bool // the last line was ended by a carriage return
}

// Write takes what comes. A carriage return ends a line too, because progress bars end their lines so.
func (o *output) Write(data []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	size := len(data)
	for len(data) > 0 {
		end := bytes.IndexAny(data, "\r\n")
		part := data
		if end >= 0 {
			part = data[:end]
		}
		for len(o.held)+len(part) > mostLine {
			take := mostLine - len(o.held)
			o.held = append(o.held, part[:take]...)
			part = part[take:]
			o.flush()
		}
		o.held = append(o.held, part...)
		if end < 0 {
			break
		}
		switch {
		case data[end] == '\n' && o.returned && len(o.held) == 0: // of a line that the carriage return has ended
			o.returned = false
		case data[end] == '\n' || len(o.held) > 0:
			o.line()
			o.returned = data[end] == '\r'
		}
		data = data[end+1:]
	}
	return size, nil
}

// flush ends a line that has no end.
func (o *output) flush() {
	if len(o.held) > 0 {
		o.line()
	}
}

func (o *output) line() {
	raw, err := json.Marshal(map[string]any{logfile.KeyTime: o.now().UTC().Format(time.RFC3339Nano), logfile.KeyMessage: string(o.held)})
	o.held = o.held[:0]
	if err == nil {
		err = o.append(append(raw, '\n'))
	}
	if err != nil {
		o.lost++
		o.note()
	}
}

// append writes a line. If the file would be too long, a new one begins, and the older one goes.
func (o *output) append(line []byte) error {
	path := filepath.Join(o.folder, outputFile)
	if o.file != nil && o.size+int64(len(line)) > cmp.Or(o.most, mostOutput) {
		o.file.Close()
		o.file = nil
		if err := os.Rename(path, logfile.Older(path)); err != nil {
			// The bound counts for more than the lines.
			if os.Truncate(path, 0) != nil {
				return err
			}
			o.lost += o.lines
		} else {
			o.lost += o.older
			o.older = o.lines
		}
		o.lines = 0
		o.note()
	}
	if err := o.open(); err != nil {
		return err
	}
	n, err := o.file.Write(line)
	if err != nil && n > 0 { // half a line would spoil the next one
		_ = o.file.Truncate(o.size)
		n = 0
	}
	o.size += int64(n)
	if err == nil {
		o.lines++
	}
	return err
}

// open begins the file, if there is none.
func (o *output) open() error {
	if o.file == nil {
		file, err := os.OpenFile(filepath.Join(o.folder, outputFile), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		info, err := file.Stat()
		if err != nil {
			file.Close()
			return err
		}
		o.file = file
		o.size = info.Size() // more than nothing, if the file before could not be put aside
	}
	return nil
}

// note says on the disk how many lines are not kept. It may fail as the lines did: the next one says it again.
func (o *output) note() {
	_ = disk.ReplaceSoon(filepath.Join(o.folder, cutFile), []byte(strconv.FormatInt(o.lost, 10)), 0o600)
}

// dropOlder gives the room of the older file back, if there is one.
func (o *output) dropOlder() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if os.Remove(logfile.Older(filepath.Join(o.folder, outputFile))) != nil {
		return false
	}
	o.lost += o.older
	o.older = 0
	o.note()
	return true
}

// close ends the last line, and brings all to the disk.
func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flush()
	if o.file != nil {
		_ = disk.Steps(nil).Sync("the output of a run", o.file)
		o.file.Close()
	}
}

// Output says where the output of a run is, how many lines of it are not kept, and whether the run has ended. It is good until the run is
// removed.
type Output struct {
	Path string // the newer file: logfile.Older is the one before
	Cut  int64
	Over func() bool
}

// Output finds what a run has written.
func (h Host) Output(name string) (Output, error) {
	r, err := h.read(name)
	if err != nil {
		return Output{}, err
	}
	raw, _ := disk.ReadFile(filepath.Join(r.folder, cutFile), maxFile)
	cut, _ := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
	return Output{filepath.Join(r.folder, outputFile), max(cut, 0), func() bool {
		now, err := h.read(name)
		return err != nil || now.Task != r.Task || now.State != wire.RunRunning
	}}, nil
}

// Tail writes the last lines of a run's output, without their times. more is true if there are lines before them.
func (o Output) Tail(lines int, to io.Writer) (more bool, err error) {
	var texts []string
	for _, path := range []string{logfile.Older(o.Path), o.Path} {
		raw, err := disk.ReadEnd(path, 0, mostTail)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return false, err
		}
		info, err := os.Stat(path)
		more = more || err == nil && info.Size() > int64(len(raw))
		for line := range bytes.Lines(raw) {
			if l, err := logfile.Parse(bytes.TrimSuffix(line, []byte("\n"))); err == nil {
				texts = append(texts, l.Message)
			}
		}
	}
	more = more || o.Cut > 0 || len(texts) > lines
	texts = texts[max(len(texts)-lines, 0):]
	for _, text := range texts {
		if _, err := io.WriteString(to, text+"\n"); err != nil {
			return more, err
		}
	}
	return more, nil
}

// mostTail is how much of each file Tail reads, in bytes: more than a task's output keeps.
const mostTail = 1 << 20
