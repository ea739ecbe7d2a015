package logs

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"muster/agent/wire"
	"muster/gateway/internal/cli"
	"muster/gateway/internal/cli/screen"
)

// printer prints lines of several nodes, each whole. It is safe for concurrent use. Nothing that a node sends can control a terminal.
type printer struct {
	*cli.Session
	json    bool
	zone    *time.Location
	colours bool
	sources bool // lines say their source
	several bool // lines say their node

	mu sync.Mutex
}

const formatText = "text"

func newPrinter(s *cli.Session, sources bool) (*printer, error) {
	var o struct {
		UTC bool `flag:"utc"`
	}
	if err := s.Flags.Into(&o); err != nil {
		return nil, err
	}
	p := &printer{Session: s, json: s.Form == cli.FormJSON, zone: time.Local, sources: sources}
	if o.UTC {
		p.zone = time.UTC
	}
	p.colours = s.Screen() > 0 && s.Getenv("TERM") != "dumb" && s.Getenv("NO_COLOR") == ""
	return p, nil
}

// nodeLine is a line as -o json has it.
type nodeLine struct {
	Node string `json:"node"`
	wire.LogLine
}

func (p *printer) line(node string, l wire.LogLine) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.json {
		return p.WriteJSON(nodeLine{node, l})
	}
	_, err := fmt.Fprintln(p.Stdout, p.prefix(node)+p.text(l))
	return err
}

// say prints something about the reading itself.
func (p *printer) say(node, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintln(p.Stderr, "muster: "+p.prefix(node)+text)
}

func (p *printer) prefix(node string) string {
	if !p.several {
		return ""
	}
	return screen.Printable(node) + ": "
}

// Colours of a terminal (ECMA-48).
const (
	red    = "31"
	yellow = "33"
	faint  = "2"
)

func (p *printer) colour(code, text string) string {
	if !p.colours || code == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (p *printer) text(l wire.LogLine) string {
	at := p.colour(faint, l.Time.In(p.zone).Format("2006-01-02 15:04:05.000"))
	switch {
	case l.Dropped > 0:
		return at + p.colour(yellow, " --- "+p.missing(l))
	case l.Source == wire.LogGateway:
		return at + p.colour(yellow, " --- "+tidy(l.Message))
	}
	text := at + p.colour(levelColour(l.Level), fmt.Sprintf(" %-5s ", screen.Printable(l.Level)))
	if p.sources {
		text += screen.Printable(l.Source) + " "
	}
	text += tidy(l.Message)
	if l.Cut > 0 {
		text += p.colour(yellow, fmt.Sprintf(" [%d more bytes]", l.Cut))
	}
	return text + p.colour(faint, fields(l.Fields))
}

func levelColour(level string) string {
	switch level {
	case "error":
		return red
	case "warn":
		return yellow
	case "debug":
		return faint
	}
	return ""
}

// missing says how many lines are missing, and why.
func (p *printer) missing(l wire.LogLine) string {
	what := "1 line is missing here"
	if l.Dropped != 1 {
		what = fmt.Sprintf("%d lines are missing here", l.Dropped)
	}
	if p.sources {
		what = screen.Printable(l.Source) + ": " + what
	}
	if l.Message != "" {
		what += ": " + tidy(l.Message)
	}
	return what
}

// tidy is text of a node that can be shown.
func tidy(text string) string {
	return screen.Printable(strings.ReplaceAll(strings.TrimRight(text, "\r\n"), "\t", "    "))
}

// fields are NAME=VALUE, in the order of their names.
func fields(all map[string]string) string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		value := tidy(all[name])
		if value == "" || strings.ContainsAny(value, ` "=`) {
			value = strconv.Quote(value)
		}
		text.WriteString(" " + tidy(name) + "=" + value)
	}
	return text.String()
}
