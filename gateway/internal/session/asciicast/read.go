package asciicast

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
)

// Event is one line behind the header.
type Event struct {
	At   time.Duration // since the beginning
	Kind string
	Data string
}

// Size returns the size in an event of the kind Resize.
func (e Event) Size() (rows, columns int, ok bool) {
	n, err := fmt.Sscanf(e.Data, "%dx%d", &columns, &rows)
	return rows, columns, e.Kind == Resize && n == 2 && err == nil && rows > 0 && columns > 0
}

// Decoder reads a recording, whoever wrote it.
type Decoder struct {
	lines *bufio.Reader
	last  time.Duration
	count int // lines so far
}

// longestRead is how long a line may be that is read: other programs write longer ones.
const longestRead = 1 << 20

// longestTime is how late an event may be.
const longestTime = 1000 * time.Hour

// NewDecoder reads the header of a recording.
func NewDecoder(from io.Reader) (*Decoder, Header, error) {
	d := &Decoder{lines: bufio.NewReaderSize(from, 64<<10)}
	line, err := d.line()
	if err != nil {
		return nil, Header{}, err
	}
	var h Header
	if err := json.Unmarshal(line, &h); err != nil {
		return nil, h, fmt.Errorf("this is no recording: its first line is no header: %w", err)
	}
	if h.Version != version {
		return nil, h, fmt.Errorf("the recording is of version %d of asciicast: only version %d can be read", h.Version, version)
	}
	return d, h, nil
}

// Next returns the next event, and io.EOF after the last one.
func (d *Decoder) Next() (Event, error) {
	line, err := d.line()
	if err != nil {
		return Event{}, err
	}
	var parts []json.RawMessage
	if err := json.Unmarshal(line, &parts); err != nil || len(parts) != 3 {
		return Event{}, d.wrong("is no event")
	}
	var seconds float64
	var e Event
	if json.Unmarshal(parts[0], &seconds) != nil || seconds < 0 || math.IsNaN(seconds) || seconds > longestTime.Seconds() {
		return Event{}, d.wrong("has no time")
	}
	if errors.Join(json.Unmarshal(parts[1], &e.Kind), json.Unmarshal(parts[2], &e.Data)) != nil {
		return Event{}, d.wrong("has no text")
	}
	d.last = max(d.last, time.Duration(seconds*float64(time.Second)))
	e.At = d.last
	return e, nil
}

func (d *Decoder) wrong(what string) error {
	return fmt.Errorf("the recording is damaged: line %d %s", d.count, what)
}

// line gives the next line that is not empty.
func (d *Decoder) line() ([]byte, error) {
	for {
		line, err := d.whole()
		if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
			return nil, err
		}
		d.count++
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, nil
		}
	}
}

func (d *Decoder) whole() ([]byte, error) {
	var line []byte
	for {
		part, err := d.lines.ReadSlice('\n')
		if len(line)+len(part) > longestRead {
			return nil, fmt.Errorf("the recording is damaged: line %d is longer than %d bytes", d.count+1, longestRead)
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}
