package logfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"
)

// Line is one line of the file, read.
type Line struct {
	Time    time.Time // zero: the line does not say it
	Level   string
	Message string
	Fields  []Field // in their order
}

// Field is one value beside the message. A value that is not a text is JSON.
type Field struct{ Name, Value string }

var errNoLine = errors.New("it is not a line of a log")

// Parse reads a line.
func Parse(raw []byte) (Line, error) {
	var l Line
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if begin, err := decoder.Token(); err != nil || begin != json.Delim('{') {
		return l, errNoLine
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return l, err
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return l, err
		}
		name, _ := key.(string) // a key of JSON is a text
		l.put(name, plainText(value))
	}
	if _, err := decoder.Token(); err != nil {
		return l, err
	}
	if l.Time.IsZero() {
		return l, errNoLine
	}
	return l, nil
}

// plainText is a text itself, and anything else as JSON.
func plainText(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}

// put takes the first value of each key that says something of the line itself. All others are fields.
func (l *Line) put(name, value string) {
	switch {
	case name == KeyTime && l.Time.IsZero():
		at, err := time.Parse(time.RFC3339Nano, value)
		if err == nil {
			l.Time = at.UTC()
		}
	case name == KeyLevel && l.Level == "":
		l.Level = value
	case name == KeyMessage && l.Message == "":
		l.Message = value
	default:
		l.Fields = append(l.Fields, Field{name, value})
	}
}

// Plain returns a line of the file as people read it: in the form that stderr gets. A text that is not such a line stays unchanged.
func Plain(raw []byte) string {
	l, err := Parse(raw)
	if err != nil {
		return string(raw)
	}
	var out strings.Builder
	out.WriteString("time=" + l.Time.UTC().Format(timeForm) + " level=" + strings.ToUpper(l.Level) + " msg=" + quoted(l.Message))
	for _, f := range l.Fields {
		out.WriteString(" " + f.Name + "=" + quoted(f.Value))
	}
	return out.String()
}

// quoted puts a value in quotes where it could be misread without them.
func quoted(value string) string {
	if value == "" || strings.ContainsAny(value, " \t\"=\\") || strconv.Quote(value) != `"`+value+`"` {
		return strconv.Quote(value)
	}
	return value
}
