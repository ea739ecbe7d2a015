package picture

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"muster/agent/wire"
)

// LogRow is one line of a log as a page shows it. Its texts have nothing in them that a browser would not draw.
type LogRow struct {
	Time   string // of the day, UTC
	Exact  string // the whole time, and when the gateway had it
	Level  string
	Class  string // "missing" says that lines are missing here, or what happened to the stream
	Source string
	Text   string
	Fields string
}

// LogRowOf says what a page shows of a line.
func LogRowOf(l wire.LogLine) LogRow {
	at := l.Time.UTC()
	row := LogRow{Time: at.Format("15:04:05.000"), Exact: at.Format("2006-01-02 15:04:05.000 UTC"), Level: l.Level, Class: l.Level,
		Source: Drawn(l.Source), Text: Drawn(l.Message)}
	if l.Received != nil {
		row.Exact += ", here " + l.Received.UTC().Format(time.TimeOnly)
	}
	switch {
	case l.Dropped > 0:
		row.Class = "missing"
		row.Text = fmt.Sprintf("%d missing here: %s", l.Dropped, row.Text)
	case l.Source == wire.LogGateway:
		row.Class = "missing"
	case l.Cut > 0:
		row.Text += fmt.Sprintf(" [%d more bytes]", l.Cut)
	}
	for _, name := range slices.Sorted(maps.Keys(l.Fields)) {
		row.Fields += " " + Drawn(name) + "=" + Drawn(l.Fields[name])
	}
	row.Fields = strings.TrimPrefix(row.Fields, " ")
	return row
}

// Drawn shows characters that nobody sees, or that would move others, by their numbers: a terminal's escape is \u001b.
func Drawn(text string) string {
	if strings.IndexFunc(text, undrawn) < 0 {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		if undrawn(r) {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

// undrawn is true for controls, for what changes the direction of a text, and for what stands for a broken character.
func undrawn(r rune) bool {
	return r != '\t' && (unicode.Is(unicode.C, r) || r == unicode.ReplacementChar || r == '\u2028' || r == '\u2029')
}

// LogSources returns the sources that a page offers. A unit and a workload need their name behind it.
func LogSources() []string {
	return []string{wire.LogAgent, wire.LogKernel, wire.LogBoot, wire.LogUnit, wire.LogWorkload}
}
