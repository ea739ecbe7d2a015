package logfile

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// Keys of a line. Each line is one JSON object. These three come first, and then the fields, each under its own name. They are stable:
// whoever reads the file, on the node or behind a shipper of logs, goes by them.
const (
	KeyTime    = slog.TimeKey    // RFC 3339, UTC, with milliseconds
	KeyLevel   = slog.LevelKey   // debug, info, warn or error
	KeyMessage = slog.MessageKey // a sentence
)

// timeForm is RFC 3339 with milliseconds.
const timeForm = "2006-01-02T15:04:05.000Z07:00"

// NewLogger logs to stderr, as text for people, and to the file. If stderr fails, the file still gets every line. Neither gets a secret.
func NewLogger(level slog.Level, stderr io.Writer, file *File) *slog.Logger {
	text := slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level, ReplaceAttr: file.textAttr})
	lines := slog.NewJSONHandler(file, &slog.HandlerOptions{Level: level, ReplaceAttr: file.jsonAttr})
	return slog.New(both{text, lines, file})
}

// both gives each record to stderr and to the file.
type both struct {
	text, lines slog.Handler
	file        *File
}

// Enabled reports whether records of this level are logged: both handlers have the same level.
func (b both) Enabled(ctx context.Context, level slog.Level) bool { return b.lines.Enabled(ctx, level) }

// Handle writes a record. What may be the last word of this process goes to the disk soon.
func (b both) Handle(ctx context.Context, r slog.Record) error {
	_ = b.text.Handle(ctx, r)
	err := b.lines.Handle(ctx, r)
	if r.Level >= slog.LevelWarn {
		b.file.syncSoon()
	}
	return err
}

// WithAttrs implements slog.Handler.
func (b both) WithAttrs(attrs []slog.Attr) slog.Handler {
	return both{b.text.WithAttrs(attrs), b.lines.WithAttrs(attrs), b.file}
}

// WithGroup implements slog.Handler.
func (b both) WithGroup(name string) slog.Handler {
	return both{b.text.WithGroup(name), b.lines.WithGroup(name), b.file}
}

// Hide masks these secrets wherever they stand, in place of those of the last call. What looks like a secret is masked without it.
func (l *File) Hide(secrets ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.masker = NewMasker(secrets...)
}

func (l *File) mask() Masker {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.masker
}

func (l *File) textAttr(groups []string, a slog.Attr) slog.Attr {
	if own(groups, a) {
		return a
	}
	if value := a.Value.Resolve(); value.Kind() == slog.KindAny {
		a.Value = slog.StringValue(fmt.Sprintf("%+v", value.Any()))
	}
	return l.masked(a)
}

func (l *File) jsonAttr(groups []string, a slog.Attr) slog.Attr {
	value := a.Value.Resolve()
	switch {
	case own(groups, a) && value.Kind() == slog.KindTime:
		return slog.String(a.Key, value.Time().UTC().Format(timeForm))
	case own(groups, a):
		return slog.String(a.Key, levelWord(value))
	case value.Kind() == slog.KindDuration:
		return slog.String(a.Key, value.Duration().String()) // as people read it on stderr
	case value.Kind() == slog.KindAny:
		a.Value = slog.AnyValue(l.plain(a.Key, value.Any()))
		return a
	}
	return l.masked(a)
}

// own tells whether a value is the time or the level of the record itself. A field may have the same name.
func own(groups []string, a slog.Attr) bool {
	if len(groups) > 0 {
		return false
	}
	_, level := a.Value.Any().(slog.Level)
	return a.Key == KeyTime && a.Value.Kind() == slog.KindTime || a.Key == KeyLevel && level
}

// levelWord is one of four words, also for a level between two of them.
func levelWord(value slog.Value) string {
	level, _ := value.Any().(slog.Level)
	switch {
	case level >= slog.LevelError:
		return "error"
	case level >= slog.LevelWarn:
		return "warn"
	case level >= slog.LevelInfo:
		return "info"
	}
	return "debug"
}

// plain is a value of any kind without secrets, as JSON has it.
func (l *File) plain(key string, value any) any {
	switch v := value.(type) {
	case error:
		return l.mask().Value(key, v.Error())
	case fmt.Stringer:
		return l.mask().Value(key, v.String())
	}
	raw, err := json.Marshal(map[string]any{key: value})
	if err == nil {
		raw, err = l.mask().JSON(raw)
	}
	var whole map[string]json.RawMessage
	if err == nil {
		err = json.Unmarshal(raw, &whole)
	}
	if err != nil {
		return "(a value that cannot be written: " + strings.TrimSpace(fmt.Sprintf("%T", value)) + ")"
	}
	return whole[key]
}

func (l *File) masked(a slog.Attr) slog.Attr {
	if value := a.Value.Resolve(); value.Kind() == slog.KindString {
		return slog.String(a.Key, l.mask().Value(a.Key, value.String()))
	}
	return a
}
