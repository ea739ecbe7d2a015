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

// Field is one value beside the message. What is no text stands as JSON.
type Field struct{ Name, Value string }

var errNoLine = errors.New("it is not a line of a log")

// Parse reads a line. It also reads the form time=... level=... msg=..., which agents wrote before they wrote JSON, and which stderr gets.
func Parse(raw []byte) (Line, error) {
	raw = bytes.TrimSpace(raw)
	if bytes.HasPrefix(raw, []byte("{")) {
		return parseJSON(raw)
	}
	return parseText(string(raw))
}

func parseJSON(raw []byte) (Line, error) {
	var l Line
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if _, err := decoder.Token(); err != nil {
		return l, err
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
		l.Level = plainLevel(value)
	case name == KeyMessage && l.Message == "":
		l.Message = value
	default:
		l.Fields = append(l.Fields, Field{name, value})
	}
}

// plainLevel is one of the four words; WARN+1 is warn.
func plainLevel(value string) string {
	word := strings.ToLower(value)
	if at := strings.IndexAny(word, "+-"); at > 0 {
		word = word[:at]
	}
	return word
}

// parseText reads key=value, where a value may be quoted as Go quotes it.
func parseText(text string) (Line, error) {
	var l Line
	for text != "" {
		name, rest, ok := strings.Cut(text, "=")
		if !ok || name == "" || strings.ContainsAny(name, " \t\"") {
			return Line{}, errNoLine
		}
		value, after, err := textValue(rest)
		if err != nil {
			return Line{}, err
		}
		l.put(name, value)
		text = strings.TrimLeft(after, " ")
	}
	if l.Time.IsZero() {
		return Line{}, errNoLine
	}
	return l, nil
}

func textValue(text string) (value, rest string, err error) {
	if !strings.HasPrefix(text, `"`) {
		value, rest, _ = strings.Cut(text, " ")
		return value, rest, nil
	}
	quoted, err := strconv.QuotedPrefix(text)
	if err != nil {
		return "", "", err
	}
	value, err = strconv.Unquote(quoted)
	return value, text[len(quoted):], err
}

// Plain is a line of the file as people read it: in the form that stderr gets. What is no line stays as it is.
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
