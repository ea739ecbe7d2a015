package logs

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"muster/agent/wire"
)

const (
	// slack is how much more than a line's limit is looked at, so that a secret at the cut is seen whole.
	slack = 4 << 10
	// maxText is how much of a line without a form of its own is kept.
	maxText = wire.MaxLogLine + slack
	// maxName and maxValue bound a field, in bytes.
	maxName  = 64
	maxValue = 1 << 10
)

// line makes what leaves this machine: masked, bounded, and text that every reader takes.
func (r *Reader) line(e entry) wire.LogLine {
	l := wire.LogLine{Time: e.at.UTC(), Source: r.source, Level: e.level, Dropped: e.dropped}
	if e.at.IsZero() {
		l.Time = r.now().UTC()
	}
	raw := strings.TrimRight(e.text, "\r\n")
	if len(raw) > maxText {
		e.left += len(raw) - maxText
		raw = raw[:maxText]
	}
	if l.Level == "" && e.dropped == 0 {
		l.Level = levelIn(raw)
	}
	text := r.stream.Line(printable(raw))
	limit := wire.MaxLogLine
	if e.left > 0 {
		limit = min(limit, max(len(text)-slack, 0)) // what stands at the end may be half a secret
	}
	l.Message = wire.Head(text, limit)
	if missing := len(text) - len(l.Message) + e.left; missing > 0 {
		l.Cut = missing
	}
	for _, f := range e.fields[:min(len(e.fields), wire.MaxLogFields)] {
		if l.Fields == nil {
			l.Fields = map[string]string{}
		}
		value := r.masker.Value(f.name, printable(wire.Head(f.value, maxValue+slack)))
		l.Fields[wire.Head(printable(f.name), maxName)] = wire.Head(value, maxValue)
	}
	return l
}

// printable is a text that is valid UTF-8 and has no NUL, which some readers take for an end. Other control characters stay: who shows a
// line to a person makes them harmless.
func printable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, string(utf8.RuneError)), "\x00", string(utf8.RuneError))
}

// levelIn finds the level in a message that has a form: JSON, or level=word as slog and logrus write it. It is empty if there is none.
func levelIn(text string) string {
	if strings.HasPrefix(text, "{") {
		var said struct {
			Level    any `json:"level"`
			Severity any `json:"severity"`
			Lvl      any `json:"lvl"`
		}
		if json.Unmarshal([]byte(text), &said) != nil {
			return ""
		}
		for _, one := range []any{said.Level, said.Severity, said.Lvl} {
			if word, ok := one.(string); ok {
				return levelWord(word)
			}
		}
		return ""
	}
	if !strings.HasPrefix(text, "time=") && !strings.HasPrefix(text, "level=") {
		return ""
	}
	_, after, found := strings.Cut(" "+text, " level=")
	if !found {
		return ""
	}
	return levelWord(after[:len(after)-len(strings.TrimLeftFunc(after, letter))])
}

func letter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

// levelWord is one of wire.LogLevels for the words that programs use; empty for another word.
func levelWord(word string) string {
	switch strings.ToLower(word) {
	case "trace", "debug":
		return "debug"
	case "info", "information", "notice":
		return "info"
	case "warn", "warning":
		return "warn"
	case "error", "err", "fatal", "panic", "critical", "crit", "alert", "emergency", "emerg":
		return "error"
	}
	return ""
}

// syslogLevel maps the levels of syslog, which the kernel and the journal have.
func syslogLevel(level int) string {
	switch {
	case level < 0 || level > 7:
		return ""
	case level <= 3:
		return "error"
	case level == 4:
		return "warn"
	case level <= 6:
		return "info"
	}
	return "debug"
}

// splitter makes lines of bytes that come in pieces.
type splitter interface {
	feed(data []byte, give func(one) error) error
	flush(give func(one) error) error // what stands behind the last line break
}

// cutter makes lines of bytes that come in pieces. It keeps at most most bytes of each.
type cutter struct {
	most int
	kept []byte
	size int64 // bytes of the line so far
}

// one is a whole line.
type one struct {
	text []byte // good until the next line
	left int    // bytes behind it that were not kept
	size int64  // with the line break
}

func (c *cutter) feed(data []byte, give func(one) error) error {
	for len(data) > 0 {
		part, rest, whole := bytes.Cut(data, []byte("\n"))
		take := min(len(part), c.most-len(c.kept))
		c.kept = append(c.kept, part[:take]...)
		c.size += int64(len(part))
		if !whole {
			return nil
		}
		data = rest
		if err := c.end(1, give); err != nil {
			return err
		}
	}
	return nil
}

// flush gives what stands behind the last line break.
func (c *cutter) flush(give func(one) error) error {
	if c.size == 0 {
		return nil
	}
	return c.end(0, give)
}

func (c *cutter) end(lineBreak int64, give func(one) error) error {
	line := one{text: c.kept, left: int(c.size) - len(c.kept), size: c.size + lineBreak}
	c.kept = c.kept[:0]
	c.size = 0
	return give(line)
}
