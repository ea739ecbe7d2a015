// Package asciicast writes and reads recordings of terminals in the format asciicast v2: a line with a header, and then a line for each
// event. Every line is JSON. asciinema and other players read it.
package asciicast

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"muster/agent/wire"
)

const version = 2

// Kinds of events.
const (
	Output = "o" // what the terminal showed
	Resize = "r" // the terminal's new size, such as 80x24
	Marker = "m" // a note, such as how the program ended
)

// Header is the first line.
type Header struct {
	Version   int               `json:"version"`
	Width     int               `json:"width"`
	Height    int               `json:"height"`
	Timestamp int64             `json:"timestamp,omitempty"` // when it began, in seconds since 1970
	Title     string            `json:"title,omitempty"`
	Command   string            `json:"command,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
}

// longest is how many bytes of output go into one event. Each can take six in JSON.
const longest = 4 << 10

// MaxLine is the length of the longest line that an Encoder writes, in bytes.
const MaxLine = 6*(longest+utf8.UTFMax) + 64

// Encoder makes the lines of a recording.
//
// The lines are UTF-8, and a terminal's bytes may not be. A character whose bytes come in two pieces goes whole into the later event. A
// byte that is no part of a character is replaced by U+FFFD, and no other byte is.
type Encoder struct {
	began time.Time
	last  time.Duration // of the latest event: the time never runs back
	held  []byte        // the beginning of a character whose end has not come
	out   bytes.Buffer
	json  *json.Encoder
}

// NewEncoder makes the encoder of a recording that began then.
func NewEncoder(began time.Time) *Encoder {
	e := &Encoder{began: began}
	e.json = json.NewEncoder(&e.out)
	e.json.SetEscapeHTML(false)
	return e
}

// Header returns the first line. Its version and its time are set here.
func (e *Encoder) Header(h Header) []byte {
	h.Version = version
	h.Timestamp = e.began.Unix()
	h.Title = wire.Head(h.Title, mostText)
	h.Command = wire.Head(h.Command, mostText)
	return e.line(h)
}

// mostText bounds a text that comes from a node or an operator, so that the header stays a short line.
const mostText = 1024

// Output returns the lines for what a terminal showed. There may be none: it waits for the rest of a character.
func (e *Encoder) Output(at time.Time, data []byte) [][]byte {
	data = append(e.held, data...)
	cut := len(data) - unfinished(data)
	e.held = append([]byte(nil), data[cut:]...)
	return e.pieces(at, data[:cut])
}

func (e *Encoder) pieces(at time.Time, data []byte) [][]byte {
	var lines [][]byte
	for len(data) > 0 {
		size := min(len(data), longest)
		if size < len(data) {
			size -= unfinished(data[:size])
		}
		lines = append(lines, e.event(at, Output, string(data[:size])))
		data = data[size:]
	}
	return lines
}

// unfinished is how many bytes at the end begin a character that more bytes could complete.
func unfinished(data []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(data); n++ {
		tail := data[len(data)-n:]
		if utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// Resize returns the line for a new size.
func (e *Encoder) Resize(at time.Time, rows, columns int) []byte {
	return e.event(at, Resize, fmt.Sprintf("%dx%d", columns, rows))
}

// End returns the last lines: what was held back, and a note.
func (e *Encoder) End(at time.Time, note string) [][]byte {
	lines := e.pieces(at, e.held)
	e.held = nil
	if note != "" {
		lines = append(lines, e.event(at, Marker, wire.Head(note, mostText)))
	}
	return lines
}

func (e *Encoder) event(at time.Time, kind, data string) []byte {
	e.last = max(e.last, at.Sub(e.began))
	return e.line([]any{json.Number(fmt.Sprintf("%.6f", e.last.Seconds())), kind, data})
}

// line makes a line of a value that JSON can always hold.
func (e *Encoder) line(value any) []byte {
	e.out.Reset()
	if err := e.json.Encode(value); err != nil {
		return nil
	}
	return bytes.Clone(e.out.Bytes())
}
